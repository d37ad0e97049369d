"""Listings of resources: what is kept as it came, and what is added where clients need it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.options import Policy
from indexer.sources.records import SourceRecord
from indexer.x402.listing import MAX_ENTRIES, MAX_LISTING
from indexer.x402.resource import Unlisted, read_resource
from tests.support.running import Json, examples
from tests.support.x402 import URL, accept, resource, v1, v2

SET = {"resource", "type", "x402Version", "lastUpdated", "metadata", "extensions", "ratecard"}


def listing_of(record: Json | str) -> Json | None:
    text = record if isinstance(record, str) else json.dumps(record)
    _, listing = read_resource(SourceRecord("items[0]", text.encode()), Policy())
    if listing is None:
        return None
    listed: Json = json.loads(listing.encode("weather"), parse_float=str, parse_int=str)
    return listed


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(100), deadline=None)
@given(
    fields=st.dictionaries(
        st.text().filter(lambda name: name not in SET | {"accepts", "endpoints"}), json_values
    ),
    entries=st.lists(
        st.dictionaries(st.text(), json_values).map(lambda unknown: accept() | unknown),
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
    _, listing = read_resource(SourceRecord("items[0]", text.encode()), Policy())
    assert listing is not None
    assert f'"x":{value}'.encode() in bytes(listing.text)


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
    _, listing = read_resource(SourceRecord("", json.dumps(record).encode()), Policy())
    assert listing is not None
    text = listing.encode("weather")
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
def test_an_oversized_resource_is_left_out(record: Json) -> None:
    with pytest.raises(Unlisted) as left_out:
        listing_of(record)
    assert left_out.value.policy == "oversized resources"
