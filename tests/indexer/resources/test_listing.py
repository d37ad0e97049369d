"""Listings of resources: what is kept as it came, and what is added where clients need it."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.errors import LeftOut
from indexer.resources.assets import STABLECOINS
from indexer.resources.entries import Entry
from indexer.resources.listing import MAX_ENTRIES, MAX_LISTING, encode_listing
from indexer.resources.resource import Resource
from indexer.resources.x402 import SIZE, read_resource
from tests.support.json_values import json_values
from tests.support.running import Json, examples
from tests.support.sources.x402 import (
    SOLANA_USDC,
    TEST_USDC,
    URL,
    USDC,
    accept,
    resource,
    v1,
    v2,
)

EURC = "0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42"
DAI = "0x50c5725949A6F0c72E6C4a641F24049A917DB0Cb"
SET = {"resource", "type", "x402Version", "lastUpdated", "metadata", "extensions", "ratecard"}


def listing_of(record: Json | str) -> Json | None:
    found = read_listing(record)
    if not found.is_listed:
        return None
    listed: Json = json.loads(encode_listing(found, "weather"), parse_float=str, parse_int=str)
    return listed


def read_listing(record: Json | str) -> Resource:
    return read_resource((record if isinstance(record, str) else json.dumps(record)).encode())


ANY = json_values(leaves=8)


@settings(max_examples=examples(100), deadline=None)
@given(
    fields=st.dictionaries(
        st.text().filter(lambda name: name not in SET | {"accepts", "endpoints"}), ANY
    ),
    entries=st.lists(
        st.dictionaries(st.text(), ANY).map(lambda unknown: unknown | accept()),
        min_size=1,
        max_size=3,
    ),
)
def test_every_other_value_of_a_resource_is_kept_as_it_came(
    fields: Json, entries: list[Json]
) -> None:
    text = json.dumps(resource(URL, *entries) | fields)
    record = json.loads(text, parse_float=str, parse_int=str)
    listed = listing_of(text)
    assert listed is not None
    assert {name: listed[name] for name in record} == record
    assert listed.keys() - record.keys() <= SET


def test_numbers_and_escapes_are_written_as_they_came() -> None:
    value = '[1.50,1e3,123456789012345678901234567890,"\\u00e9"]'
    text = json.dumps(resource()).replace('"type"', f'"x": {value}, "type"')
    assert f'"x":{value}'.encode() in read_listing(text).text


def test_the_members_of_an_object_resource_become_those_of_the_listing() -> None:
    inner = {"url": URL, "description": "Forecasts", "mimeType": "application/json", "tags": ["a"]}
    listed = listing_of(resource(inner, tags=["b"]))
    assert listed is not None
    assert listed["resource"] == URL
    assert (listed["description"], listed["mimeType"]) == ("Forecasts", "application/json")
    assert listed["tags"] == ["b"]
    assert listed["ratecard"]["resource"] == {"tags": ["a"]}


def test_the_type_and_the_version_are_added_where_they_are_missing() -> None:
    bare = resource() | {"type": None}
    assert listing_of(bare) == {
        "resource": URL,
        "type": "http",
        "accepts": [accept()],
        "x402Version": "2",
        "ratecard": {
            "service": "weather",
            "endpoint": {"url": URL, "method": ""},
            "price": {"amount": "0.01", "currency": "USDC", "network": "Base", "scheme": "exact"},
        },
    }
    first = listing_of(v1({"method": "GET"}) | {"x402Version": None})
    assert first is not None
    assert first["x402Version"] == "1"
    tool = listing_of(v2({"type": "mcp", "toolName": "forecast"}) | {"type": 7})
    assert tool is not None
    assert tool["type"] == "mcp"
    own = listing_of(resource(type="stream", x402Version=1))
    assert own is not None
    assert (own["type"], own["x402Version"]) == ("stream", "1")
    unknown = listing_of(resource(x402Version=10**20))
    assert unknown is not None
    assert unknown["x402Version"] == "2"


@pytest.mark.parametrize(
    ("updated", "expected"),
    [
        ("2026-05-07T10:16:51+02:00", "2026-05-07T10:16:51+02:00"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
        ("2026-05-07T10:16:51.5", "2026-05-07T10:16:51.500Z"),
        ("2026-05-07 10:16:51Z", "2026-05-07T10:16:51.000Z"),
        (1_700_000_000, "2023-11-14T22:13:20.000Z"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (1e9, "2001-09-09T01:46:40.000Z"),
        ("yesterday", None),
        ("2026-05-07", None),
        (-1, None),
        (1e300, None),
        (None, None),
        ({}, None),
        (True, None),
    ],
)
def test_the_time_of_an_update_is_rfc_3339_or_left_out(updated: Any, expected: str | None) -> None:
    listed = listing_of(resource(lastUpdated=updated))
    assert listed is not None
    assert listed.get("lastUpdated") == expected


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, {"description": "Forecasts"}),
        (None, {"description": "Forecasts"}),
        ({"a": "b"}, {"a": "b", "description": "Forecasts"}),
        ({"description": "Own"}, {"description": "Own"}),
        ({"description": ""}, {"description": ""}),
        ({"description": None}, {"description": "Forecasts"}),
        ("text", {"description": "Forecasts"}),
    ],
)
def test_metadata_has_a_description_where_it_has_none(metadata: Any, expected: Any) -> None:
    listed = listing_of(resource(description="Forecasts", metadata=metadata))
    assert listed is not None
    assert listed["metadata"] == expected


@pytest.mark.parametrize("name", ["extensions", "metadata"])
@pytest.mark.parametrize("value", [None, [], "bazaar", 7])
def test_extensions_and_metadata_that_are_no_objects_are_left_out(name: str, value: Any) -> None:
    listed = listing_of(resource(**{name: value}))
    assert listed is not None
    assert name not in listed


def test_empty_extensions_are_kept() -> None:
    listed = listing_of(resource(extensions={}))
    assert listed is not None
    assert listed["extensions"] == {}


@pytest.mark.parametrize(
    "record",
    [
        resource(ratecard={"service": "other"}),
        resource({"url": URL, "ratecard": {"service": "other"}}),
    ],
    ids=["of the resource", "within an object"],
)
def test_facts_of_another_catalogue_are_replaced(record: Json) -> None:
    text = encode_listing(read_listing(record), "weather")
    assert text.count(b'"ratecard"') == 1
    assert json.loads(text)["ratecard"]["service"] == "weather"


def test_the_description_that_is_added_is_short() -> None:
    listed = listing_of(resource(description="a" * 200_000))
    assert listed is not None
    assert listed["metadata"]["description"] == "a" * 1000


def test_a_resource_without_a_price_is_listed_without_one() -> None:
    listed = listing_of(resource(URL, accept(None)))
    assert listed is not None
    assert "price" not in listed["ratecard"]


@pytest.mark.parametrize("accepts", [[], None])
def test_a_resource_without_accepts_is_not_listed(accepts: Any) -> None:
    assert listing_of({"resource": URL, "accepts": accepts}) is None
    assert listing_of({"resource": URL}) is None


@pytest.mark.parametrize(
    "record",
    [
        resource(extensions={"x": "y" * MAX_LISTING}),
        resource(URL, *([accept()] * (MAX_ENTRIES + 1))),
        resource(URL, *([{}] * 10_000)),
    ],
    ids=["bytes", "entries", "empty entries"],
)
def test_a_listing_that_is_too_large_is_left_out(record: Json) -> None:
    with pytest.raises(LeftOut) as left_out:
        listing_of(record)
    assert left_out.value.rule == SIZE


def entry_of(*entries: Json) -> Entry:
    """Return the facts of the last entry, of which the price is not chosen."""
    return read_listing(resource(URL, accept(), *entries)).entries[-1]


@pytest.mark.parametrize(
    ("entry", "asset", "amount", "is_usd"),
    [
        (accept("1230000"), USDC, "1.23", True),
        (accept(7), USDC, "0.000007", True),
        (accept("0"), USDC, "0", True),
        (accept("-0"), USDC, "0", True),
        (accept(None, maxAmountRequired="20000"), USDC, "0.02", True),
        (accept("5", maxAmountRequired="20000"), USDC, "0.000005", True),
        (accept("50000", scheme="upto"), USDC, "0.05", True),
        (accept("10", network="base-sepolia", asset=TEST_USDC), TEST_USDC, "0.00001", False),
        (accept("10", network="solana", asset=SOLANA_USDC), SOLANA_USDC, "0.00001", True),
        (accept("20000", asset=EURC), EURC, "0.02", False),
        (accept(str(10**18), asset=DAI.upper()), DAI.upper(), "1", True),
        (accept("7", asset="0x42"), "0x42", "", False),
        (accept("7", network="ethereum"), USDC, "", False),
        (accept("7", asset=f" {USDC} "), USDC, "0.000007", True),
        (accept("7", asset="a\nb"), "", "", False),
        (accept("7", asset="a" * 201), "", "", False),
        (accept("7", asset=7), "", "", False),
        ({}, "", "", False),
    ],
)
def test_an_entry_tells_its_asset_and_its_amount(
    entry: Json, asset: str, amount: str, is_usd: bool
) -> None:
    keys = entry_of(entry)
    assert (keys.asset, keys.price, keys.is_usd) == (asset, amount, is_usd)


@pytest.mark.parametrize(
    "amount", [None, "", "-1", -1, "1.5", 1.5, 1e300, "x", " 1", "١", [], {}, True, "9" * 79]
)
def test_an_entry_whose_amount_is_not_valid_has_none(amount: Any) -> None:
    keys = entry_of(accept(amount))
    assert (keys.price, keys.asset, keys.is_usd) == ("", USDC, True)


@pytest.mark.parametrize(
    ("currency", "is_usd"),
    [
        *dict.fromkeys(["USDC", "USDT", "DAI", "PYUSD", "USDC.e", "USDbC"], True).items(),
        ("EURC", False),
    ],
)
def test_stablecoins_of_the_us_dollar_are_known(currency: str, is_usd: bool) -> None:
    assert {asset.is_usd for _, asset, _ in STABLECOINS if asset.currency == currency} == {is_usd}


def test_stablecoins_have_six_decimals_but_for_these() -> None:
    others = {(name, each.currency): each.decimals for name, each, _ in STABLECOINS}
    assert {key: decimals for key, decimals in others.items() if decimals != 6} == {
        ("base", "DAI"): 18,
        ("ethereum", "DAI"): 18,
        ("bnb-chain", "USDC"): 18,
        ("bnb-chain", "USDT"): 18,
        ("stellar", "USDC"): 7,
        ("stellar:testnet", "USDC"): 7,
    }


def test_a_listing_tells_its_url_its_tool_and_its_tags() -> None:
    plain = read_listing(resource({"url": URL, "tags": ["rain", 7, "Rain", ""]}))
    assert (plain.stated_url, plain.tool, plain.listed_tags) == (URL, "", ["rain", "Rain", ""])
    tool = read_listing(v2({"type": "mcp", "toolName": "forecast"}) | {"tags": "rain"})
    assert (tool.stated_url, tool.tool, tool.listed_tags) == (URL, "forecast", [])
    taken = read_listing(resource({"url": URL, "tags": ["inner"]}, tags=None))
    assert taken.listed_tags == []
    routed = read_listing(v2({}, routeTemplate="/v1/:kind"))
    assert routed.stated_url == URL


names = st.text(max_size=4) | st.sampled_from(
    ["accepts", "resource", "metadata", 'a"b\\', "é\u2028"]
)
blanks = st.sampled_from(["".join(each) for n in range(3) for each in product(" \t\n\r", repeat=n)])
slashes = st.sampled_from(["/", "\\/"])


@st.composite
def json_texts(draw: st.DrawFn, value: Any, repeat: bool = True) -> str:
    """Return JSON of a value, with white space, any escapes and repeated keys."""
    if isinstance(value, (dict, list)):
        brackets, items = "[]", []
        if isinstance(value, dict):
            brackets = "{}"
            pairs = [*value.items()]
            if repeat and pairs:
                pairs = [*draw(st.lists(st.sampled_from(pairs), max_size=2)), *pairs]
            for name, each in pairs:
                key = json.dumps(name, ensure_ascii=draw(st.booleans()))
                items.append(f"{key}{draw(blanks)}:{draw(json_texts(each))}")
        else:
            items = [draw(json_texts(each)) for each in value]
        inner = ",".join(draw(blanks) + item + draw(blanks) for item in items)
        return brackets[0] + inner + brackets[1]
    text = json.dumps(value, ensure_ascii=draw(st.booleans()))
    return draw(blanks) + text.replace("/", draw(slashes)) + draw(blanks)


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_the_place_of_an_entry_is_that_of_its_json(data: st.DataObject) -> None:
    hostile = st.dictionaries(names, ANY, max_size=3)
    unknown = data.draw(hostile)
    entries = data.draw(st.lists(hostile, max_size=3))
    entries.insert(data.draw(st.integers(0, len(entries))), accept())
    url = data.draw(st.sampled_from([URL, {"url": URL, "accepts": [1], "é": "x"}]))
    record = unknown | {"accepts": entries, "resource": url}
    order = data.draw(st.permutations([*record]))
    text = data.draw(json_texts({name: record[name] for name in order}))
    listing = read_listing(text)
    encoded = encode_listing(listing, "weather")
    assert len(listing.entries) == len(entries)
    for keys, entry in zip(listing.entries, entries, strict=True):
        place = slice(keys.start, keys.stop)
        assert bytes(listing.text)[place] == encoded[place]
        assert json.loads(encoded[place]) == entry
    start, stop = listing.entries[0].start - 1, listing.entries[-1].stop + 1
    assert json.loads(encoded[start:stop]) == json.loads(encoded)["accepts"]


def test_a_version_that_is_no_number_of_the_protocol_is_replaced() -> None:
    for version in (True, 1.0, "2", 3, None):
        listed = listing_of(resource() | {"x402Version": version})
        assert listed is not None
        assert listed["x402Version"] == "2"  # as `listing_of` reads integers
