"""Manifests: each entry is a resource or a fault, whatever the manifest says."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.errors import LeftOut
from indexer.options import SourceOptions
from indexer.resources import manifest
from indexer.resources.documents import BARE, OTHER_HOSTS, Described
from indexer.resources.resource import Resource
from indexer.resources.x402 import SIZE
from service.schema.discovery import Requirement
from tests.support.running import Json, examples
from tests.support.sources.manifests import (
    FETCHED,
    HOST,
    ITEMS,
    OBJECTS,
    described,
    entries,
    items,
    objects,
    pointer,
    read,
    urls,
    values,
)
from tests.support.sources.x402 import accept, tool, v1

PAYEE = "0x" + "22" * 20


def understand(found: Described) -> Resource:
    assert found.resource is not None, found.fault
    return found.resource


def url_of(found: Described) -> str:
    url: str = json.loads(found.text)["resource"]
    return url


def faults(given_: Any, source: SourceOptions = FETCHED) -> list[str]:
    return [str(each.fault) for each in read(given_, source)]


def test_an_object_is_complete_with_accepts_and_else_left_out() -> None:
    tides, complete = read(OBJECTS)
    assert isinstance(tides.fault, LeftOut)
    assert tides.fault.rule == BARE
    surges = understand(complete)
    assert (surges.is_listed, surges.price) == (True, 0.02)
    assert surges.method == "GET"


def test_a_described_resource_has_its_input_output_and_requirements() -> None:
    record, _ = read(ITEMS)
    forecast = understand(record)
    assert (forecast.identity, forecast.method) == (f"{HOST}/v1/forecast/:city", "GET")
    assert (forecast.price, forecast.output) == (0.05, "celsius")
    assert forecast.service_name == "Weather House"
    (city,) = json.loads(forecast.parameters)
    assert (city["name"], city["group"], city["description"]) == ("city", "path", "a city")
    assert forecast.requires == [Requirement(methods=["sign-in-with-x"])]
    assert json.loads(forecast.text)["requires"] == ["sign-in-with-x"]


def test_an_entry_keeps_what_its_accepts_and_extensions_say() -> None:
    old = {"url": f"{HOST}/a", "method": "POST"} | v1({"queryParams": {"days": "number"}})
    del old["resource"]
    own = {"bazaar": {"info": {"input": {"type": "http", "method": "PUT"}}}}
    amounts: Json = {"accepts": [accept("1" + "0" * 30)], "score": 0.1}
    first, second, third = read(
        objects(old, pointer(extensions=own, accepts=[accept()]), pointer(**amounts))
    )
    (days,) = json.loads(understand(first).parameters)
    assert (days["name"], days["group"]) == ("days", "query")
    assert understand(second).method == "PUT"
    assert json.loads(understand(third).text)["accepts"] == amounts["accepts"]
    assert b'"score":0.1' in understand(third).text


@pytest.mark.parametrize(
    ("source", "url"),
    [
        (FETCHED, f"{HOST}/api/data"),
        (
            SourceOptions(name="file", path="a", hosts=("two.example",)),
            "https://two.example/api/data",
        ),
    ],
)
def test_a_relative_entry_is_of_the_source(source: SourceOptions, url: str) -> None:
    given_ = urls({"url": "POST /api/data", "price": "1"}) | {
        "items": [described(resource="/api/data", input={})]
    }
    assert [understand(each).url for each in read(given_, source)] == [url, url]


def test_a_relative_entry_of_a_file_without_hosts_is_refused() -> None:
    curated = SourceOptions(name="file", path="a", curated=True)
    (fault,) = faults(urls("/api/data"), curated)
    assert fault == (
        "$.url: is a relative URL of a manifest; name its host in `hosts` of the source"
    )


@pytest.mark.parametrize(
    ("source", "listed"),
    [
        (FETCHED, [True, True, False, False]),
        (SourceOptions(name="file", path="a", curated=True), [True] * 4),
        (
            SourceOptions(name="file", path="a", hosts=("other.example",)),
            [False, False, True, False],
        ),
        (SourceOptions(name="file", path="a"), [False] * 4),
    ],
)
def test_entries_on_other_domains_are_left_out(source: SourceOptions, listed: list[bool]) -> None:
    given_ = urls(
        pointer("/a", price="1"),
        pointer(url="https://WEATHER.example/a", price="1"),
        pointer(url="https://other.example/a", accepts=[accept()]),
        described(resource={"url": "https://weather.example.evil.example/a"}),
    )
    records = read(given_, source)
    assert [each.fault is None for each in records] == listed
    for each in records:
        if each.fault is not None:
            assert isinstance(each.fault, LeftOut)
            assert each.fault.rule == OTHER_HOSTS
            assert "example/a" in url_of(each)


@pytest.mark.parametrize(("host", "is_listed"), [("mcp.weather", True), ("mcp.other", False)])
def test_a_tool_is_of_the_host_of_its_server(host: str, is_listed: bool) -> None:
    entry = tool(server=f"https://{host}.example/mcp")
    (record,) = read(objects(entry), FETCHED)
    assert (record.fault is None) == is_listed


def test_an_entry_does_not_pass_for_a_record_or_for_another_document() -> None:
    forged: Json = pointer() | {
        "endpoints": [{"url": "https://other.example/a", "method": "GET", "pricing": {}}],
        "name": "Forged",
        "x-ratecard": {"pricing": {"amount": "7", "currency": "USD"}, "is_pointer": False},
    }
    (record,) = read(objects(forged))
    assert isinstance(record.fault, LeftOut)
    (record,) = read(objects(forged | {"price": "$1"}))
    resource = understand(record)
    assert (resource.url, resource.pricing.amount) == (f"{HOST}/tides", "1")


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        (7, "$: Expected `string` or `object`"),
        (None, "$: Expected `string` or `object`"),
        ([f"{HOST}/a"], "$: Expected `string` or `object`"),
        ("", "$.url: is not a URL, or a method and a URL"),
        ("GET and POST /a", "$.url: is not a URL, or a method and a URL"),
        ({}, "$.resource: there is no URL"),
        ({"url": 7}, "$.url: is not a URL, or a method and a URL"),
        ({"resource": {"url": []}}, "$.resource.url: is not a URL"),
        ("https://[::1", "$.url: is not a URL: Invalid IPv6 URL"),
        (HOST + "/" + "a" * 2**16, "$.url: is longer than the 4,096 characters of a URL"),
    ],
)
def test_a_malformed_entry_is_one_fault(entry: Any, fault: str) -> None:
    assert faults(urls(pointer(price="1"), entry)) == ["None", fault]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b'{"resources":7}', "$.resources: Expected `array`"),
        (b'{"items":{"a":[]}}', "$.items: Expected `array`"),
        (b"[]", "$: "),
        (b'{"resources":["\\ud800"]}', "$: "),
        (
            b'{"resources":[{"url":"https://a.example","a":' + b"[" * 300 + b"]" * 300 + b"}]}",
            "$: ",
        ),
        (b'{"resources":[{"url":"https://a.example","a":1e999}]}', "$: holds a number beyond"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_one_fault(text: bytes, fault: str) -> None:
    (record,) = read(text)
    assert str(record.fault).startswith(fault)


def test_entries_beyond_the_bounds_of_a_manifest_are_left_out() -> None:
    count, priced = 20_000, pointer(price="1")
    found = [each.fault for each in read(urls(*[priced] * count, instructions="a" * 10**6))]
    assert len(found) == count
    assert found[: manifest.MAX_ENTRIES] == [None] * manifest.MAX_ENTRIES
    assert all(isinstance(each, LeftOut) and each.rule == SIZE for each in found[5_000:])


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(entries, max_size=6), st.lists(entries, max_size=3), values)
def test_any_entry_is_a_resource_or_one_fault(
    first: list[Any], second: list[Any], instructions: Any
) -> None:
    given_ = {"resources": first, "items": second, "instructions": instructions}
    records = read(given_)
    assert len(records) == len(first) + len(second)
    for record in records:
        check(record)


@settings(max_examples=examples(200), deadline=None)
@given(values)
def test_any_json_is_read_or_refused(value: Any) -> None:
    for record in read({"resources": value}) + read(value):
        check(record)


def check(found: Described) -> None:
    """Check that there is either a resource of the host, or a fault with a place."""
    if found.fault is not None:
        assert found.resource is None
        assert found.fault.path.startswith("$")
        return
    resource = understand(found)
    assert resource.host.endswith("weather.example")
    assert resource.is_listed != bool(resource.offers)


def test_a_complete_entry_is_listed_in_the_form_of_a_feed() -> None:
    (record,) = read(items(described()))
    fields: Json = json.loads(understand(record).text)
    assert fields["accepts"] == [accept("50000")]
    assert fields["resource"] == f"{HOST}/v1/forecast/oslo"
    assert (fields["method"], fields["routeTemplate"]) == ("GET", "/v1/forecast/:city")


@pytest.mark.parametrize(
    ("price", "pricing"),
    [
        ({"price": "$0.01"}, {"amount": "0.01", "currency": "USD"}),
        ({"price": "0.01 USDC"}, {"amount": "0.01", "currency": "USDC"}),
        ({"price": {"amount": "0.10", "currency": "EUR"}}, {"amount": "0.1", "currency": "EUR"}),
        ({"payment": {"amount": 2, "token": "USDC"}}, {"amount": "2", "currency": "USDC"}),
        ({"price": {"amount": "1", "network": "base-sepolia"}}, {"amount": "", "currency": ""}),
        ({"accepts": [accept("50000")]}, {"amount": "0.05", "currency": "USDC"}),
    ],
)
def test_an_entry_with_a_path_is_an_endpoint_of_the_host(price: Json, pricing: Json) -> None:
    entry = {"path": "/scan/:id", "method": "post", "description": "Scans"} | price
    given_ = {"name": "x", "payTo": PAYEE, "endpoints": [entry]}
    (found,) = map(understand, read(given_))
    assert found.payees == [PAYEE] or "accepts" in price
    assert (found.identity, found.method) == (f"{HOST}/scan/:id", "POST")
    stated = json.loads(msgspec.json.encode(found.pricing))
    assert {key: stated[key] for key in pricing} == pricing


def test_a_path_is_below_the_url_that_a_manifest_of_the_host_states() -> None:
    given_ = {"endpoints": [{"path": "/a", "price": "1"}]}
    (found,) = map(understand, read({"baseUrl": f"{HOST}/v1/"} | given_))
    assert found.url == f"{HOST}/v1/a"
    assert "is outside of" in faults({"baseUrl": "https://other.test"} | given_)[0]


def test_a_path_of_a_file_needs_the_host_and_a_price_must_be_one() -> None:
    given_ = {"endpoints": [{"path": "/a", "price": "1"}]}
    file = SourceOptions(name="file", path="x.json")
    assert faults(given_, file) == [
        (
            "$.path: is a relative URL of a manifest with `endpoints`; "
            "name its host in `hosts` of the source"
        )
    ]
    assert faults({"endpoints": [{"path": "/a", "price": "dear"}]})[0].startswith(
        "$.price: is not a price"
    )
