"""Paid MCP tools, examples of templates and sign-ins: over HTTP, on pages and to agents."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from indexer.__main__ import main
from indexer.probing.targets import find_targets
from service.snapshot import open_snapshot
from tests.support.running import Json, build_records
from tests.support.sources.x402 import SERVER, TOOL, accept, resource, tool, v2

HINTS = {"auth-hints": {"info": {"authRequirements": [{"methods": [{"type": "oauth2"}]}]}}}
PLACES = "https://api.places.example/v1/places/:place"
LISBON = "https://api.places.example/v1/places/lisbon"
OTHER = "https://mcp.other.example"
OPEN = "https://api.open.example/v1/soil"
CLOSED = "https://api.closed.example/v1/soil"
RESOURCES = [
    tool(accept("2000"), server=SERVER, serviceName="Weather"),
    tool(accept("3000", payTo="0xSecond"), server=f"{OTHER}/a", serviceName="Second seller"),
    tool(accept("4000"), server="https://third.example/m", url="mcp://tool/a%3Cb%3E", name="a<b>"),
    tool(accept(payTo=""), url="mcp://tool/orphan", name="orphan"),
    v2({"type": "mcp", "toolName": "tides"}) | {"type": "mcp", "resource": "https://sea.example/m"},
    v2({"method": "GET"}, exampleUrl=LISBON) | {"resource": PLACES, "description": "A place"},
    resource(OPEN, description="Soil survey"),
    resource(CLOSED, description="Soil survey", extensions=HINTS),
    resource("https://wallet.example/soil", description="Soil survey", requires=["sign-in-with-x"]),
]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts of the resources."""
    return build_records(tmp_path_factory.mktemp("calls"), RESOURCES, "--no-downloads")


def get(client: httpx.Client, path: str, **parameters: Any) -> Json:
    response = client.get(path, params=parameters)
    assert response.status_code == 200, response.text
    body: Json = response.json()
    return body


def test_the_type_mcp_finds_the_tools_of_all_sellers(client: httpx.Client) -> None:
    listed = get(client, "/discovery/resources", type="mcp")["items"]
    assert [each["resource"] for each in listed].count(TOOL) == 2
    assert len(listed) == 4
    assert len({each["ratecard"]["service"] for each in listed}) == 4
    servers = {each["ratecard"]["tool"].get("server") for each in listed}
    assert servers == {SERVER, f"{OTHER}/a", "https://third.example/m", "https://sea.example/m"}
    found = get(client, "/discovery/search", type="mcp", query="forecast")["resources"]
    assert {each["resource"] for each in found[:2]} == {TOOL}


def test_tools_are_found_by_their_texts(client: httpx.Client) -> None:
    found = get(client, "/v1/search/endpoints", q="forecast tomorrow's weather")["endpoints"]
    assert [each["url"] for each in found[:2]] == [TOOL, TOOL]
    assert len({each["service"]["id"] for each in found[:2]}) == 2


def test_records_have_no_facts_of_calls(client: httpx.Client) -> None:
    for service in get(client, "/v1/services", limit=200)["services"]:
        assert "ratecard" not in service
        for endpoint in service["endpoints"]:
            known = {"url", "method", "pricing", "description", "parameters", "payTo", "tool"}
            assert endpoint.keys() <= known | {"serviceName"}


def test_endpoints_that_require_a_registration_can_be_left_out(client: httpx.Client) -> None:
    def urls(**parameters: Any) -> set[str]:
        found = get(client, "/v1/search/endpoints", perService=0, **parameters)["endpoints"]
        return {each["url"] for each in found}

    requiring = {CLOSED, "https://wallet.example/soil"}
    assert urls(q="soil survey", registration="true") == urls(registration="true") == requiring
    assert OPEN in urls(q="soil survey", registration="false")
    assert urls(registration="false").isdisjoint(requiring)
    assert urls(registration="false", network="base").isdisjoint(requiring)
    assert urls(registration="true", network="base", maxPrice="1") == requiring
    assert client.get("/v1/search/endpoints?registration=perhaps").status_code == 400


@pytest.mark.parametrize("path", ["/discovery/resources", "/discovery/search"])
def test_resources_that_require_a_registration_can_be_left_out(
    client: httpx.Client, path: str
) -> None:
    members = {"/discovery/resources": "items", "/discovery/search": "resources"}
    with_one, without = (
        get(client, path, registration=flag)[members[path]] for flag in ("true", "false")
    )
    assert {each["resource"] for each in with_one} == {CLOSED, "https://wallet.example/soil"}
    assert all(each["ratecard"]["requires"] for each in with_one)
    assert len(without) == len(RESOURCES) - 3  # two, and the tool without a server
    assert all("requires" not in each["ratecard"] for each in without)


def test_an_identifier_of_a_tool_has_the_fates_of_all_sellers(
    client: httpx.Client, published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = get(client, "/v1/listings", url="MCP://tool/forecast")
    assert (report["url"], report["listed"]) == (TOOL, True)
    listed = get(client, "/discovery/resources", type="mcp")["items"]
    sellers = {each["ratecard"]["service"] for each in listed if each["resource"] == TOOL}
    fates = [*report["fates"], *report["notes"]]
    places = {(each["service"], each["endpoint"]) for each in fates if "service" in each}
    assert places == {(seller, 0) for seller in sellers}
    assert {each["fate"] for each in report["fates"]} == {"published"}
    assert "not_named" not in {each["code"] for each in report["advice"]}
    assert get(client, "/v1/listings", url=SERVER)["listed"]
    page = client.get("/listed", params={"url": TOOL}).text
    assert all(seller in page for seller in sellers)
    assert not re.search(r"href=.?mcp:", page, re.IGNORECASE)
    assert main(["why", TOOL, "--artifacts", str(published)]) == 0
    assert capsys.readouterr().out.startswith(f"{TOOL}: listed\n")


def test_an_identifier_of_a_tool_that_is_not_listed_says_why(client: httpx.Client) -> None:
    report = get(client, "/v1/listings", url="mcp://tool/orphan")
    (fate,) = report["fates"]
    assert (report["listed"], fate["fate"]) == (False, "left out")
    assert "names no server" in fate["reason"]
    unknown = get(client, "/v1/listings", url="mcp://tool/unknown")
    assert (unknown["listed"], unknown["fates"]) == (False, [])
    assert [each["code"] for each in unknown["advice"]] == ["not_named"]


def test_pages_show_tools_examples_and_sign_ins_and_link_to_none(client: httpx.Client) -> None:
    services = get(client, "/v1/services", limit=200)["services"]
    paths = ["/endpoints", *(f"/services/{each['id']}" for each in services)]
    text = "\n".join(client.get(path).text for path in paths)
    assert not re.search(r"href=.?mcp:", text, re.IGNORECASE)
    assert f"MCP tool forecast of {SERVER}, over streamable-http" in text
    assert "MCP tool a&lt;b&gt; of https://third.example/m, over" in text
    assert f"For example <code>{LISBON}</code>" in text
    assert "Register or sign in before paying, by <bdi>oauth2</bdi>" in text
    assert "curl -i mcp:" not in text
    assert "https://sea.example/m -d" not in text


def test_a_probe_visits_no_tool_and_the_example_of_a_template(published: Path) -> None:
    targets = [*find_targets(open_snapshot(published), post=True)]
    visited = {each.url: each.origin + each.rest for each in targets if each.origin}
    assert visited[PLACES] == LISBON
    assert visited[OPEN] == OPEN
    skipped = {each.url for each in targets} - visited.keys()
    assert skipped == {TOOL, "mcp://tool/a%3Cb%3E", "https://sea.example/m"}
