"""Prices of operations in both dialects: units, bounds, and prices that nobody can compare."""

from __future__ import annotations

import json

import msgspec
import pytest

from indexer.documents.document import Document
from indexer.intake.records import SourceRecord
from indexer.openapi.reading import read_openapi
from indexer.options import Stablecoin
from indexer.resources.assets import Stablecoins
from indexer.resources.entries import MAX_OFFERS, PRICE_NOT_LISTED, UNKNOWN_ASSET
from indexer.resources.resource import Resource
from indexer.x402.described import read_described
from tests.support.running import Json
from tests.support.sources.openapi import (
    CURATED,
    DOCUMENTS,
    MPP,
    X402SCAN,
    charge,
    document,
    fixed,
    offered,
    read,
)


def resource_of(record: SourceRecord) -> Resource:
    return read_described(record)


def pricing_of(operation: Json) -> Json:
    (record,) = read(document({"/a": {"get": operation}}))
    pricing: Json = json.loads(msgspec.json.encode(resource_of(record).to_endpoint()))["pricing"]
    return pricing


def priced(amount: str, scheme: str, currency: str = "USD", **bounds: str) -> Json:
    return {"amount": amount, "currency": currency, "scheme": scheme} | bounds


@pytest.mark.parametrize(
    ("operation", "pricing"),
    [
        (fixed("0.05"), priced("0.05", "exact")),
        (fixed("$0.050"), priced("0.05", "exact")),
        (fixed(0.05), priced("0.05", "exact")),
        (fixed(".5"), priced("0.5", "exact")),
        (fixed(2), priced("2", "exact")),
        (fixed("0"), priced("0", "exact")),
        (fixed("1", {"mpp": {"method": "tempo"}}), priced("1", "tempo")),
        (fixed("1", "L402"), priced("1", "l402")),
        (
            X402SCAN["paths"]["/tides"]["post"],
            priced("", "dynamic", minAmount="0.01", maxAmount="1"),
        ),
        (MPP["paths"]["/images"]["post"], priced("5", "stripe")),
        (MPP["paths"]["/videos"]["post"], priced("", "stripe", "")),
        (MPP["paths"]["/sounds"]["get"], priced("7", "card", "JPY")),
        (offered(charge(None), charge("1")), priced("0.01", "stripe")),
        (
            offered(charge("1") | {"intent": "session", "unitType": "token"}),
            priced("", "stripe", unitType="token", unitAmount="0.01"),
        ),
        (
            offered(charge("1") | {"intent": "session"}),
            priced("", "stripe", unitType="unit of use", unitAmount="0.01"),
        ),
        (offered(charge("5", "tempo", "0x20")), priced("", "tempo", "")),
        ({"responses": {"402": {}}}, {"amount": "", "currency": ""}),
    ],
)
def test_a_price_is_in_units_of_its_currency(operation: Json, pricing: Json) -> None:
    assert pricing_of(operation) == pricing


@pytest.mark.parametrize("name", ["unpriced", "flag"])
def test_a_payment_without_a_price_is_noted(name: str) -> None:
    (record,) = read(DOCUMENTS[name])
    (notice,) = resource_of(record).notices
    assert (notice.kind, notice.path) == (PRICE_NOT_LISTED, "$.paths['/a'].get")


def test_base_units_of_an_unknown_token_are_no_price_unless_the_operator_knows_it() -> None:
    (record,) = read(DOCUMENTS["token"])
    (notice,) = resource_of(record).notices
    assert notice.kind == UNKNOWN_ASSET
    assert notice.reason.endswith("decimals are known: 0x20")
    known = Stablecoins([Stablecoin("tempo", "0x20", "pathUSD", 2)])
    text = json.dumps(DOCUMENTS["token"]).encode()
    (record,) = read_openapi(Document(text, CURATED, known))
    pricing = json.loads(msgspec.json.encode(resource_of(record).to_endpoint()))["pricing"]
    assert pricing == priced("0.05", "tempo", "pathUSD")


@pytest.mark.parametrize(
    ("operation", "fault"),
    [
        (fixed("-1"), "is not a price"),
        (fixed("1e3"), "is not a price"),
        (fixed("1" * 61), "is not a price"),
        (fixed(True), "is not a price"),
        (fixed(1e300), "is not a price"),
        (offered(charge("1.5")), "whole number of base units"),
        (offered(charge(True)), "whole number of base units"),
        (offered(charge("1.5", "tempo", "0x20")), "whole number of base units"),
        ({"x-payment-info": {"offers": {}}}, "Expected `array`"),
        ({"x-payment-info": {"offers": [1]}}, "Expected `object`"),
        ({"x-payment-info": "0.05"}, "Expected `object`"),
        (offered(*[charge()] * (MAX_OFFERS + 1)), f"more than {MAX_OFFERS} ways to pay"),
    ],
)
def test_a_malformed_price_is_rejected(operation: Json, fault: str) -> None:
    (record,) = read(document({"/a": {"get": operation}}))
    assert fault in str(record.fault)
    assert str(record.fault).startswith("$.paths['/a'].get['x-payment-info']")
