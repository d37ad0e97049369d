"""OpenAPI documents: each operation is a resource or has a reason, whatever the document says."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.documents.document import FREE as FREE_RULE
from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.records import SourceRecord
from indexer.openapi import reading
from indexer.openapi.reading import PATH_ITEM_METHODS
from indexer.options import Policy, SourceOptions
from indexer.x402.described import read_described
from indexer.x402.rules import Rules
from tests.support.running import Json, examples
from tests.support.sources.openapi import (
    CURATED,
    DOCUMENTS,
    FREE,
    X402SCAN,
    document,
    fixed,
    read,
    resources,
)

RULES = Rules(Policy())
KEYS = (
    *("openapi", "info", "servers", "paths", "components", "title", "url", "parameters", "name"),
    *("in", "schema", "properties", "required", "allOf", "anyOf", "type", "enum", "$ref", "offers"),
    *("requestBody", "content", "application/json", "x-payment-info", "protocols", "price"),
    *("amount", "currency", "method", "intent", "variables", "default", "responses", "402"),
)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(
        ["path", "query", "0.01", "usd", "https://a.example", "#/components", "#/", "//["]
    ),
)
values: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=3)), inner, max_size=5),
    ),
    max_leaves=25,
)
operations = st.one_of(
    values,
    st.builds(
        lambda more: fixed() | more, st.dictionaries(st.sampled_from(KEYS), values, max_size=4)
    ),
)
paths = st.dictionaries(
    st.sampled_from(["/a", "/b/{c}", "", "//[", "x-a", "/d?e#f"]),
    st.one_of(values, st.dictionaries(st.sampled_from(PATH_ITEM_METHODS), operations, max_size=3)),
    max_size=3,
)
documents = st.builds(
    lambda given, more: document(given) | more,
    paths,
    st.dictionaries(st.sampled_from(["components", "servers", "info", "x-service-info"]), values),
)


def count_operations(values: Json) -> int:
    """Count the operations of a document, and the paths that are none."""
    count = 0
    for path, item in values["paths"].items():
        if path.startswith("x-"):
            continue
        if isinstance(item, dict):
            count += sum(method in item for method in PATH_ITEM_METHODS) + ("$ref" in item)
        else:
            count += 1
    return count


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_operation_is_one_record(name: str) -> None:
    records = read(DOCUMENTS[name])
    assert len(records) == count_operations(DOCUMENTS[name])
    assert max(Counter(each.position for each in records).values()) == 1
    for record in records:
        if record.fault is None:
            read_described(record)


def test_paid_operations_are_resources_with_texts_and_parameters() -> None:
    found = resources(read(X402SCAN))
    assert [*found] == ["GET /forecast/{city}", "POST /tides"]
    forecast = found["GET /forecast/{city}"]
    assert forecast["resource"] == "https://api.weather.example/v1/forecast/{city}"
    assert forecast["description"] == "Forecast. Hourly forecast for a city."
    assert forecast["serviceName"] == "Weather House"
    assert forecast["tags"] == ["weather"]
    record = next(each for each in read(X402SCAN) if each.position == "GET /forecast/{city}")
    resource = read_described(record)
    assert not resource.is_listed
    endpoint = json.loads(msgspec.json.encode(resource.to_endpoint()))
    assert endpoint["method"] == "GET"
    assert [(each["group"], each["name"]) for each in endpoint["parameters"]] == [
        ("query", "days"),
        ("path", "city"),
    ]
    offer = {"protocol": "x402", "statedBy": "openapi", "amount": "0.05", "currency": "USD"}
    assert endpoint["paymentOffers"] == [offer]


def test_free_operations_are_left_out_with_their_url() -> None:
    records = {each.position: each for each in read(X402SCAN)}
    for position in ("GET /status", "DELETE /forecast/{city}"):
        fault = records[position].fault
        assert isinstance(fault, LeftOut)
        assert fault.rule == FREE_RULE
        assert "neither `x-payment-info` nor a response 402" in fault.reason
    status = json.loads(records["GET /status"].text)
    assert status["resource"] == "https://api.weather.example/v1/status"


def test_faulty_operations_are_rejected_where_they_are() -> None:
    faults = {each.position: str(each.fault) for each in read(DOCUMENTS["faults"])}
    assert faults == {
        "GET /a": "$.paths['/a'].get['x-payment-info'].price.amount: is not a price: it must be a "
        "decimal such as 0.01 in units of the currency",
        "PUT /a": "$.paths['/a'].put['x-payment-info'].offers[0].amount: is not a price: it must "
        "be a whole number of base units",
        "POST /a": "$.paths['/a'].post: Expected `object`",
        "/b": "$.paths['/b']: Expected `object`",
        "/c": "$.paths['/c']: refers to another place by `$ref`, which is not followed for a path",
        "GET /d": "None",
        "POST /d": "$.paths['/d'].post['x-payment-info']: Expected `object`",
    }


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b'{"openapi":"2.0","paths":{}}', "$.openapi: is not a version of OpenAPI 3"),
        (b'{"openapi":3,"paths":{}}', "$.openapi: is not a version of OpenAPI 3"),
        (b'{"openapi":"3.0.0","paths":[]}', "$.paths: Expected `object`"),
        (b'{"openapi":"3.0.0","paths":{},"a":1e999}', "$: holds a number beyond"),
        (b'{"openapi":"3.0.0","paths":{},"a":' + b"[" * 300 + b"]" * 300 + b"}", "$: "),
    ],
)
def test_a_document_that_cannot_be_read_is_one_fault(text: bytes, fault: str) -> None:
    (record,) = read(text)
    assert str(record.fault).startswith(fault)


def test_servers_of_operations_come_first_and_variables_have_their_defaults() -> None:
    own = [{"url": "https://other.weather.example"}]
    given = document(
        {"/a": {"get": fixed(servers=own), "post": fixed()}, "/b": {"servers": own, "get": fixed()}}
    )
    urls = [each["resource"] for each in resources(read(given)).values()]
    assert urls == [
        "https://other.weather.example/a",
        "https://api.weather.example/v1/a",
        "https://other.weather.example/b",
    ]
    (variables,) = resources(read(DOCUMENTS["variables"])).values()
    assert variables["resource"] == "https://eu.weather.example/v3/a"


def test_a_relative_server_is_of_the_source() -> None:
    given = document({"/a": {"get": fixed()}}, "/v2")
    fetched = SourceOptions(name="url", url="https://weather.example/docs/openapi.json")
    (found,) = resources(read(given, fetched)).values()
    assert found["resource"] == "https://weather.example/v2/a"
    named = SourceOptions(name="file", path="a.json", hosts=("api.weather.example",))
    (found,) = resources(read(given, named)).values()
    assert found["resource"] == "https://api.weather.example/v2/a"
    (record,) = read(given, CURATED)
    assert "name the host in `hosts`" in str(record.fault)


def test_operations_beyond_the_bounds_of_a_document_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = document({f"/{number}": {"get": fixed(), "post": FREE} for number in range(4)})
    monkeypatch.setattr(reading, "MAX_OPERATIONS", 3)
    faults = [each.fault for each in read(given)]
    assert len(faults) == 8
    assert sum(fault is None for fault in faults) == 3
    assert "follows 3 paid operations" in str(faults[6])
    monkeypatch.setattr("indexer.documents.document.MAX_RESOURCES", 1_000)
    faults = [each.fault for each in read(given)]
    assert "exceeds the 1,000 bytes" in str(faults[4])


@settings(max_examples=examples(300), deadline=None)
@given(documents)
def test_any_document_gives_one_record_for_each_operation(given_: Json) -> None:
    records = read(given_)
    assert len(records) == count_operations(given_)
    for record in records:
        check(record)


@settings(max_examples=examples(200), deadline=None)
@given(values)
def test_any_json_is_read_or_refused(value: Any) -> None:
    for record in read(json.dumps(value).encode()):
        check(record)


def check(record: SourceRecord) -> None:
    """Check that a record is readable or has a fault with a place."""
    if record.fault is not None:
        assert record.fault.path.startswith("$")
        assert record.text == b"" or msgspec.json.decode(record.text)["resource"]
        return
    try:
        resource = read_described(record)
    except InvalidRecord:
        return
    assert msgspec.to_builtins(resource.to_endpoint())["pricing"] is not None
