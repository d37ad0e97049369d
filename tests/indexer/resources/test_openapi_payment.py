"""Prices of operations in both dialects: units, bounds, networks, and prices without a meaning."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from indexer.options import Policy, Stablecoin
from indexer.resources.entries import MAX_OFFERS, PRICE_NOT_LISTED, UNKNOWN_ASSET
from indexer.resources.resource import Resource
from indexer.resources.x402 import NOT_READ
from tests.support.running import Json
from tests.support.sources.openapi import (
    DOCUMENTS,
    MPP,
    X402SCAN,
    charge,
    document,
    fixed,
    offered,
    read,
)
from tests.support.sources.x402 import SOLANA_USDC, USDC

PAYEE = "0x" + "11" * 20
EURC = "0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42"
BASE: Json = {"network": "eip155:8453", "asset": USDC, "payTo": PAYEE}
SOLANA: Json = {"network": "solana", "asset": SOLANA_USDC, "payTo": "SoPayee"}
EUR: Json = {"mode": "fixed", "currency": "EUR", "amount": "0.10"}


def resource_of(operation: Json, policy: Policy | None = None) -> Resource:
    (found,) = read(document({"/a": {"get": operation}}), policy=policy)
    assert found.resource is not None, found.fault
    return found.resource


def pricing_of(operation: Json, policy: Policy | None = None) -> Json:
    pricing: Json = json.loads(msgspec.json.encode(resource_of(operation, policy).pricing))
    return pricing


def stated(**info: Any) -> Json:
    """Return an operation with these members of `x-payment-info`."""
    return {"x-payment-info": info}


def priced(amount: str, scheme: str, currency: str = "USD", **more: str) -> Json:
    return {"amount": amount, "currency": currency, "scheme": scheme} | more


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
        (
            offered(charge(None) | {"intent": "session", "unitType": "token"}),
            priced("", "stripe", "USD", unitType="token"),
        ),
        (offered(charge("5", "tempo", "0x20")), priced("", "tempo", "")),
        (
            offered(charge("5000", "evm", USDC) | {"methodDetails": {"chainId": 8453}}),
            priced("0.005", "evm", "USDC", network="Base"),
        ),
        ({"responses": {"402": {}}}, {"amount": "", "currency": ""}),
    ],
)
def test_a_price_is_in_units_of_its_currency(operation: Json, pricing: Json) -> None:
    assert pricing_of(operation) == pricing


@pytest.mark.parametrize(
    "info",
    [
        {"price": EUR},
        {"price": {"currency": "EUR", "value": "0.10"}},
        {"price": "0.10", "currency": "EUR"},
        {"price": 0.1, "currency": "EUR", "pricingMode": "fixed"},
        {"price": "0.10 EUR"},
        {"amount": "0.10", "currency": "EUR"},
        {"value": "0.10", "currency": "EUR"},
        {"amount": {"value": "0.10", "currency": "EUR"}},
        {"price": {"amount": "0.10"}, "currency": "EUR"},
        {"protocols": ["x402"], "price": EUR},
        {"protocols": [{"x402": {}}], "price": EUR},
        {"protocols": [{"x402": {"price": EUR}}]},
        {"protocols": {"x402": {"price": "0.10", "currency": "EUR"}}},
        {"protocols": [{"name": "x402", "price": "0.10", "currency": "EUR"}]},
        {"price": EUR, "method": "GET"},
        {"price": EUR, "buyerIntents": ["a"], "description": "b", "version": 2, "x-note": {}},
    ],
)
def test_a_price_and_its_currency_are_read_wherever_they_stand(info: Json) -> None:
    resource = resource_of(stated(**info))
    assert pricing_of(stated(**info)) == priced("0.1", "exact", "EUR")
    assert len(resource.offers) == 1
    assert not resource.offers[0].is_usd
    assert not resource.notices


@pytest.mark.parametrize(
    "info",
    [
        {"price": "0.10", "protocols": ["x402"]} | BASE,
        {"price": {"amount": "0.10", "currency": "USD"}} | BASE,
        {"price": {"amount": "0.10"} | BASE},
        {"price": "0.10", "protocols": [{"x402": BASE}]},
        {"price": "0.10", "protocols": [{"x402": BASE | {"scheme": "exact"}}]},
        {"price": "0.10", "protocols": [{"x402": {}}]} | BASE,
        {"price": "0.10", "protocols": {"x402": BASE}},
        {"price": "0.10", "network": "base", "asset": "USDC", "pay_to": PAYEE},
        {"protocols": [{"x402": BASE | {"scheme": "exact", "maxAmountRequired": "100000"}}]},
        {"protocols": [{"x402": BASE | {"amount": "100000"}}]},
        {"accepts": [BASE | {"scheme": "exact", "amount": "100000"}]},
        {"price": "0.10", "protocols": [{"x402": BASE | {"amount": "100000"}}]},
    ],
)
def test_network_asset_and_payee_are_read_wherever_they_stand(info: Json) -> None:
    resource = resource_of(stated(**info))
    assert (resource.pricing.amount, resource.pricing.network) == ("0.1", "Base")
    assert resource.pricing.currency in {"USD", "USDC"}
    assert (resource.networks, resource.payees) == (["Base"], [PAYEE])
    assert resource.offers[0].asset in {USDC, "USDC"}


def test_each_network_of_a_protocol_is_a_way_to_pay() -> None:
    info = {"price": "0.10", "protocols": [{"x402": BASE}, {"x402": SOLANA}, "mpp"]}
    resource = resource_of(stated(**info))
    assert [(each.protocol, each.network) for each in resource.offers] == [
        ("x402", "eip155:8453"),
        ("x402", "solana"),
        ("mpp", ""),
    ]
    assert resource.networks == ["Base", "Solana"]


def test_terms_beside_the_price_are_those_of_x402() -> None:
    info = {"price": "0.10", "protocols": ["x402", {"mpp": {"method": "tempo"}}]} | BASE
    first, other = resource_of(stated(**info)).offers
    assert (first.network, first.pay_to) == ("eip155:8453", PAYEE)
    assert (other.method, other.network, other.pay_to, other.amount) == ("tempo", "", "", "0.1")


def test_a_price_without_a_currency_is_in_that_of_its_asset() -> None:
    assert pricing_of(stated(price="0.10", **BASE | {"asset": EURC}))["currency"] == "EURC"


@pytest.mark.parametrize(
    ("info", "bounds"),
    [
        ({"minPrice": "0.1", "maxPrice": "2"}, {"minAmount": "0.1", "maxAmount": "2"}),
        ({"price": {"min": "0.1", "max": 2}}, {"minAmount": "0.1", "maxAmount": "2"}),
        ({"pricingMode": "dynamic", "price": "0.1"}, {"minAmount": "0.1"}),
        ({"pricingMode": "upto", "price": "2"}, {"maxAmount": "2"}),
    ],
)
def test_bounds_are_no_fixed_price(info: Json, bounds: Json) -> None:
    assert pricing_of(stated(**info)) == priced("", "dynamic", **bounds)


@pytest.mark.parametrize("scheme", ["upto", "batch-settlement"])
def test_a_ceiling_is_no_fixed_price(scheme: str) -> None:
    info = {"price": "0.10", "protocols": [{"x402": BASE | {"scheme": scheme}}]}
    assert pricing_of(stated(**info)) == priced("", scheme, "USDC", network="Base", maxAmount="0.1")


def test_a_price_on_a_test_network_is_none() -> None:
    info: Json = {"price": "0.10", "protocols": [{"x402": {"network": "base-sepolia"}}]}
    resource = resource_of(stated(**info))
    assert (resource.pricing.amount, resource.pricing.currency) == ("", "")
    assert [each.kind for each in resource.notices] == [PRICE_NOT_LISTED]
    info["protocols"].append({"x402": BASE})
    assert pricing_of(stated(**info))["network"] == "Base"


@pytest.mark.parametrize("name", ["unpriced", "flag"])
def test_a_payment_without_a_price_is_noted(name: str) -> None:
    (found,) = read(DOCUMENTS[name])
    assert found.resource is not None
    (notice,) = found.resource.notices
    assert (notice.kind, notice.path) == (PRICE_NOT_LISTED, "$.paths['/a'].get")


@pytest.mark.parametrize("name", ["priceTiers", "feeCurrency", "networks", "assetId"])
def test_a_member_that_looks_like_a_fact_and_is_not_read_is_noted(name: str) -> None:
    (notice,) = resource_of(stated(price=EUR, **{name: ["a"]})).notices
    assert notice.kind == f"{NOT_READ}`{name}`"
    assert notice.path.endswith(f"['x-payment-info'].{name}")


def test_base_units_of_an_unknown_token_are_no_price_unless_the_operator_knows_it() -> None:
    operation = DOCUMENTS["token"]["paths"]["/a"]["get"]
    (notice,) = resource_of(operation).notices
    assert notice.kind == UNKNOWN_ASSET
    assert notice.reason.endswith("decimals are known: 0x20")
    known = Policy(stablecoins=(Stablecoin("tempo", "0x20", "pathUSD", 2),))
    assert pricing_of(operation, known) == priced("0.05", "tempo", "pathUSD")


@pytest.mark.parametrize(
    ("operation", "fault"),
    [
        (fixed("-1"), "is not a price"),
        (fixed("1e3"), "is not a price"),
        (fixed("1" * 61), "is not a price"),
        (fixed(True), "is not a price"),
        (fixed([]), "is not a price"),
        (fixed(1e300), "is not a price"),
        (stated(price="dear"), "is not a price"),
        (stated(minPrice="dear"), "is not a price"),
        (offered(charge("1.5")), "whole number of base units"),
        (offered(charge("5.00")), "whole number of base units"),
        (offered(charge(True)), "whole number of base units"),
        (offered(charge("1.5", "tempo", "0x20")), "whole number of base units"),
        ({"x-payment-info": {"offers": {}}}, "Expected `array`"),
        ({"x-payment-info": {"offers": [1]}}, "Expected `object`"),
        ({"x-payment-info": "0.05"}, "Expected `object`"),
        (offered(*[charge()] * (MAX_OFFERS + 1)), f"more than {MAX_OFFERS} ways to pay"),
    ],
)
def test_a_malformed_price_is_rejected(operation: Json, fault: str) -> None:
    (found,) = read(document({"/a": {"get": operation}}))
    assert fault in str(found.fault)
    assert str(found.fault).startswith("$.paths['/a'].get['x-payment-info']")


@pytest.mark.parametrize("name", [{"type": "x402"}, {"protocol": "x402"}, {}])
def test_terms_in_a_list_of_protocols_are_those_of_x402(name: Json) -> None:
    terms = {"scheme": "exact", "network": "base", "asset": USDC, "payTo": "0x" + "11" * 20}
    info = {"price": "0.1", "protocols": [name | terms]}
    (offer,) = resource_of({"x-payment-info": info, "responses": {"402": {}}}).offers
    assert (offer.protocol, offer.network, offer.currency) == ("x402", "base", "USDC")
    assert offer.pay_to == terms["payTo"]
