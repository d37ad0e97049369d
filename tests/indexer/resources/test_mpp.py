"""Directories of MPP: each endpoint is a resource or has a reason, whatever they say."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.errors import InvalidRecord, LeftOut
from indexer.options import SourceOptions
from indexer.resources import mpp
from indexer.resources.documents import FREE, OTHER_HOSTS, Described
from indexer.resources.entries import PRICE_NOT_LISTED
from indexer.resources.mpp import WITHOUT_ENDPOINTS
from indexer.resources.resource import Resource
from indexer.resources.x402 import SIZE
from tests.support.json_values import json_values
from tests.support.running import Json, examples
from tests.support.sources.mpp import (
    CHARGE,
    EMPTY,
    MAPS,
    RECIPIENT,
    TALK,
    TEMPO,
    directory,
    endpoint,
    read,
    service,
)


def rule_of(fault: InvalidRecord | None) -> str:
    return fault.rule if isinstance(fault, LeftOut) else ""


def url_of(found: Described) -> str:
    url: str = json.loads(found.text)["resource"]
    return url


def only(service: Json) -> Resource:
    (found,) = read(directory(service))
    assert found.resource is not None
    return found.resource


@pytest.mark.parametrize("url", ["https://mpp.example/maps", "https://mpp.example/maps/?a=1#b"])
@pytest.mark.parametrize(
    "given", [{"method": "post", "path": "/v1/route"}, {"route": "POST /v1/route"}]
)
def test_an_endpoint_is_below_the_path_of_its_service(given: Json, url: str) -> None:
    resource = only(service("Maps", given | {"payment": CHARGE}, serviceUrl=url))
    assert resource.identity == "https://mpp.example/maps/v1/route"
    assert (resource.method, resource.is_listed) == ("POST", False)


def test_members_of_a_service_stand_on_its_resources() -> None:
    first, second, free = read(directory(MAPS))
    assert first.resource is not None
    assert second.resource is not None
    resource, texts = first.resource, first.resource.texts
    assert (resource.service_name, resource.category) == ("Maps", "data")
    assert (resource.tags, resource.icon_url) == (["geo", "web"], "https://maps.example/icon.png")
    assert texts is not None
    assert texts == second.resource.texts
    assert (texts.provider, texts.integration, texts.status) == ("Maps Inc.", "3P", "beta")
    assert json.loads(texts.info) == {
        "categories": ["data", "web"],
        "docs": {"homepage": "https://docs.maps.example", "llms": "https://maps.example/llms.txt"},
    }
    assert free.fault is not None


def test_records_have_the_positions_of_endpoints_and_of_services_without_any() -> None:
    found = read(directory(MAPS, EMPTY, TALK, 5))
    assert [each.position for each in found] == [
        *(f"services[0].endpoints[{number}]" for number in range(3)),
        "services[1]",
        *(f"services[2].endpoints[{number}]" for number in range(2)),
        "services[3]",
    ]
    assert rule_of(found[3].fault) == WITHOUT_ENDPOINTS
    assert str(found[-1].fault).startswith("$.services[3]: Expected `object`")


@pytest.mark.parametrize(
    "given",
    [
        5,
        {"path": "/a"},
        {"method": "GET"},
        {"method": "GET", "path": "a"},
        {"method": "FETCH", "path": "/a"},
        {"route": "/a"},
        {"route": ["GET /a"]},
    ],
)
def test_an_endpoint_without_method_and_path_is_a_fault(given: Any) -> None:
    (record,) = read(directory(service("Maps", given)))
    assert record.fault is not None
    assert not isinstance(record.fault, LeftOut)


def test_a_directory_describes_the_hosts_that_its_source_may_describe() -> None:
    other = service("Other", endpoint(), serviceUrl="https://api.other.example")
    given = directory(service("Maps", endpoint()), other)
    for source, refused in (
        (SourceOptions(name="own", url="https://www.mpp.example/services.json"), [False, True]),
        (SourceOptions(name="own", path="a.json", hosts=("*.other.example",)), [True, False]),
        (SourceOptions(name="own", path="a.json", hosts=("*",)), [False, False]),
        (SourceOptions(name="own", path="a.json", curated=True), [False, False]),
        (SourceOptions(name="own", path="a.json", curated=False), [True, True]),
    ):
        rules = [rule_of(each.fault) for each in read(given, source)]
        assert rules == [OTHER_HOSTS if each else "" for each in refused]


@pytest.mark.parametrize("services", [None, {}, "x", 5])
def test_a_directory_without_a_list_is_one_fault(services: Any) -> None:
    (record,) = read({"version": 1, "services": services})
    assert str(record.fault).startswith("$.services: Expected `array`")


def test_a_service_whose_endpoints_are_no_list_is_one_fault() -> None:
    given = directory(service("Maps", endpoint()) | {"endpoints": {"path": "/a"}}, TALK)
    first, *others = read(given)
    assert str(first.fault).startswith("$.services[0].endpoints: Expected `array`")
    assert len(others) == 2


def test_a_directory_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    given = directory(service("Maps", *(endpoint(f"/{number}") for number in range(5))))
    monkeypatch.setattr(mpp, "MAX_OPERATIONS", 3)
    assert [rule_of(each.fault) for each in read(given)] == ["", "", "", SIZE, SIZE]
    monkeypatch.setattr("indexer.resources.documents.MAX_RESOURCES", 600)
    assert [rule_of(each.fault) for each in read(given)].count(SIZE) >= 3


def test_a_hundred_thousand_endpoints_have_one_fate_each() -> None:
    endpoints = [endpoint(f"/{number}", None) for number in range(100_000)]
    found = read(directory(service("Maps", *endpoints)))
    assert len(found) == 100_000
    assert all(each.fault is not None for each in found)


def test_values_that_are_nested_too_deeply_are_a_fault_of_their_service() -> None:
    deep: Any = []
    for _ in range(250):
        deep = [deep]
    record, other = read(
        directory(service("Maps", endpoint(payment=deep)), service("Talk", endpoint()))
    )
    assert record.fault is not None
    assert record.fault.path == "$.services[0]"
    assert other.fault is None


@pytest.mark.parametrize("icon", ["javascript:alert(1)", "https://127.0.0.1/a", "/a.png", 7])
def test_an_icon_that_no_browser_may_load_is_none(icon: Any) -> None:
    assert only(service("Maps", endpoint(), icon=icon)).icon_url == ""


def test_huge_texts_are_cut() -> None:
    given = service("M" * 10_000, endpoint(description="d" * 10**6), description="s" * 10**6)
    given |= {"serviceUrl": "https://mpp.example", "tags": ["t" * 10**5] * 1_000}
    assert len(msgspec.msgpack.encode(only(given))) < 12_000


KEYS = (
    *("method", "amount", "decimals", "dynamic", "assets", "route", "path"),
    *("payment", "methods", "endpoints", "serviceUrl", "unitType", "intent"),
    *("docs", "provider", "icon", "categories", "currency", "recipient", "name"),
)
TEXTS = ("tempo", "usd", "GET", "/a", "POST /b", "5", "https://mpp.example/x")
values = json_values(*TEXTS, keys=KEYS, text=st.text(max_size=6))
endpoint_values = values | st.builds(
    lambda payment, path: endpoint(path, payment), values, st.sampled_from(["/a", "/{b}", ""])
)


@settings(max_examples=examples(200), deadline=None)
@given(endpoints=st.lists(endpoint_values, min_size=1, max_size=4), fields=values)
def test_each_endpoint_has_one_fate(endpoints: list[Any], fields: Any) -> None:
    members = fields if isinstance(fields, dict) else {"methods": fields}
    kept = {"serviceUrl": "https://mpp.example/maps", "endpoints": endpoints}
    found = read(directory(service("Maps") | members | kept))
    assert len(found) == len(endpoints)
    for each in found:
        assert (each.resource is None) != (each.fault is None)
        msgspec.msgpack.encode(each.resource)


@settings(max_examples=examples(100), deadline=None)
@given(services=values)
def test_any_value_may_stand_for_the_services(services: Any) -> None:
    found = read({"version": 1, "services": services})
    assert len(found) >= (len(services) if isinstance(services, list) else 1)


SIX = {"decimals": 6}
METHODS = {"tempo": {"decimals": 6}, "stripe": {"decimals": 2}}


def offers(payment: Any, **fields: Any) -> list[Json]:
    resource = only(service("Maps", endpoint(payment=payment), **fields))
    return [json.loads(msgspec.json.encode(each.to_offer())) for each in resource.offers]


def pricing(payment: Any, **fields: Any) -> Json:
    resource = only(service("Maps", endpoint(payment=payment), **fields))
    price: Json = json.loads(msgspec.json.encode(resource.pricing))
    return price


def test_amounts_are_base_units_of_the_currency() -> None:
    (offer,) = offers(CHARGE)
    assert (offer["amount"], offer["currency"], offer["method"]) == ("0.5", "USD", "stripe")
    (offer,) = offers(TEMPO | {"amount": "500", "currency": "0xabc"})
    assert (offer["amount"], offer["asset"], offer["decimals"]) == ("0.0005", "0xabc", 6)
    (whole,) = offers(TEMPO | {"amount": "500", "currency": "0xabc", "decimals": 0})
    assert (whole["amount"], whole["decimals"]) == ("500", 0)
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
        ({"amount": "500"}, {"tempo": {"assets": [SIX, SIX]}, "stripe": {"decimals": 2}}),
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
    notices = only(service("Maps", endpoint(payment=payment), methods=methods)).notices
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
    (found,) = read(directory(service("Maps", endpoint(payment=payment))))
    assert isinstance(found.fault, LeftOut)
    assert found.fault.rule == FREE
    assert url_of(found) == "https://mpp.example/maps/search"


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
    (found,) = read(directory(service("Maps", endpoint(payment=CHARGE | {"amount": amount}))))
    assert found.fault is not None
    assert not isinstance(found.fault, LeftOut)
    assert found.fault.path == "$.services[0].endpoints[0].payment.amount"


@pytest.mark.parametrize("payment", [True, "5", [CHARGE], 5])
def test_a_payment_that_is_no_object_is_a_fault(payment: Any) -> None:
    (found,) = read(directory(service("Maps", endpoint(payment=payment))))
    assert str(found.fault) == "$.services[0].endpoints[0].payment: Expected `object | null`"


def test_recipients_are_payees() -> None:
    payment = TEMPO | {"amount": "5", "recipient": RECIPIENT}
    assert only(service("Maps", endpoint(payment=payment))).payees == [RECIPIENT]


@pytest.mark.parametrize("amount", [{"a": 1}, "abc", True])
def test_an_amount_that_is_none_is_a_fault_where_decimals_differ(amount: Any) -> None:
    payment = {"amount": amount, "methods": {"a": {"decimals": 6}, "b": {"decimals": 2}}}
    priced = {"path": "/v1/route", "method": "POST", "payment": payment | {"intent": "charge"}}
    (found,) = read(directory(service("Maps", priced)))
    assert found.resource is None
    assert "is not a price" in str(found.fault)
