"""Facets, orders and pages of filters: bounds on the work of a count and of a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.derive.ragged import RaggedWriter, ragged_texts
from indexer.search.filters import FacetValues, write_facet
from service.conditions import MAX_COUNTED, EndpointFilters, Filters
from service.filtering.facets import Facet, ServiceFacet, open_facet
from service.filtering.filters import page_of
from service.snapshot.snapshot import Snapshot, open_snapshot
from service.storage.container import open_arrays, writing_arrays
from service.storage.texts import IdTable
from tests.support.running import Build, endpoint, examples, service

TAGS = 150


class CountedReads:
    """Values that count how many of them are read."""

    def __init__(self, count: int) -> None:
        self.reads = 0
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> str:
        self.reads += 1
        return f"v{number}"


@pytest.fixture
def snapshot(artifacts: Path, build: Build) -> Snapshot:
    """A snapshot of a service for each of TAGS tags; the first twenty have another one, too."""
    records = [
        service(
            f"s{number:03}",
            tags=[f"t{number:03}", *([f"t{number + 20:03}"] if number < 20 else [])],
            endpoints=[endpoint(url=f"https://a.example/{number}")],
        )
        for number in range(TAGS)
    ]
    assert build(records) == 0
    return open_snapshot(artifacts)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.sets(st.integers(0, 300), max_size=6), min_size=1, max_size=80),
    st.integers(0, 2**32 - 1),
)
def test_a_count_is_of_the_most_frequent_values_ties_in_the_order_of_values(
    tmp_path_factory: pytest.TempPathFactory, rows: list[set[int]], seed: int
) -> None:
    folder = tmp_path_factory.mktemp("facet")
    documents = {
        f"{value:03}": np.array([n for n, row in enumerate(rows) if value in row], np.uint32)
        for value in sorted(set().union(*rows))
    }
    numbers = RaggedWriter(np.int32)
    for row in rows:
        numbers.add_numbers(sorted(row))
    strings = ragged_texts([f"{value:03}".encode() for value in range(301)])
    with writing_arrays(folder / "facet.arrays") as writer:
        write_facet(writer, "tag", str, FacetValues(numbers.rows(), strings))
    facet = open_facet(open_arrays(folder / "facet.arrays"), "tag", str)
    frequencies = {value: len(own) for value, own in documents.items()}
    for matches in (None, np.random.default_rng(seed).random(len(rows)) < 0.5):
        counts = {
            value: int(np.count_nonzero(own if matches is None else matches[own]))
            if matches is not None
            else len(own)
            for value, own in documents.items()
        }
        expected = sorted(
            (value for value in counts if counts[value]),
            key=lambda value: (-counts[value], -frequencies[value], value),
        )
        assert facet.count(matches) == [
            {"value": value, "count": counts[value]} for value in expected[:MAX_COUNTED]
        ]


def test_a_count_names_no_more_values_than_it_returns() -> None:
    services = 10 * MAX_COUNTED
    ids = CountedReads(services)
    facet = ServiceFacet(cast("IdTable", ids), np.arange(services, dtype=np.int32))
    for matches in (None, np.ones(services, np.bool_)):
        ids.reads = 0
        assert len(facet.count(matches)) == MAX_COUNTED
        assert ids.reads == MAX_COUNTED


def test_services_and_endpoints_have_the_same_bound_of_counted_values(snapshot: Snapshot) -> None:
    hits = snapshot.list(filters=Filters(facets=("tag",)))
    filters = EndpointFilters(facets=("tag", "service"))
    found = snapshot.search_endpoints(limit=1, filters=filters)
    assert hits.facets is not None
    assert found.facets is not None
    expected = [{"value": f"t{n:03}", "count": 2} for n in range(20, 40)]
    assert hits.facets["tag"][:20] == expected
    assert len(hits.facets["tag"]) == len(found.facets["service"]) == MAX_COUNTED
    assert found.facets["tag"] == hits.facets["tag"]


def test_a_facet_makes_the_table_of_its_values_when_one_is_looked_up(snapshot: Snapshot) -> None:
    facet = snapshot.filters.facets["tag"]
    assert isinstance(facet, Facet)
    facet.count(None)
    assert "_numbers" not in vars(facet)
    assert facet.number_of("T007") is not None
    assert "_numbers" in vars(facet)


def test_an_unknown_order_is_an_error(snapshot: Snapshot) -> None:
    for filters in (snapshot.filters, snapshot.endpoints.filters):
        for matches in (None, np.ones(TAGS, np.bool_)):
            with pytest.raises(KeyError):
                filters.page(matches, "colour", 3)


def test_masks_of_different_filters_do_not_share_memory(snapshot: Snapshot) -> None:
    one, other = (
        snapshot.filters.mask(Filters(tag=(tag,), enriched=False).given())
        for tag in ("t000", "t001")
    )
    assert one is not None
    assert other is not None
    assert one.nonzero()[0].tolist() == [0]
    assert other.nonzero()[0].tolist() == [1]


def test_a_page_takes_no_more_chunks_than_it_needs() -> None:
    taken: Counter[int] = Counter()

    def chunks() -> Iterator[np.ndarray[tuple[int], np.dtype[np.int64]]]:
        for start in range(0, 100, 10):
            taken[start] += 1
            yield np.arange(start, start + 10)

    assert page_of(chunks(), 5, 18).tolist() == [18, 19, 20, 21, 22]
    assert list(taken) == [0, 10, 20]
    assert page_of(chunks(), 5, 1000).tolist() == []


def test_a_page_past_the_end_orders_no_endpoints(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(snapshot.endpoints.filters), "page", None)
    for per_service in (0, 1):
        filters = EndpointFilters(sort="price", per_service=per_service)
        for query in ("", "one"):
            hits = snapshot.search_endpoints(query, 24, 10**6, filters)
            assert hits.ordinals == []
            assert hits.listed == TAGS
