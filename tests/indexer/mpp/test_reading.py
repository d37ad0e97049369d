"""Directories of MPP: each endpoint is a resource or has a reason, whatever they say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.documents.document import OTHER_HOSTS
from indexer.errors import InvalidRecord, LeftOut
from indexer.mpp import reading
from indexer.mpp.reading import WITHOUT_ENDPOINTS
from indexer.options import Policy, SourceOptions
from indexer.resources.x402 import SIZE
from indexer.x402.described import read_described
from indexer.x402.rules import Rules
from tests.support.running import Json, examples
from tests.support.sources.mpp import (
    CHARGE,
    EMPTY,
    MAPS,
    TALK,
    directory,
    endpoint,
    read,
    service,
)

RULES = Rules(Policy())


def rule_of(fault: InvalidRecord | None) -> str:
    return fault.rule if isinstance(fault, LeftOut) else ""


@pytest.mark.parametrize("url", ["https://mpp.example/maps", "https://mpp.example/maps/?a=1#b"])
@pytest.mark.parametrize(
    "given", [{"method": "post", "path": "/v1/route"}, {"route": "POST /v1/route"}]
)
def test_an_endpoint_is_below_the_path_of_its_service(given: Json, url: str) -> None:
    (record,) = read(directory(service("Maps", given | {"payment": CHARGE}, serviceUrl=url)))
    resource = read_described(record)
    assert resource.identity == "https://mpp.example/maps/v1/route"
    assert resource.method == "POST"
    assert not resource.is_listed


def test_members_of_a_service_stand_on_its_resources() -> None:
    first, second, free = read(directory(MAPS))
    resource = json.loads(first.text)
    assert resource["serviceName"] == "Maps"
    assert resource["category"] == "data"
    assert resource["tags"] == ["geo", "web"]
    assert resource["iconUrl"] == "https://maps.example/icon.png"
    texts = read_described(first).texts
    assert texts is not None
    assert texts == read_described(second).texts
    assert (texts.provider, texts.integration, texts.status) == ("Maps Inc.", "3P", "beta")
    assert json.loads(texts.info) == {
        "categories": ["data", "web"],
        "docs": {"homepage": "https://docs.maps.example", "llms": "https://maps.example/llms.txt"},
    }
    assert free.fault is not None


def test_records_have_the_positions_of_endpoints_and_of_services_without_any() -> None:
    records = read(directory(MAPS, EMPTY, TALK, 5))
    assert [each.position for each in records] == [
        *(f"services[0].endpoints[{number}]" for number in range(3)),
        "services[1]",
        *(f"services[2].endpoints[{number}]" for number in range(2)),
        "services[3]",
    ]
    assert rule_of(records[3].fault) == WITHOUT_ENDPOINTS
    assert str(records[-1].fault).startswith("$.services[3]: Expected `object`")


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
    monkeypatch.setattr(reading, "MAX_OPERATIONS", 3)
    assert [rule_of(each.fault) for each in read(given)] == ["", "", "", SIZE, SIZE]
    monkeypatch.setattr("indexer.documents.document.MAX_RESOURCES", 1_000)
    assert [rule_of(each.fault) for each in read(given)].count(SIZE) >= 3


def test_a_hundred_thousand_endpoints_have_one_fate_each() -> None:
    endpoints = [endpoint(f"/{number}", None) for number in range(100_000)]
    records = read(directory(service("Maps", *endpoints)))
    assert len(records) == 100_000
    assert all(each.fault is not None for each in records)


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


def test_huge_texts_are_cut() -> None:
    given = service("M" * 10_000, endpoint(description="d" * 10**6), description="s" * 10**6)
    given |= {"serviceUrl": "https://mpp.example", "tags": ["t" * 10**5] * 1_000}
    (record,) = read(directory(given))
    assert record.fault is None
    assert len(record.text) < 12_000


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["tempo", "usd", "GET", "/a", "POST /b", "5", "https://mpp.example/x"])
    | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("method", "amount", "decimals", "dynamic", "assets", "route", "path"),
                    *("payment", "methods", "endpoints", "serviceUrl", "unitType", "intent"),
                    *("docs", "provider", "icon", "categories", "currency", "recipient", "name"),
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
endpoint_values = json_values | st.builds(
    lambda payment, path: endpoint(path, payment), json_values, st.sampled_from(["/a", "/{b}", ""])
)


@settings(max_examples=examples(200), deadline=None)
@given(endpoints=st.lists(endpoint_values, min_size=1, max_size=4), fields=json_values)
def test_each_endpoint_has_one_fate(endpoints: list[Any], fields: Any) -> None:
    members = fields if isinstance(fields, dict) else {"methods": fields}
    kept = {"serviceUrl": "https://mpp.example/maps", "endpoints": endpoints}
    records = read(directory(service("Maps") | members | kept))
    assert len(records) == len(endpoints)
    for record in records:
        if record.fault is None:
            try:
                read_described(record)
            except InvalidRecord:
                continue


@settings(max_examples=examples(100), deadline=None)
@given(services=json_values)
def test_any_value_may_stand_for_the_services(services: Any) -> None:
    records = read({"version": 1, "services": services})
    assert len(records) >= (len(services) if isinstance(services, list) else 1)
