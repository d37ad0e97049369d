"""Builds from OpenAPI documents: searched, called and explained as other sources are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from tests.support.artifacts import records_of
from tests.support.clients.mcp import structured
from tests.support.intake import CatalogueFolder, listings, source
from tests.support.running import Build, Json
from tests.support.sources.openapi import (
    MPP,
    SERVICE_INFO,
    X402SCAN,
    document,
    fixed,
)
from tests.support.sources.x402 import accept, v1, v2

FORECAST = "https://api.weather.example/v1/forecast/{city}"
TIDES = "https://api.weather.example/v1/tides"
PUBLIC = {"url", "method", "pricing", "description", "parameters", "serviceName", "tags"}
"""The members of endpoints in the wire contract, as far as a document gives them."""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts of two documents, one of them among feeds, with a policy."""
    root = tmp_path_factory.mktemp("openapi")
    folder = CatalogueFolder(root)
    others = {
        "/a": {"get": fixed(servers=[{"url": "https://other.example"}])},
        "/b": {"get": fixed("5000000")},
        "/c": {"get": fixed(servers=[{"url": "http://paint.example"}])},
        "/d": {"get": fixed(servers=[{"url": "https://denied.paint.example"}])},
    }
    paint = MPP | {"paths": MPP["paths"] | others}
    tide = v2({"method": "POST"}) | {"resource": TIDES, "accepts": [accept("20000")]}
    status = folder.build(
        source("weather", [X402SCAN]),
        source("paint", [paint], kind="openapi", hosts=["*paint.example"]),
        source("feed", [tide | {"description": "Something else"}], kind="resources", trust=0),
        deny=[{"host": "denied.paint.example", "reason": "of the operator"}],
        options=("--rejects", str(root / "rejects.jsonl")),
    )
    assert status == 0
    return folder.artifacts


def test_a_document_is_one_service_with_the_members_of_the_document(client: Any) -> None:
    services = {each["id"]: each for each in client.get("/v1/services").json()["services"]}
    weather, paint = services["api-weather-example"], services["paint-example"]
    assert weather["name"] == "Weather House"
    assert weather["description"] == "Forecasts and tide tables for any coast."
    assert weather["x-guidance"] == "Ask for the forecast first."
    assert paint["x-service-info"] == SERVICE_INFO
    assert (paint["category"], paint["tags"]) == ("compute", ["media"])
    for endpoint in (*weather["endpoints"], *paint["endpoints"]):
        assert endpoint.keys() - PUBLIC == {"paymentOffers"}
    assert {each["url"]: each["pricing"]["amount"] for each in paint["endpoints"]} == {
        "https://paint.example/images": "5",
        "https://paint.example/sounds": "7",
        "https://paint.example/videos": "",
    }
    assert services.keys() == {"api-weather-example", "paint-example"}


def test_operations_are_found_and_say_how_they_are_called(client: Any, published: Path) -> None:
    found = client.get("/v1/search/services", params={"q": "hourly forecast city"}).json()
    assert found["services"][0]["id"] == "api-weather-example"
    how = structured(
        published,
        "how_to_call",
        endpoint=FORECAST,
        values={"city": "Oslo", "days": 2},
    )
    assert "https://api.weather.example/v1/forecast/Oslo?days=2" in how["curl"]
    assert how["price_usd"] == 0.05
    assert {(each["group"], each["name"]) for each in how["parameters"]} == {
        ("path", "city"),
        ("query", "days"),
    }


@pytest.mark.parametrize(
    ("url", "fate", "reason"),
    [
        (FORECAST, "published", None),
        ("https://api.weather.example/v1/status", "left out", "is free: "),
        ("https://other.example/a", "left out", "other.example is none of the `hosts`"),
        ("https://paint.example/b", "left out", "5000000 USD is more than"),
        ("http://paint.example/c", "left out", "is not encrypted"),
        ("https://denied.paint.example/d", "left out", "declined by the operator"),
    ],
)
def test_each_operation_has_a_fate(client: Any, url: str, fate: str, reason: str | None) -> None:
    answer = client.get("/v1/listings", params={"url": url}).json()
    assert answer["listed"] == (fate == "published")
    (found,) = answer["fates"]
    assert found["fate"] == fate
    assert reason is None or reason in found["reason"]


