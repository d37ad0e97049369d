"""Builds from directories of MPP: services by path, ways to pay, units and status."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from tests.support.artifacts import records_of
from tests.support.clients.mcp import structured
from tests.support.intake import CatalogueFolder, source
from tests.support.running import Build
from tests.support.sources.mpp import (
    EMPTY,
    MAPS,
    RECIPIENT,
    TALK,
    TEMPO,
    USDC_E,
    directory,
    endpoint,
    service,
)
from tests.support.sources.x402 import accept, resource

SEARCH = "https://mpp.example/maps/search"
SAY = "https://mpp.example/talk/say"
SCAN = "https://mpp.example/Maps/scan"
NEAR = "https://mpp.example/mapsearch"


def urls_of(artifacts: Path) -> dict[str, set[str]]:
    return {
        name: {each["url"] for each in found["endpoints"]}
        for name, found in records_of(artifacts).items()
    }


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts of a directory beside a feed of the same host."""
    folder = CatalogueFolder(tmp_path_factory.mktemp("mpp"))
    aged = service("Aged", endpoint("/survey"), description="Soil survey", status="deprecated")
    fresh = service("Fresh", endpoint("/survey"), description="Soil survey", status="active")
    alone = service("Alone", endpoint(), serviceUrl="https://alone.example")
    given = directory(MAPS, TALK, EMPTY, aged, fresh, alone)
    feed = [resource(url, accept("20000")) for url in (SCAN, NEAR, SAY)]
    sources = source("directory", [given]), source("feed", feed, kind="resources")
    assert folder.build(*sources) == 0
    return folder.artifacts


def test_services_of_one_host_are_apart_and_feeds_join_them(published: Path) -> None:
    assert urls_of(published) == {
        "mpp-example-maps": {SEARCH, "https://mpp.example/maps/places/:id", SCAN},
        "mpp-example-talk": {SAY, "https://mpp.example/talk/hear"},
        "mpp-example-aged": {"https://mpp.example/aged/survey"},
        "mpp-example-fresh": {"https://mpp.example/fresh/survey"},
        "alone-example": {"https://alone.example/search"},
        "mpp-example": {NEAR},
    }


def test_a_service_has_the_members_of_the_directory(published: Path) -> None:
    maps = records_of(published)["mpp-example-maps"]
    assert {key: value for key, value in maps.items() if key not in {"endpoints", "networks"}} == {
        "id": "mpp-example-maps",
        "name": "Maps",
        "serviceName": "Maps",
        "description": "Maps for agents",
        "domain": "mpp.example",
        "category": "data",
        "tags": ["geo", "web"],
        "iconUrl": "https://maps.example/icon.png",
        "provider": "Maps Inc.",
        "providerUrl": "https://maps.example",
        "integrationType": "3P",
        "status": "beta",
        "x-service-info": {
            "categories": ["data", "web"],
            "docs": {
                "homepage": "https://docs.maps.example",
                "llms": "https://maps.example/llms.txt",
            },
        },
        "priceSummary": maps["priceSummary"],
    }


def test_ways_to_pay_of_a_directory_stand_beside_those_of_a_feed(client: Any) -> None:
    maps = client.get("/v1/services/mpp-example-maps").json()["service"]
    search = next(each for each in maps["endpoints"] if each["url"] == SEARCH)
    assert search["pricing"] == {"amount": "0.005", "currency": "USDC.e", "scheme": "tempo"}
    assert search["paymentOffers"] == [
        {
            "protocol": "mpp",
            "statedBy": "mpp",
            "method": "tempo",
            "intent": "charge",
            "amount": "0.005",
            "currency": "USDC.e",
            "asset": USDC_E,
            "decimals": 6,
            "payTo": RECIPIENT,
        }
    ]
    talk = client.get("/v1/services/mpp-example-talk").json()["service"]
    say = {each["method"]: each for each in talk["endpoints"] if each["url"] == SAY}
    assert {each["pricing"]["amount"] for each in say.values()} == {"0.02"}
    (offer,) = say["POST"]["paymentOffers"]
    assert (offer["unit"], offer["amount"]) == ("character", "0.00002")


def test_a_price_of_a_request_is_compared_and_others_are_not(client: Any) -> None:
    def found(**parameters: Any) -> list[str]:
        given = {"perService": 0, "limit": 100} | parameters
        answer = client.get("/v1/search/endpoints", params=given).json()
        return [each["url"] for each in answer["endpoints"]]

    assert SEARCH in found(maxPrice="0.01")
    assert "https://mpp.example/maps/places/:id" not in found(maxPrice="1000")
    assert found(enriched="false", sort="price")[0] == SEARCH


def test_status_and_ways_to_pay_are_shown(client: Any, published: Path) -> None:
    assert "<bdi>beta</bdi>" in client.get("/services/mpp-example-maps").text
    assert structured(published, "get", id="mpp-example-aged")["service"]["status"] == "deprecated"
    ranked = client.get("/v1/search/services", params={"q": "soil survey"}).json()["services"]
    assert [each["id"] for each in ranked[:2]] == ["mpp-example-fresh", "mpp-example-aged"]


def test_ids_stay_when_services_come_and_go(build: Build, artifacts: Path) -> None:
    plain = service("Plain", endpoint(), serviceUrl="https://mpp-example.maps")
    for services in ([MAPS], [plain, TALK, MAPS]):
        assert build([directory(*services)]) == 0
    ids = {name: min(urls) for name, urls in urls_of(artifacts).items()}
    assert ids.pop("mpp-example-maps").startswith("https://mpp.example/maps/")
    assert ids.pop("mpp-example-talk").startswith("https://mpp.example/talk/")
    ((other, url),) = ids.items()
    assert other.startswith("mpp-example-maps-")
    assert url.startswith("https://mpp-example.maps/")


def test_odd_paths_have_ids(build: Build, artifacts: Path) -> None:
    urls = [
        f"https://mpp.example/{path}"
        for path in ("größe", "a/b", "a-b", "%25", "A/B/", "~x", "a" * 300)
    ]
    services = [
        service("Odd", endpoint(f"/{number}", TEMPO | {"amount": "1"}), serviceUrl=url)
        for number, url in enumerate(urls)
    ]
    assert build([directory(*services)]) == 0
    found = urls_of(artifacts)
    assert len(found) == len(urls) - 1
    assert sum(map(len, found.values())) == len(urls)
