"""Discovered resources: their endpoints, and reasons for rejection."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.rules import Rules
from indexer.options import Policy, Stablecoin
from indexer.resources.listing import MAX_LISTING, encode_listing
from indexer.resources.x402 import SIZE
from service.schema.discovery import DiscoveryResource
from tests.support.json_values import json_values
from tests.support.running import Json, examples
from tests.support.sources.x402 import (
    SOLANA_USDC,
    TEST_NETWORK_PRICE,
    URL,
    Feed,
    accept,
    discover,
    endpoint_of,
    read,
    resource,
    v1,
    v2,
)


def test_version_1_becomes_an_endpoint() -> None:
    record = v1({"method": "post"}, description="Tomorrow", payTo="0xAb")
    assert endpoint_of(record) == {
        "url": URL,
        "method": "POST",
        "description": "Tomorrow",
        "pricing": {"amount": "0.0025", "currency": "USDC", "network": "Base", "scheme": "exact"},
        "payTo": "0xAb",
    }


def test_version_2_becomes_an_endpoint() -> None:
    record = resource(
        {"url": URL, "description": "Tomorrow", "mimeType": "application/json"},
        serviceName="Weather",
        tags=["rain", "sun", "Rain", 7, ""],
        iconUrl="https://api.weather-data.example/icon.png",
        lastUpdated="2026-05-01T00:00:00.000001Z",
        metadata={"category": "Data"},
        quality={
            "l30DaysTotalCalls": 12,
            "l30DaysUniquePayers": "3",
            "lastCalledAt": "2026-05-01T01:00:00+01:00",
        },
    )
    parsed = read(record)
    assert endpoint_of(record) == {
        "url": URL,
        "method": "",
        "description": "Tomorrow",
        "pricing": {"amount": "0.01", "currency": "USDC", "network": "Base", "scheme": "exact"},
        "quality": {"l30DaysTotalCalls": "12", "l30DaysUniquePayers": "3"},
        "serviceName": "Weather",
        "tags": ["rain", "sun"],
        "payTo": "0xPay",
    }
    assert (parsed.category, parsed.icon_url[-8:]) == ("Data", "icon.png")
    assert (parsed.calls, parsed.payers) == (12, 3)
    assert parsed.called == 1_777_593_600_000_000
    assert (parsed.domain, parsed.networks) == ("api.weather-data.example", ["Base"])
    assert parsed.updated == 1_777_593_600_000_001


def test_the_size_of_a_resource_is_checked_before_anything_else() -> None:
    nested = b'{"x":' + b"[" * MAX_LISTING
    with pytest.raises(LeftOut) as caught:
        read(nested)
    assert caught.value.rule == SIZE


def test_a_fault_in_an_entry_counts_only_where_no_other_entry_is_right() -> None:
    right = accept("20000", network="solana", asset=SOLANA_USDC, payTo="So1")
    for faulty in (accept("-1"), accept("0.01"), accept("$1", network="base")):
        assert endpoint_of(resource(URL, faulty, right))["payTo"] == "So1"
        with pytest.raises(InvalidRecord):
            read(resource(URL, faulty, faulty))


def test_stablecoins_of_the_operator_price_resources() -> None:
    coin = Stablecoin(network="eip155:8453", address="0xC0", currency="NEW", decimals=2, usd=False)
    rules = Rules(Policy(stablecoins=(coin,)))
    entry = accept("150", network="base", asset="0xc0")
    parsed = read(resource(URL, entry), rules)
    pricing = msgspec.to_builtins(parsed.pricing)
    assert (pricing["amount"], pricing["currency"], parsed.price) == ("1.5", "NEW", 1.5)
    assert read(resource(URL, entry)).price == 0


def test_the_payees_of_a_resource_are_those_of_all_entries_as_they_are_compared() -> None:
    entries = [accept(payTo="0xAB"), accept(payTo="So1"), accept(payTo="0xab"), accept(payTo=None)]
    assert read(resource(URL, *entries)).payees == ["0xab", "So1"]


MALFORMED: dict[str, tuple[Json | bytes, str, str]] = {
    "not JSON": (b"nope", "$", "malformed"),
    "no object": (b"[1]", "$", "Expected `object`"),
    "not UTF-8": (b'{"resource": "\xff"}', "$", "not UTF-8 at byte 14"),
    "a lone surrogate": (b'{"resource": "\\ud800"}', "$", "half of a surrogate pair"),
    "nested without end": (b'{"x":' + b"[" * 9999 + b"]" * 9999 + b"}", "$", "too deeply"),
    "no resource": ({"accepts": [accept()]}, "$.resource", "there is no URL"),
    "a resource without URL": (resource({}), "$.resource.url", "there is no URL"),
    "a number for a URL": (resource(7), "$.resource", "is not a URL"),
    "an empty URL": (resource(""), "$.resource", "not a URL with a host"),
    "no URL": (resource("weather"), "$.resource", "not a URL with a host"),
    "a path": (resource("/v1/weather"), "$.resource", "not a URL with a host"),
    "a script": (resource("javascript:alert(1)"), "$.resource", "not a URL with a host"),
    "no host": (resource({"url": "https:///v1"}), "$.resource.url", "not a URL with a host"),
    "an impossible host": (
        resource("https://a..b/"),
        "$.resource",
        "names a host that is not valid",
    ),
    "a long host": (resource(f"https://{'a' * 300}.example/"), "$.resource", "names a host"),
    "an impossible port": (resource("https://a.example:99999/"), "$.resource", "is not a URL"),
    "an unclosed address": (resource("https://[::1/"), "$.resource", "is not a URL"),
    "a blank": (resource("https://a.example/a b"), "$.resource", "not allowed in a URL"),
    "a backslash": (
        resource("https://a.example\\@b.example/"),
        "$.resource",
        "not allowed in a URL",
    ),
    "a NUL": (resource("https://a.example/\0"), "$.resource", "not allowed in a URL"),
    "reversed text": (
        resource("https://a.example/\u202egnp"),
        "$.resource",
        "not allowed in a URL",
    ),
    "a long URL": (resource(f"{URL}{'x' * 5000}"), "$.resource", "longer than the 4,096"),
    "accepts of no list": ({"resource": URL, "accepts": {}}, "$.accepts", "Expected `array`"),
    "accepts of numbers": (resource(URL, 7), "$.accepts[0]", "Expected `object`"),  # type: ignore[arg-type]  # an entry that is not an object
    "a number with too many digits": (
        b'{"resource":"https://a.example","accepts":[],"x":[%b]}' % (b"9" * 5000),
        "$",
        "too many digits",
    ),
    "a number that is no float": (
        b'{"resource":"https://a.example","accepts":[{"extra":{"x":1e400}}]}',
        "$",
        "beyond those of a 64-bit float",
    ),
    "deep nesting": (resource(x=json.loads("[" * 300 + "]" * 300)), "$", "nested too deeply"),
    "a negative amount": (resource(URL, accept("-1")), "$.accepts[0].amount", "is negative"),
    "a fraction": (resource(URL, accept("0.01")), "$.accepts[0].amount", "whole number"),
    "a price in dollars": (resource(URL, accept("$0.01")), "$.accepts[0].amount", "whole number"),
    "endless digits": (resource(URL, accept("9" * 300)), "$.accepts[0].amount", "78 digits"),
    "a negative amount of version 1": (
        v1({}, maxAmountRequired="-5"),
        "$.accepts[0].maxAmountRequired",
        "is negative",
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_resource_is_rejected_with_path_and_reason(case: str) -> None:
    record, path, reason = MALFORMED[case]
    with pytest.raises(InvalidRecord) as caught:
        read(record)
    assert caught.value.path == path
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://a.example", "https://A.Example:443/"),
        ("https://a.example/x", "HTTPS://a.example./x#part"),
        ("https://bücher.example/x", "https://xn--bcher-kva.example/x"),
        ("https://8.8.8.8/x", "https://0x8080808/x"),
    ],
)
def test_two_spellings_of_one_url_have_one_identity(one: str, other: str) -> None:
    assert read(resource(one)).identity == read(resource(other)).identity
    assert endpoint_of(resource(other))["url"] == other


@pytest.mark.parametrize("other", ["/X", "/x/", "/x?a=1", ":8443/x"])
def test_different_urls_have_different_identities(other: str) -> None:
    one = read(resource("https://a.example/x")).identity
    assert one != read(resource(f"https://a.example{other}")).identity


@pytest.mark.parametrize(
    "icon",
    [
        "javascript:alert(1)",
        "data:image/png;base64,AAAA",
        "https://127.0.0.1/a.png",
        "https://a@b.example/a.png",
        "/icon.png",
        7,
    ],
)
def test_an_invalid_field_of_the_metadata_is_dropped_and_the_others_kept(icon: Any) -> None:
    record = resource(serviceName="a\nb", iconUrl=icon, tags=7, description=["x"], quality=[1])
    parsed = read(record | {"metadata": {"serviceName": "Weather"}})
    assert (parsed.service_name, parsed.icon_url) == ("Weather", "")
    assert (parsed.tags, parsed.description) == ([], "")
    assert parsed.calls is None


@pytest.mark.parametrize("count", [-1, 1.5, "x", True, 2**63, "9" * 30, None, {}])
def test_an_invalid_count_is_dropped(count: Any) -> None:
    assert "quality" not in endpoint_of(resource(quality={"l30DaysTotalCalls": count}))


SHAPED = [
    resource(
        {"url": URL, "description": "d", "tags": ["a"]},
        accept(),
        TEST_NETWORK_PRICE,
        quality={"l30DaysTotalCalls": 5, "lastCalledAt": "2026-06-14T17:02:31.915Z"},
        lastUpdated="2026-06-14T17:02:31.915Z",
        metadata={},
    ),
    v1(
        {"method": "POST", "bodyFields": {"a": {"type": "string", "enum": ["x"], "required": True}}}
    ),
    v2(
        {"method": "GET", "queryParams": {"city": "Oslo"}},
        {"queryParams": {"properties": {"city": {"type": "string"}}, "required": ["city"]}},
        routeTemplate="/v1/:what",
    ),
]


TEXTS = ("", "\0", "\u202e", "https://x", "https://\u2100", "10000", "-1", "object", '"a" | "b"')
URL_TEXTS = st.from_regex(r"https?://[a-z0-9.%:@\[\]]{0,20}(/.*)?", fullmatch=True)
KEYS = ("type", "properties", "url", "enum", "items", "x")
values = st.integers(2**64, 10**300) | json_values(
    *TEXTS, keys=KEYS, text=st.text() | URL_TEXTS, leaves=6
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if not isinstance(value, (dict, list)):
        return [path]
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    return [path, *(nested for key, each in inner for nested in places(each, (*path, key)))]


@settings(max_examples=examples(400), deadline=None)
@given(st.data(), st.sampled_from(SHAPED))
def test_a_resource_with_any_value_in_any_place_is_listed_or_rejected_with_a_reason(
    data: st.DataObject, shaped: Json
) -> None:
    record = {"": copy.deepcopy(shaped)}
    for path in data.draw(st.lists(st.sampled_from(places(record)[1:]), min_size=1, max_size=3)):
        target: Any = record
        try:
            for key in path[:-1]:
                target = target[key]
            target[path[-1]] = data.draw(values)
        except (TypeError, IndexError, KeyError):
            continue  # an earlier mutation removed this place
    discovery = discover([Feed([record[""]])], rules=Rules(Policy(allow_http=True)))
    for group, service in discovery.groups():
        assert len(service["endpoints"]) == 1
        assert len(group.rows) == 1
        for listing in discovery.listings(group):
            msgspec.json.decode(encode_listing(listing, "a"), type=DiscoveryResource)
