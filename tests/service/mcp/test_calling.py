"""How to call paid MCP tools, templates, and endpoints that want a sign-in first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from tests.support.clients.mcp import call_in_process, structured, text_of
from tests.support.running import Json, build_records, endpoint, service
from tests.support.sources.x402 import SERVER, TOOL, accept, resource, tool, v2

LISBON = "https://api.places.example/v1/places/lisbon"
REQUIRED = [{"acceptIndexes": [0], "methods": [{"type": "oauth2"}, {"type": "sign-in-with-x"}]}]
RESOURCES = [
    tool(accept("2000"), server=SERVER, serviceName="Weather"),
    tool(accept("3000", payTo="0xSecond"), server="https://two.example/m", serviceName="Second"),
    tool(accept("5000"), server="https://sea.example/m", url="mcp://tool/tide", name="tide"),
    v2({"method": "GET"}, exampleUrl=LISBON)
    | {"resource": "https://api.places.example/v1/places/:place"},
    resource(
        "https://closed.example/soil",
        accept(),
        accept(network="eip155:137", asset="0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359"),
        extensions={"auth-hints": {"info": {"authRequirements": REQUIRED}}},
    ),
]


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts of the resources."""
    return build_records(tmp_path_factory.mktemp("calling"), RESOURCES, "--no-downloads")


def instructions(artifacts: Path, query: str, price: float, **arguments: Any) -> Json:
    """Return the instructions for the endpoint of this price."""
    rows = structured(artifacts, "search_endpoints", query=query)["endpoints"]
    (row,) = [each for each in rows if each["price_usd"] == price]
    return structured(artifacts, "how_to_call", endpoint=row["id"], **arguments)


def test_a_tool_is_called_with_arguments_and_paid_in_meta(artifacts: Path) -> None:
    found = instructions(artifacts, "forecast", 0.002, values={"city": "Lisbon"})
    assert found["url"] == TOOL
    assert found["curl"] == ""
    call = found["tool"]
    assert (call["name"], call["server"], call["transport"]) == (
        "forecast",
        SERVER,
        "streamable-http",
    )
    assert call["arguments"] == {"city": "Lisbon"}
    assert '_meta["x402/payment"]' in call["payment"]
    assert "@x402/mcp" in found["pays_with"]
    assert found["accepts"][0]["amount"] == "2000"


def test_an_identifier_of_one_seller_is_enough(artifacts: Path) -> None:
    assert (
        structured(artifacts, "how_to_call", endpoint="mcp://tool/tide")["tool"]["name"] == "tide"
    )


def test_an_identifier_that_several_sellers_have_asks_for_an_id(artifacts: Path) -> None:
    result = call_in_process(artifacts, "how_to_call", endpoint=TOOL)
    assert result.is_error
    assert "2 sellers have a tool of this name" in text_of(result)


def test_a_template_has_an_example_that_can_be_called(artifacts: Path) -> None:
    found = structured(
        artifacts, "how_to_call", endpoint="https://api.places.example/v1/places/:place"
    )
    assert found["example_url"] == LISBON
    assert "tool" not in found
    assert "first_register_or_sign_in" not in found


def test_a_sign_in_comes_first(artifacts: Path) -> None:
    found = structured(artifacts, "how_to_call", endpoint="https://closed.example/soil")
    methods = ["oauth2", "sign-in-with-x"]
    assert found["first_register_or_sign_in"] == [{"methods": methods, "some": True}]


def test_agents_leave_out_endpoints_that_require_a_sign_in(artifacts: Path) -> None:
    def urls(**arguments: bool) -> list[str]:
        found = structured(artifacts, "search_endpoints", query="soil", **arguments)["endpoints"]
        return [each["url"] for each in found]

    assert urls() == urls(registration=True) == ["https://closed.example/soil"]
    assert urls(registration=False) == []


def test_a_long_way_to_pay_is_shown_without_its_schema_and_hides_no_other(
    tmp_path: Path,
) -> None:
    schema = {"output": {"example": "x" * 5000}}
    accepts = [
        accept("1000", outputSchema=schema | {"note": "x" * 5000}),
        accept("2000", outputSchema=schema),
        accept("3000", payTo="0x" + "a" * 9000),
        accept("4000", outputSchema=schema),
        accept("5000"),
    ]
    built = build_records(tmp_path, [resource("https://a.example/tide", *accepts)])
    found = structured(built, "how_to_call", endpoint="https://a.example/tide")
    amounts = {each["amount"]: "outputSchema" in each for each in found["accepts"]}
    assert amounts == {"1000": False, "2000": True, "4000": False, "5000": False}
    assert found["accepts"][1] == accepts[1]
    assert found["accepts_left_out"] == 1
    assert "warnings" not in found


def test_a_payee_that_has_no_room_is_listed_nevertheless(tmp_path: Path) -> None:
    long = accept(extra={"note": "x" * 9000})
    built = build_records(tmp_path, [resource("https://a.example/tide", long)])
    found = structured(built, "how_to_call", endpoint="https://a.example/tide")
    assert (found["accepts"], found["accepts_left_out"]) == ([], 1)
    assert "warnings" not in found


@pytest.mark.parametrize(("group", "kind"), [("path", "array"), ("query", "string"), ("", "")])
@pytest.mark.parametrize("text", ["", ".", ".."])
def test_no_value_of_a_placeholder_names_another_path(
    group: str, kind: str, text: str, tmp_path: Path
) -> None:
    described = [{"group": group, "name": "id", "type": kind}] if group else []
    call = endpoint() | {"url": "https://a.example/v1/{id}/x", "parameters": described}
    built = build_records(tmp_path, [service(endpoints=[call])])

    def values(text: str) -> Json:
        return {"endpoint": call["url"], "values": {"id": [text] if kind == "array" else text}}

    refused = call_in_process(built, "how_to_call", **values(text))
    assert refused.is_error
    assert "`id` would name another path" in text_of(refused)
    found = structured(built, "how_to_call", **values("../a"))
    assert "https://a.example/v1/..%2Fa/x" in found["curl"]


def test_a_placeholder_of_the_query_takes_any_text(tmp_path: Path) -> None:
    described = [{"group": "query", "name": "q", "type": "string"}]
    call = endpoint() | {"url": "https://a.example/v1?q={q}", "parameters": described}
    built = build_records(tmp_path, [service(endpoints=[call])])
    found = structured(built, "how_to_call", endpoint=call["url"], values={"q": ".."})
    assert found["curl"] == "curl -i 'https://a.example/v1?q=..'"
