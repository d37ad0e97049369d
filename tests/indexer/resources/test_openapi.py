"""OpenAPI documents: each operation is a resource or has a reason, whatever the document says."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.errors import LeftOut
from indexer.options import SourceOptions
from indexer.resources import openapi
from indexer.resources.documents import FREE as FREE_RULE
from indexer.resources.documents import OTHER_HOSTS, SIGN_IN, Described
from indexer.resources.openapi import PATH_ITEM_METHODS
from tests.support.json_values import json_values
from tests.support.running import Json, examples
from tests.support.sources.openapi import (
    CURATED,
    DOCUMENTS,
    FREE,
    PAID_RESPONSE,
    X402SCAN,
    document,
    fixed,
    read,
    resources,
)

FETCHED = SourceOptions(name="url", url="https://weather.example/docs/openapi.json")
KEYS = (
    *("openapi", "info", "servers", "paths", "components", "title", "url", "parameters", "name"),
    *("in", "schema", "properties", "required", "allOf", "anyOf", "type", "enum", "$ref", "offers"),
    *("requestBody", "content", "application/json", "x-payment-info", "protocols", "price"),
    *("amount", "currency", "method", "intent", "variables", "default", "responses", "402"),
    *(
        "security",
        "x402",
        "mpp",
        "network",
        "asset",
        "payTo",
        "pricingMode",
        "minPrice",
        "unitType",
    ),
)
TEXTS = ("path", "query", "0.01", "usd", "https://a.example", "#/components", "#/", "//[", "text/x")
values = json_values(
    *TEXTS,
    keys=st.sampled_from(KEYS) | st.text(max_size=3),
    text=st.text(max_size=5),
    leaves=25,
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


def urls(given: Json, source: SourceOptions = CURATED) -> list[str]:
    return [each.url for each in resources(read(given, source)).values()]


def url_of(found: Described) -> str:
    url: str = json.loads(found.text)["resource"]
    return url


def rule_of(each: Described) -> str:
    assert isinstance(each.fault, LeftOut)
    return each.fault.rule


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_operation_has_one_fate(name: str) -> None:
    found = read(DOCUMENTS[name])
    assert len(found) == count_operations(DOCUMENTS[name])
    assert max(Counter(each.position for each in found).values()) == 1


def test_paid_operations_are_resources_with_texts_and_parameters() -> None:
    found = resources(read(X402SCAN))
    assert [*found] == ["GET /forecast/{city}", "POST /tides"]
    forecast = found["GET /forecast/{city}"]
    assert forecast.url == "https://api.weather.example/v1/forecast/{city}"
    assert forecast.description == "Forecast. Hourly forecast for a city."
    assert (forecast.service_name, forecast.tags) == ("Weather House", ["weather"])
    assert (forecast.method, forecast.is_listed) == ("GET", False)
    assert {(each["group"], each["name"]) for each in json.loads(forecast.parameters)} == {
        ("query", "days"),
        ("path", "city"),
    }
    assert [msgspec.to_builtins(each.to_offer()) for each in forecast.offers] == [
        {"protocol": "x402", "statedBy": "openapi", "amount": "0.05", "currency": "USD"}
    ]
    assert forecast.texts is not None
    assert forecast.texts.guidance == "Ask for the forecast first."


def test_free_operations_are_left_out_with_their_url() -> None:
    found = {each.position: each for each in read(X402SCAN)}
    for position in ("GET /status", "DELETE /forecast/{city}"):
        assert rule_of(found[position]) == FREE_RULE
        assert "neither `x-payment-info` nor a response 402" in str(found[position].fault)
    assert url_of(found["GET /status"]) == "https://api.weather.example/v1/status"


@pytest.mark.parametrize(
    ("security", "shared", "is_paid"),
    [
        ([{"siwx": []}], None, False),
        ([{"Sign-In-With-X": []}], None, False),
        ([{"siwx": []}, {"siwe": []}], None, False),
        (None, [{"siwx": []}], False),
        ([], [{"siwx": []}], True),
        ([{"siwx": []}, {}], None, True),
        ([{"siwx": []}, {"x402": []}], None, True),
        ([{"siwx": [], "apiKey": []}], None, True),
        ([{"apiKey": []}], None, True),
        (7, None, True),
    ],
)
def test_a_sign_in_alone_is_no_payment(security: Any, shared: Any, *, is_paid: bool) -> None:
    operation = {"responses": PAID_RESPONSE} | ({} if security is None else {"security": security})
    priced = fixed(**operation)
    more = {} if shared is None else {"security": shared}
    first, second = read(document({"/a": {"get": operation, "post": priced}}, **more))
    assert second.fault is None
    assert is_paid or rule_of(first) == SIGN_IN
    assert is_paid == (first.fault is None)


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
    (found,) = read(text)
    assert str(found.fault).startswith(fault)


def test_servers_of_operations_come_first_and_variables_have_their_defaults() -> None:
    own = [{"url": "https://other.weather.example"}]
    given = document(
        {"/a": {"get": fixed(servers=own), "post": fixed()}, "/b": {"servers": own, "get": fixed()}}
    )
    assert urls(given) == [
        "https://other.weather.example/a",
        "https://api.weather.example/v1/a",
        "https://other.weather.example/b",
    ]
    assert urls(DOCUMENTS["variables"]) == ["https://eu.weather.example/v3/a"]


@pytest.mark.parametrize(
    ("servers", "source", "expected"),
    [
        (
            ["http://localhost:3000", "https://api.two.example"],
            CURATED,
            "https://api.two.example/a",
        ),
        (
            ["http://10.0.0.1", "http://a.example", "https://b.example"],
            CURATED,
            "https://b.example/a",
        ),
        (["https://{x}.[", "https://b.example"], CURATED, "https://b.example/a"),
        (["http://localhost:3000"], CURATED, "http://localhost:3000/a"),
        (["http://localhost:3000"], FETCHED, "https://weather.example/a"),
        (
            ["http://localhost", "https://api.weather.example"],
            FETCHED,
            "https://api.weather.example/a",
        ),
        (
            ["https://a.other.example", "https://weather.example"],
            FETCHED,
            "https://weather.example/a",
        ),
        (["/v2"], FETCHED, "https://weather.example/v2/a"),
        ([], FETCHED, "https://weather.example/a"),
    ],
)
def test_the_first_server_that_may_be_listed_counts(
    servers: list[str], source: SourceOptions, expected: str
) -> None:
    given = document({"/a": {"get": fixed()}}, servers=[{"url": each} for each in servers])
    assert urls(given, source) == [expected]


@pytest.mark.parametrize(
    "servers",
    [["https://other.example"], ["http://localhost", "https://other.example"]],
)
def test_a_document_of_the_servers_of_others_is_not_of_its_own_origin(servers: list[str]) -> None:
    given = document({"/a": {"get": fixed()}}, servers=[{"url": each} for each in servers])
    (found,) = read(given, FETCHED)
    assert rule_of(found) == OTHER_HOSTS
    assert url_of(found) == "https://other.example/a"


def test_a_relative_server_is_of_the_source() -> None:
    given = document({"/a": {"get": fixed()}}, "/v2")
    assert urls(given, FETCHED) == ["https://weather.example/v2/a"]
    named = SourceOptions(name="file", path="a.json", hosts=("api.weather.example",))
    assert urls(given, named) == ["https://api.weather.example/v2/a"]
    (found,) = read(given, CURATED)
    assert "name its host in `hosts`" in str(found.fault)


def test_operations_beyond_the_bounds_of_a_document_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = document({f"/{number}": {"get": fixed(), "post": FREE} for number in range(4)})
    monkeypatch.setattr(openapi, "MAX_OPERATIONS", 3)
    faults = [each.fault for each in read(given)]
    assert len(faults) == 8
    assert sum(fault is None for fault in faults) == 3
    assert "follows 3 paid operations" in str(faults[6])
    monkeypatch.setattr("indexer.resources.documents.MAX_RESOURCES", 600)
    faults = [each.fault for each in read(given)]
    assert "exceeds the 600 bytes" in str(faults[4])


@settings(max_examples=examples(300), deadline=None)
@given(documents)
def test_any_document_gives_one_fate_for_each_operation(given_: Json) -> None:
    found = read(given_)
    assert len(found) == count_operations(given_)
    for each in found:
        check(each)


@settings(max_examples=examples(200), deadline=None)
@given(values)
def test_any_json_is_read_or_refused(value: Any) -> None:
    for each in read(json.dumps(value).encode()):
        check(each)


def check(found: Described) -> None:
    """Check that there is either a resource that can be stored, or a fault with a place."""
    assert (found.resource is None) != (found.fault is None)
    if found.fault is not None:
        assert found.fault.path.startswith("$")
    else:
        msgspec.msgpack.encode(found.resource)


def test_the_servers_of_all_operations_are_read_once() -> None:
    variables = {"a": {"default": "b" * 250}}
    server = {"url": "https://api.weather.example/" + "{a}" * 1300, "variables": variables}
    paths: Json = {f"/{number}": {"get": {}} for number in range(10_000)}
    found = read(document(paths, servers=[server] * 20))
    assert len(found) == len(paths)
    assert all("is longer than the 4,096 characters" in str(each.fault) for each in found)
