"""Columns of records, compared with brute force over the records."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.derive.columns import RecordColumns
from indexer.derive.extraction import Extractor, endpoint_key
from indexer.derive.records import MAX_SHARED, Annotations
from indexer.record_store import write_records
from indexer.resources.assets import is_test_network
from service.arrays.container import open_arrays, writing_arrays
from service.arrays.texts import Records, Summaries, write_summaries
from service.conditions import folded
from service.networks import network_key, network_label
from service.snapshot.endpoints import ADDED_MEMBERS
from tests.support.running import Json, endpoint, examples, service
from tests.support.sources.columns import (
    columns_of,
    columns_of_texts,
    records,
    stored,
)

Values = list[list[str]]


def values(columns: RecordColumns, name: str) -> Values:
    """Return the values of a run of each service, in the order of letters."""
    strings = columns.strings.strings()
    run = columns.service_runs[name]
    bounds = run.bounds.tolist()
    return [
        sorted(strings[number] for number in run.items[start:stop].tolist())
        for start, stop in pairwise(bounds)
    ]


def distinct(given: list[str], key: Any) -> list[str]:
    return sorted({key(value): value for value in given}.values())


def on_main_networks(record: Json) -> list[Json]:
    prices = [each["pricing"] for each in record["endpoints"]]
    return [each for each in prices if not is_test_network(each.get("network", ""))] or prices


def cheapest(record: Json) -> float:
    amounts = [
        each["amount"] or each.get("minAmount") or each.get("maxAmount")
        for each in on_main_networks(record)
    ]
    return min((float(amount) for amount in amounts if amount), default=float("nan"))


def price_ranges(record: Json) -> dict[str, tuple[float, float]]:
    amounts: dict[str, list[float]] = {}
    for price in on_main_networks(record):
        for name in ("amount", "minAmount", "maxAmount"):
            if float(price.get(name) or 0) > 0:
                amounts.setdefault(price["currency"], []).append(float(price[name]))
    return {currency: (min(each), max(each)) for currency, each in amounts.items()}


def compared(price: Json) -> float:
    bound = price.get("maxAmount", "")
    amount = price["amount"] or price.get("minAmount", "")
    if bound and (not price["amount"] or price.get("scheme", "").strip().casefold() == "upto"):
        amount = bound
    return float(amount) if amount else float("nan")


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(records, max_size=6))
def test_services_have_the_values_of_their_records(given_records: list[Json]) -> None:
    columns = columns_of(given_records)
    strings = columns.strings.strings()
    services, runs = columns.services, columns.service_runs
    assert runs["id"].strings() == [each["id"] for each in given_records]
    assert runs["name"].strings() == [each["name"] for each in given_records]
    for name in ("category", "integrationType", "provider"):
        own = [strings[number] for number in runs[name].items.tolist()]
        assert own == [each.get(name, "") for each in given_records]
    assert services["enriched"].tolist() == [each.get("enriched", False) for each in given_records]
    assert services["endpoints"].tolist() == [len(each["endpoints"]) for each in given_records]
    np.testing.assert_array_equal(services["cheapest"], [cheapest(each) for each in given_records])
    assert values(columns, "tag") == [
        distinct(each.get("tags", []), folded) for each in given_records
    ]
    prices = [[each["pricing"] for each in record["endpoints"]] for record in given_records]
    schemes = [[each["scheme"] for each in own if each.get("scheme")] for own in prices]
    assert values(columns, "scheme") == [distinct(each, folded) for each in schemes]
    networks = [
        record.get("networks") or [each["network"] for each in own if each.get("network")]
        for record, own in zip(given_records, prices, strict=True)
    ]
    labels = [[network_label(network) for network in each] for each in networks]
    assert values(columns, "network") == [distinct(each, network_key) for each in labels]
    ranges: list[dict[str, tuple[float, float]]] = [{} for _ in given_records]
    for owner, (currency, lowest, highest) in zip(
        np.repeat(np.arange(len(runs["prices"].sizes)), runs["prices"].sizes).tolist(),
        runs["prices"].items.tolist(),
        strict=True,
    ):
        ranges[owner][strings[currency]] = (lowest, highest)
    assert ranges == [price_ranges(each) for each in given_records]


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(records, max_size=6))
def test_endpoints_have_the_values_of_their_records(given_records: list[Json]) -> None:
    texts = [stored(record) for record in given_records]
    columns = columns_of_texts(texts)
    strings = columns.strings.strings()
    runs = columns.endpoint_runs
    own = [
        (number, each)
        for number, record in enumerate(given_records)
        for each in record["endpoints"]
    ]
    rows = zip(own, columns.endpoints, range(len(columns.endpoints)), strict=True)
    for (number, each), row, position in rows:
        assert json.loads(texts[number][row["start"] : row["stop"]]) == each
        assert bool(row["is_rewritten"]) == any(name in ADDED_MEMBERS for name in each)
        tool = each["tool"] if isinstance(each.get("tool"), str) else ""
        assert row["key"] == endpoint_key(each["url"], each["method"], tool)
        price = each["pricing"]
        np.testing.assert_array_equal(row["price"], compared(price))
        quality = each.get("quality") or {}
        payers = int(quality.get("l30DaysUniquePayers", 0))
        assert row["payers"] == min(payers, np.iinfo(np.int64).max)
        pay_to = each["payTo"] if isinstance(each.get("payTo"), str) else ""
        expected = {
            "network": price.get("network", ""),
            "scheme": price.get("scheme", ""),
            "currency": price["currency"],
            "pay_to": pay_to,
        }
        assert {name: strings[row[name]] for name in expected} == expected
        owner = given_records[number]
        methods = re.split("[,/|]", each["method"].upper())
        facets = {
            "method": [method for name in methods if (method := name.strip())],
            "category": [owner.get("category", "")],
            "tag": each.get("tags") or owner.get("tags", []),
            "provider": [each.get("providerName") or owner.get("provider", "")],
        }
        for name, given_values in facets.items():
            numbers = runs[name].take(np.array([position])).items.tolist()
            own_values = sorted(strings[value] for value in numbers)
            assert own_values == distinct(given_values, folded)


def test_a_service_without_a_price_has_no_cheapest_one() -> None:
    columns = columns_of([service(endpoints=[]), service(endpoints=[endpoint("")])])
    assert [isnan(price) for price in columns.services["cheapest"].tolist()] == [True, True]


def brute_summary(text: bytes) -> Json:
    record: Json = json.loads(text)
    return record | {"endpoints": [], "endpointCount": len(record["endpoints"])}


PLAIN = stored(service())
ODD = {
    "repeats a name": PLAIN[:-1] + b',"name":"Two"}',
    "escapes a name": PLAIN.replace(b'"endpoints"', rb'"\u0065ndpoints"'),
    "escapes another name": PLAIN.replace(b'"description"', rb'"d\u0065scription"'),
    "escapes in capital letters": PLAIN[:-1] + rb',"\u001F":1}',
    "counts its endpoints": stored(service(endpointCount=7)),
    "has its endpoints twice": stored({"x": service()["endpoints"]} | service()),
    "has endpoints within": stored({"x": service()} | service()),
    "has endpoints in a text": stored({"x": '"endpoints":[]'} | service()),
    "has an empty name": PLAIN[:-1] + b',"":1}',
    "ends with endpoints": stored({"id": "a", **service(None)}),
    "has no endpoints": stored(service(networks=[], endpoints=[])),
}


def summaries_of(folder: Path, texts: list[bytes], columns: RecordColumns) -> list[bytes]:
    """Write and read the summaries of stored services."""
    write_records(folder, texts)
    services, rewritten = columns.services, columns.service_runs["summary"].texts()
    with writing_arrays(folder / "summaries.arrays") as writer:
        write_summaries(
            writer, services["start"], services["stop"], services["endpoints"], rewritten
        )
    summaries = Summaries(open_arrays(folder / "summaries.arrays"), Records(folder))
    return [summaries.text(ordinal) for ordinal in range(len(texts))]


@pytest.mark.parametrize("case", ODD)
def test_the_summary_of_an_odd_record_is_that_of_its_members(
    case: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    texts = [PLAIN, ODD[case], PLAIN]
    folder = tmp_path_factory.mktemp("summaries")
    columns = columns_of_texts(texts)
    summaries = summaries_of(folder, texts, columns)
    assert [json.loads(each) for each in summaries] == [brute_summary(each) for each in texts]
    assert (
        summaries[0]
        == PLAIN.replace(stored({"": service()["endpoints"]})[4:-1], b"[]")[:-1]
        + b',"endpointCount":1}'
    )
    owners = np.repeat([0, 1, 2], columns.services["endpoints"])
    for owner, row in zip(owners.tolist(), columns.endpoints, strict=True):
        assert json.loads(texts[owner][row["start"] : row["stop"]]) == service()["endpoints"][0]


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(records, min_size=1, max_size=4))
def test_summaries_have_the_count_in_place_of_the_endpoints(
    tmp_path_factory: pytest.TempPathFactory, given_records: list[Json]
) -> None:
    folder = tmp_path_factory.mktemp("summaries")
    texts = [stored(record) for record in given_records]
    summaries = [json.loads(each) for each in summaries_of(folder, texts, columns_of_texts(texts))]
    assert summaries == [brute_summary(text) for text in texts]


def tokens_of(columns: RecordColumns) -> list[list[list[str]]]:
    """Return the words of each document by field."""
    strings = columns.strings.strings()
    return [
        [[strings[number] for number in run.take(np.array([row])).items] for run in runs]
        for runs in (columns.service_tokens.values(), columns.endpoint_tokens.values())
        for row in range(len(next(iter(runs)).sizes))
    ]


def searched(**fields: Any) -> str:
    return str(tokens_of(columns_of([service(**fields)])))


PARAMETER = {"name": "v1", "group": "query", "type": "string"}
SEARCHED: tuple[Json, ...] = (
    {"name": "Two"},
    {"description": "Two"},
    {"category": "Two"},
    {"endpoints": []},
    {"endpoints": [endpoint(), endpoint()]},
    *(
        {"endpoints": [endpoint() | change]}
        for change in (
            {"url": "https://api.one.example/v2"},
            {"description": "v1"},
            {"tags": ["v1"]},
            {"tags": ["v", "1"]},
            {"parameters": [PARAMETER]},
            {"parameters": [PARAMETER | {"description": "v2"}]},
            {"parameters": [PARAMETER, {"name": "v2", "group": "query", "type": "string"}]},
            {"outputSchema": {"output": {"v2": "string"}}},
            {"responseSchema": {"properties": {"v3": {"type": "string"}}}},
            {"tool": "v1"},
        )
    ),
)


def test_the_tokens_differ_where_a_searched_text_does() -> None:
    tokens = [searched(), *(searched(**fields) for fields in SEARCHED)]
    assert len(set(tokens)) == len(tokens)


def test_the_texts_that_endpoints_share_are_searched_up_to_a_length() -> None:
    long = "v " * MAX_SHARED
    for name in ("name", "description", "category", "domain"):
        assert searched(**{name: f"{long}end"}) == searched(**{name: long})
        alone = [searched(endpoints=[], **{name: text}) for text in (long, f"{long}end")]
        assert alone[0] != alone[1]
        assert searched(**{name: f"{long[: MAX_SHARED - 4]} end"}) != searched(**{name: long})
    own = [endpoint() | {"description": f"{long}{end}"} for end in ("", "end")]
    assert searched(endpoints=own[:1]) != searched(endpoints=own[1:])


def test_annotations_are_searched_where_the_record_says_nothing() -> None:
    text = stored(service(endpoints=[endpoint(), endpoint()]))
    extractor = Extractor()
    extractor.add(text, Annotations(["", "v4"]).encode())
    columns = RecordColumns(extractor.arrays(np.zeros((1, 32), np.uint8)))
    assert columns.endpoint_tokens["output"].sizes.tolist() == [0, 2]


@pytest.mark.parametrize(
    "fields",
    [
        {"enriched": True, "provider": "x", "tags": ["x"]},
        {"endpoints": [endpoint("7", network="Base") | {"method": "PUT", "quality": None}]},
        {"endpoints": [endpoint() | {"url": f"{endpoint()['url']}?not=searched"}]},
    ],
)
def test_the_tokens_are_the_same_where_other_fields_differ(fields: Json) -> None:
    assert searched(**fields) == searched()