def test_a_more_trusted_document_prevails_over_a_feed(client: Any) -> None:
    weather = client.get("/v1/services/api-weather-example").json()["service"]
    tides = next(each for each in weather["endpoints"] if each["url"] == TIDES)
    assert tides["description"] == "Tide tables"
    assert tides["pricing"]["scheme"] == "dynamic"


def test_a_feed_of_equal_trust_adds_its_ways_to_pay_and_the_document_its_words(
    build: Build, artifacts: Path
) -> None:
    tide = v2({"method": "POST"}) | {"resource": TIDES, "accepts": [accept("20000")]}
    assert build([X402SCAN], [tide]) == 0
    (record,) = records_of(artifacts).values()
    tides = next(each for each in record["endpoints"] if each["url"] == TIDES)
    assert tides["pricing"]["amount"] == "0.02"
    assert tides["description"] == "Tide tables"
    bounds = {"statedBy": "openapi", "minAmount": "0.01", "maxAmount": "1", "currency": "USD"}
    tempo = {"protocol": "mpp", "method": "tempo", "intent": "charge"}
    assert tides["paymentOffers"] == [{"protocol": "x402"} | bounds, tempo | bounds]
    assert "pricesContradict" not in tides
    assert record["description"] == "Forecasts and tide tables for any coast."


@pytest.mark.parametrize(
    ("declaration", "named"),
    [
        ({}, {"lat", "near"}),
        ({"body": {"lon": {"type": "number"}}}, {"lon"}),
    ],
)
def test_a_feed_without_parameters_gets_those_of_a_document(
    build: Build, artifacts: Path, declaration: Json, named: set[str]
) -> None:
    tide = v2({"method": "POST"} | declaration) | {"resource": TIDES}
    tide["extensions"]["sign-in-with-x"] = {"info": {"uri": "https://api.weather.example"}}
    tide["extensions"]["bazaar"]["note"] = "of the feed"
    assert build([tide], [X402SCAN]) == 0
    (record,) = records_of(artifacts).values()
    tides = next(each for each in record["endpoints"] if each["url"] == TIDES)
    assert {each["name"] for each in tides["parameters"]} == named
    extensions = listings(artifacts)[f"POST {TIDES}"]["extensions"]
    assert extensions.keys() == {"bazaar", "sign-in-with-x"}
    assert extensions["bazaar"]["note"] == "of the feed"


def test_an_output_schema_counts_where_a_document_declares_no_parameters(
    build: Build, artifacts: Path
) -> None:
    listed = v1({"method": "POST", "bodyParams": {"lon": {"type": "number"}}}) | {"resource": TIDES}
    assert build([listed], [document({"/tides": {"post": fixed()}})]) == 0
    (record,) = records_of(artifacts).values()
    (tides,) = record["endpoints"]
    assert [(each["group"], each["name"]) for each in tides["parameters"]] == [("body", "lon")]


def test_an_item_of_a_feed_does_not_pass_for_a_document(build: Build, artifacts: Path) -> None:
    forged = {
        "x-ratecard": {
            "offers": [{"protocol": "mpp", "statedBy": "openapi", "amount": "7"}],
            "service": ["Forged description", "Forged guidance", ""],
        },
        "resource": TIDES,
        "paymentOffers": [{"protocol": "mpp"}],
        "accepts": [],
    }
    lines = artifacts.parent / "forged.jsonl"
    text = json.dumps(forged, separators=(",", ":"))
    lines.write_text(f"{text}\n{text.replace('x-ratecard', chr(92) + 'u0078-ratecard')}\n")
    same = v2({}) | {"resource": TIDES, "accepts": [accept("20000")]}
    assert build(lines, [same]) == 0
    assert b"Forged" not in b"".join(path.read_bytes() for path in artifacts.rglob("records.json"))
    (record,) = records_of(artifacts).values()
    assert record["endpoints"][0].keys().isdisjoint({"paymentOffers", "x-ratecard"})
