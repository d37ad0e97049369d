"""Built catalogues: bodies and schemes wherever a user meets them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from indexer.__main__ import main
from tests.support.clients.mcp import structured
from tests.support.intake import CatalogueFolder, source
from tests.support.running import Json, serve
from tests.support.sources.x402 import accept, resource

HOST = "https://up.example"
CALLS: dict[str, Json] = {
    "form": {"bodyType": "form-data", "body": {"title": "A cat"}},
    "text": {"bodyType": "text", "body": "A cat"},
    "list": {"bodyType": "json", "body": ["a", "b"]},
    "odd": {"bodyType": "application/x-thrift", "body": {"a": 1}},
}
SENT = {
    "form": "-F 'title=A cat'",
    "text": "--data-binary 'A cat'",
    "list": """-d '["a","b"]'""",
}


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = CatalogueFolder(tmp_path_factory.mktemp("bodies"))
    feed = [
        resource(
            f"{HOST}/{name}", extensions={"bazaar": {"info": {"input": {"method": "POST"} | call}}}
        )
        for name, call in CALLS.items()
    ]
    feed += [
        resource(f"https://pay.example/{scheme}", accept("100000", scheme=scheme), method="GET")
        for scheme in ("batch-settlement", "keeta-usdc")
    ]
    assert folder.build(source("feed", feed, kind="resources")) == 0
    return folder.artifacts


def test_bodies_are_sent_in_their_form_by_all_who_say_how(
    artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(artifacts) as client:
        page = client.get("/services/up-example").text.replace("&#39;", "'").replace("&#34;", '"')
        document = client.get("/v1/services/up-example/openapi.json").json()
    assert main(["show", "up-example", "--artifacts", str(artifacts)]) == 0
    shown = capsys.readouterr().out
    for name, words in SENT.items():
        how = structured(artifacts, "how_to_call", endpoint=f"{HOST}/{name}")
        assert words in how["curl"], name
        assert words in page, name
        assert words in shown, name
    how = structured(artifacts, "how_to_call", endpoint=f"{HOST}/odd")
    assert how["curl"] == ""
    assert how["body_type"] == "application/x-thrift"
    assert "no command here can write" in how["warnings"][0]
    assert "no command here can write" in page
    assert "no command here can write" in shown
    bodies = {
        path: each["post"]["requestBody"]["content"] for path, each in document["paths"].items()
    }
    assert {path: [*content] for path, content in bodies.items()} == {
        "/form": ["multipart/form-data"],
        "/text": ["text/plain"],
        "/list": ["application/json"],
        "/odd": ["application/x-thrift"],
    }
    assert bodies["/list"]["application/json"]["schema"]["type"] == "array"


def test_a_scheme_decides_what_an_amount_means(
    artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(artifacts) as client:
        service = client.get("/v1/services/pay-example").json()["service"]
        page = client.get("/services/pay-example").text
        document = client.get("/v1/services/pay-example/openapi.json").json()
        cheap = client.get("/v1/search/endpoints", params={"maxPrice": "0.1", "network": "base"})
    assert main(["show", "pay-example", "--artifacts", str(artifacts)]) == 0
    shown = capsys.readouterr().out
    for text in (page, shown):
        assert "at most 0.1" in text
        assert "by keeta-usdc" in text
    assert service["priceSummary"]["avgCostBasis"] == "varies"
    prices = [each["get"]["x-payment-info"]["price"] for each in document["paths"].values()]
    assert [each.get("mode") for each in prices] == ["dynamic", None]
    urls = {each["url"] for each in cheap.json()["endpoints"]}
    assert {f"https://pay.example/{each}" for each in ("batch-settlement", "keeta-usdc")} <= urls


def test_a_feed_with_unknown_members_is_read_and_they_are_counted(
    catalogue: CatalogueFolder,
) -> None:
    feed = [resource(f"{HOST}/{number}", priceHint="x") for number in range(3)]
    assert catalogue.build(source("feed", feed, kind="resources")) == 0
    with serve(catalogue.artifacts) as client:
        notes = client.get("/v1/listings", params={"url": f"{HOST}/0"}).json()["notes"]
    assert [each["path"] for each in notes] == ["$.priceHint"]
