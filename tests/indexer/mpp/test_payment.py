"""Payments of endpoints: amounts in base units, methods with their decimals, and units."""

from __future__ import annotations

import json
from typing import Any

import pytest

from indexer.documents.document import FREE
from indexer.errors import LeftOut
from indexer.resources.entries import PRICE_NOT_LISTED
from indexer.untrusted import decode_object
from indexer.x402.described import read_described
from tests.support.running import Json
from tests.support.sources.mpp import (
    CHARGE,
    RECIPIENT,
    TEMPO,
    directory,
    endpoint,
    read,
    service,
)
from tests.support.sources.x402 import endpoint_of

METHODS = {"tempo": {"decimals": 6}, "stripe": {"decimals": 2}}


def offers(payment: Any, **fields: Any) -> list[Json]:
    (record,) = read(directory(service("Maps", endpoint(payment=payment), **fields)))
    assert record.fault is None
    found: list[Json] = json.loads(record.text)["x-ratecard"]["offers"]
    return found


def pricing(payment: Any, **fields: Any) -> Json:
    (record,) = read(directory(service("Maps", endpoint(payment=payment), **fields)))
    price: Json = endpoint_of(record.text)["pricing"]
    return price


def test_amounts_are_base_units_of_the_currency() -> None:
    (offer,) = offers(CHARGE)
    assert (offer["amount"], offer["currency"], offer["method"]) == ("0.5", "USD", "stripe")
    (offer,) = offers(TEMPO | {"amount": "500", "currency": "0xabc"})
    assert (offer["amount"], offer["asset"], offer["decimals"]) == ("0.0005", "0xabc", 6)
    assert "currency" not in offer
    (offer,) = offers({"method": "tempo", "amount": 500, "currency": TEMPO["currency"]})
    assert (offer["amount"], offer["currency"]) == ("0.0005", "USDC.e")


def test_an_offer_says_method_intent_and_the_kind_of_the_document() -> None:
    (offer,) = offers(TEMPO | {"amount": "5", "recipient": RECIPIENT, "description": "A map"})
    assert {key: offer[key] for key in ("protocol", "statedBy", "method", "intent")} == {
        "protocol": "mpp",
        "statedBy": "mpp",
        "method": "tempo",
        "intent": "charge",
    }
    assert (offer["payTo"], offer["description"]) == (RECIPIENT, "A map")


@pytest.mark.parametrize(
    ("payment", "methods"),
    [
        ({"amount": "500", "currency": "usd"}, METHODS),
        ({"amount": "500", "currency": "usd", "methods": METHODS}, {}),
        ({"amount": "500", "method": ["tempo", "stripe"]}, METHODS),
        ({"amount": "500"}, {"tempo": {"assets": [TEMPO]}, "stripe": {"decimals": 2}}),
    ],
)
def test_methods_of_different_decimals_have_no_comparable_price(
    payment: Json, methods: Json
) -> None:
    found = offers(payment, methods=methods)
    assert [each["method"] for each in found] == ["tempo", "stripe"]
    assert [each["decimals"] for each in found] == [6, 2]
    assert not any("amount" in each for each in found)
    assert {each["baseAmount"] for each in found} == {"500"}
    price = pricing(payment, methods=methods)
    assert (price["amount"], price["currency"]) == ("", "")
    (record,) = read(directory(service("Maps", endpoint(payment=payment), methods=methods)))
    notices = read_described(record).notices
    assert [each.kind for each in notices] == [PRICE_NOT_LISTED]


def test_methods_of_equal_decimals_share_a_price() -> None:
    methods = {"tempo": {"decimals": 6}, "solana": {"decimals": 6}}
    found = offers({"amount": "500", "currency": "USDX"}, methods=methods)
    assert [(each["method"], each["amount"]) for each in found] == [
        ("tempo", "0.0005"),
        ("solana", "0.0005"),
    ]


@pytest.mark.parametrize(
    "payment",
    [None, {}, {"method": "tempo"}, {"dynamic": False}, {"amount": ""}],
)
def test_an_endpoint_without_an_amount_that_is_not_dynamic_is_free(payment: Any) -> None:
    (record,) = read(directory(service("Maps", endpoint(payment=payment))))
    assert isinstance(record.fault, LeftOut)
    assert record.fault.rule == FREE
    assert decode_object(record.text)["resource"] == "https://mpp.example/maps/search"


def test_a_dynamic_price_has_its_amount_as_lower_bound() -> None:
    (offer,) = offers({"method": "tempo", "dynamic": True, "amountHint": "by length"})
    assert not {"amount", "minAmount"} & offer.keys()
    assert offer["description"] == "by length"
    price = pricing(CHARGE | {"dynamic": True})
    assert (price["amount"], price["minAmount"], price["currency"]) == ("", "0.5", "USD")


@pytest.mark.parametrize(
    ("fields", "unit"),
    [
        ({"unitType": "token"}, "token"),
        ({"unitType": "Request"}, ""),
        ({"intent": "session", "unitType": "request"}, ""),
        ({"intent": "session"}, "unit of use"),
        ({}, ""),
    ],
)
def test_a_price_of_another_unit_is_no_price_of_a_request(fields: Json, unit: str) -> None:
    price = pricing(CHARGE | fields)
    if unit:
        assert price == {
            "amount": "",
            "currency": "USD",
            "scheme": "stripe",
            "unitType": unit,
            "unitAmount": "0.5",
        }
    else:
        assert price == {"amount": "0.5", "currency": "USD", "scheme": "stripe"}


@pytest.mark.parametrize("amount", ["0.5", "-1", "1e3", [], "9" * 200, 1.5])
def test_an_amount_that_is_no_number_of_base_units_is_a_fault(amount: Any) -> None:
    (record,) = read(directory(service("Maps", endpoint(payment=CHARGE | {"amount": amount}))))
    assert record.fault is not None
    assert not isinstance(record.fault, LeftOut)
    assert record.fault.path == "$.services[0].endpoints[0].payment.amount"


@pytest.mark.parametrize("payment", [True, "5", [CHARGE], 5])
def test_a_payment_that_is_no_object_is_a_fault(payment: Any) -> None:
    (record,) = read(directory(service("Maps", endpoint(payment=payment))))
    assert str(record.fault) == "$.services[0].endpoints[0].payment: Expected `object | null`"


def test_recipients_are_payees() -> None:
    payment = TEMPO | {"amount": "5", "recipient": RECIPIENT}
    (record,) = read(directory(service("Maps", endpoint(payment=payment))))
    resource = read_described(record)
    assert resource.payees == [RECIPIENT]
