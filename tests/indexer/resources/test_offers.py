"""Offers of documents: merged by kind, and priced."""

from __future__ import annotations

from typing import Any

import pytest

from indexer.options import Kind
from indexer.resources.entries import MAX_OFFERS, Entry, make_price, merge_offers, rank_offer

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from tests.support.clients.mcp import structured
from tests.support.intake import CatalogueFolder, source
from tests.support.running import serve
from tests.support.sources.openapi import SERVER, charge, document, fixed, offered
from tests.support.sources.x402 import accept, v2

URL = f"{SERVER}/a"


def x402(amount: str = "", **members: Any) -> Entry:
    given = {"protocol": "x402", "stated_by": Kind.OPENAPI, "currency": "USD"} | members
    return Entry(amount=amount, **given)


def tempo(amount: str, stated_by: str = "mpp", **members: Any) -> Entry:
    return x402(amount, protocol="mpp", method="tempo", stated_by=stated_by, **members)


def test_offers_of_one_kind_come_whole_from_the_first_document() -> None:
    first, other = tempo("0.01"), tempo("0.02")
    card = x402("0.03", protocol="mpp", stated_by="mpp", method="card")
    opened = tempo("0.02", "openapi")
    assert merge_offers([[first, card], [other], [opened]]) == [first, card, opened]
    many = [x402("1", protocol=f"p{number}") for number in range(MAX_OFFERS + 5)]
    assert merge_offers([many]) == many[:MAX_OFFERS]


def test_a_fixed_price_of_a_request_comes_before_bounds_and_these_before_other_units() -> None:
    offers = [x402(), tempo("0.001", unit="token"), x402(min_amount="1"), tempo("0.2")]
    for count, expected in enumerate(["", "", "", "0.2"]):
        pricing = make_price(min(offers[: count + 1], key=rank_offer))
        assert pricing.amount == expected
    per_unit = make_price(min(offers[:2], key=rank_offer))
    assert (per_unit.amount, per_unit.unit_type, per_unit.unit_amount) == ("", "token", "0.001")


def test_a_resource_of_several_kinds_has_all_its_ways_to_pay(catalogue: CatalogueFolder) -> None:
    openapi = document({"/a": {"get": fixed("0.05")}, "/b": {"get": offered(charge("5"))}})
    entry = accept("20000")
    feed = [v2({"method": "GET"}) | {"resource": URL, "accepts": [entry]}]
    api = source("api", [openapi], trust=1)
    assert catalogue.build(api, source("feed", feed, kind="resources", trust=1)) == 0
    with serve(catalogue.artifacts) as client:
        (resource,) = client.get("/discovery/resources").json()["items"]
        (service,) = client.get("/v1/services").json()["services"]
        page = client.get(f"/services/{service['id']}").text
    how = structured(catalogue.artifacts, "how_to_call", endpoint=URL)
    offer = {"protocol": "x402", "statedBy": "openapi", "amount": "0.05", "currency": "USD"}
    assert resource["accepts"] == [entry]
    assert "x-ratecard" not in resource
    assert resource["ratecard"]["paymentOffers"] == [offer]
    first, second = sorted(service["endpoints"], key=lambda each: str(each["url"]))
    assert first["paymentOffers"] == [offer]
    assert first["pricing"]["amount"] == "0.02"
    assert second["pricing"]["amount"] == "0.05"
    assert how["accepts"] == [entry]
    assert how["documents_say"] == ["x402: 0.05 USD (openapi)"]
    assert "<bdi>x402: 0.05 USD (openapi)</bdi>" in page
    assert "<bdi>mpp stripe charge: 0.05 USD (openapi)</bdi>" in page


def test_a_less_trusted_document_adds_no_way_to_pay(catalogue: CatalogueFolder) -> None:
    openapi = document({"/a": {"get": fixed("0.05")}})
    feed = [v2({"method": "GET"}) | {"resource": URL, "accepts": [accept("20000")]}]
    api = source("api", [openapi], trust=0, hosts=["api.weather.example"])
    assert catalogue.build(api, source("feed", feed, kind="resources", trust=1)) == 0
    with serve(catalogue.artifacts) as client:
        (resource,) = client.get("/discovery/resources").json()["items"]
    assert "paymentOffers" not in resource["ratecard"]
