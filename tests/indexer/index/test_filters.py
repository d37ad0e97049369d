"""The table of services, compared with brute force over the records."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.derive.records import MAX_PAYERS
from indexer.index.filters import write_services
from indexer.index.popularity import Payers, popularity_of
from service.arrays.container import open_arrays
from service.conditions import ServiceConditions, text_columns
from service.filtering.table import Table
from tests.support.running import Json, examples, service
from tests.support.sources.columns import columns_of, records

Facet = list[tuple[str, list[int]]]


def facet(table: Table, name: str) -> Facet:
    """Return the values of a facet, each with its services."""
    column = table.columns[name]
    owners: dict[int, list[int]] = defaultdict(list)
    for row in range(len(table)):
        for number in column.of_row(row):
            owners[number].append(row)
    return [(column.values[number], owners[number]) for number in range(len(column.values))]


def open_table(path: Path) -> Table:
    arrays = open_arrays(path)
    return Table(arrays, len(arrays["price"]), text_columns(ServiceConditions).values())


def expected_facet(values: list[list[str]]) -> Facet:
    """Return the values without case and blanks around them, each in its most frequent spelling."""
    services: dict[str, list[int]] = defaultdict(list)
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    for ordinal, own in enumerate(values):
        for key, value in {value.strip().casefold(): value for value in own}.items():
            services[key].append(ordinal)
            spellings[key][value] += 1
    shown = {
        key: min((-count, value) for value, count in counts.items())[1]
        for key, counts in spellings.items()
    }
    named = [(shown[key], ordinals) for key, ordinals in services.items()]
    return sorted(named, key=lambda pair: (-len(pair[1]), pair[0]))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(records, max_size=12))
def test_a_facet_has_each_value_in_its_most_frequent_spelling(
    tmp_path_factory: pytest.TempPathFactory, given_records: list[Json]
) -> None:
    path = tmp_path_factory.mktemp("filters") / "services.arrays"
    write_services(path, columns_of(given_records), popularity_of([Payers()] * len(given_records)))
    table = open_table(path)
    for name in ("tag", "category", "integrationType", "provider"):
        if name == "tag":
            lists = [each.get("tags", []) for each in given_records]
        else:
            lists = [[each.get(name, "")] for each in given_records]
        assert facet(table, name) == expected_facet(lists)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(
            records, st.builds(Payers, st.integers(0, 3), st.integers(0, 3) | st.just(MAX_PAYERS))
        ),
        max_size=12,
    )
)
def test_orders_are_stable(
    tmp_path_factory: pytest.TempPathFactory, given_records: list[tuple[Json, Payers]]
) -> None:
    path = tmp_path_factory.mktemp("filters") / "services.arrays"
    columns = columns_of([record for record, _ in given_records])
    write_services(path, columns, popularity_of([payers for _, payers in given_records]))
    ordinals = range(len(given_records))
    by_name = sorted(ordinals, key=lambda ordinal: given_records[ordinal][0]["name"].casefold())
    by_payers = sorted(ordinals, key=lambda ordinal: given_records[ordinal][1], reverse=True)
    arrays = open_table(path).arrays
    prices = [float("inf") if price != price else price for price in arrays["price"]]
    by_price = sorted(ordinals, key=prices.__getitem__)
    for name, order in (("name", by_name), ("popularity", by_payers), ("price", by_price)):
        assert arrays[f"by_{name}"].tolist() == order


def test_more_values_than_16_bits_can_number_are_told_apart(tmp_path: Path) -> None:
    tags = [f"t{number:05}" for number in range(70_000)]
    columns = columns_of([service(), service(tags=tags)])
    path = tmp_path / "services.arrays"
    write_services(path, columns, popularity_of([Payers(), Payers()]))
    column = open_table(path).columns["tag"]
    assert column.of_row(0) == []
    assert column.of_row(1) == [*range(70_000)]
    assert column.mask(tags[-1:]).tolist() == [False, True]
