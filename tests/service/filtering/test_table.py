"""Tables: masks, facets and pages compared with brute force, and bounds on their work."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.arrays.texts import IdTable
from service.conditions import MAX_COUNTED, Column, EndpointFilters, Filters, folded
from service.filtering.table import Table, TextColumn, Values, containing, text_column
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.running import build_records, endpoint, examples, service

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


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """A snapshot of a service for each of TAGS tags; the first twenty have another one, too."""
    records = [
        service(
            f"s{number:03}",
            tags=[f"t{number:03}", *([f"t{number + 20:03}"] if number < 20 else [])],
            endpoints=[endpoint(url=f"https://a.example/{number}")],
        )
        for number in range(TAGS)
    ]
    return open_snapshot(build_records(tmp_path_factory.mktemp("table"), records))


TAG = Column("tag", ("tags",))
SPELLINGS = ("a", "A", "b", "B ", "Zoo", "", "\u00df", "SS", "x" * 4000)
rows_of_texts = st.lists(
    st.lists(st.sampled_from(SPELLINGS), max_size=4, unique_by=folded), max_size=30
) | st.lists(st.lists(st.sampled_from(SPELLINGS), max_size=1), max_size=30)
texts = st.text("ab/,", max_size=40) | st.builds(str.__mul__, st.text("ab", max_size=3), st.just(9))


def table_of(rows: list[list[str]]) -> Table:
    """Return a table of rows with these tags."""
    numbers = {text: number for number, text in enumerate(sorted({*chain(*rows)}))}
    items = [numbers[text] for row in rows for text in row]
    sizes = np.array([len(row) for row in rows], np.int64)
    return Table(text_column(TAG, [*numbers], np.array(items, np.int64), sizes), len(rows), [TAG])


@settings(max_examples=examples(300), deadline=None)
@given(
    rows_of_texts,
    st.sets(st.sampled_from((*SPELLINGS, "unknown", "\ud800")), min_size=1, max_size=3),
    st.integers(0, 2**32 - 1),
)
def test_masks_and_counts_of_texts_are_those_of_brute_force(
    rows: list[list[str]], wanted: set[str], seed: int
) -> None:
    column = table_of(rows).columns["tag"]
    keys, wanted_keys = [{*map(folded, row)} for row in rows], {*map(folded, wanted)}
    assert column.mask(wanted).tolist() == [bool(own & wanted_keys) for own in keys]
    assert column.mask(wanted, takes_all=True).tolist() == [own >= wanted_keys for own in keys]
    uses = Counter(text for row in rows for text in row)
    shown = {
        key: min((-uses[text], text) for text in uses if folded(text) == key)[1]
        for key in set().union(*keys)
    }
    for number, own in enumerate(keys):
        assert {column.values[each] for each in column.of_row(number)} == {*map(shown.get, own)}
    totals = Counter(key for own in keys for key in own)
    for matches in (None, np.random.default_rng(seed).random(len(rows)) < 0.5):
        counts = Counter(
            key for n, own in enumerate(keys) for key in own if matches is None or matches[n]
        )
        order = sorted(counts, key=lambda key: (-counts[key], -totals[key], shown[key]))
        assert column.count(matches) == [
            {"value": shown[key], "count": counts[key]} for key in order
        ]


@settings(max_examples=examples(300), deadline=None)
@given(st.data(), st.lists(texts, min_size=1, max_size=12))
def test_lines_with_a_part_are_those_of_brute_force(data: st.DataObject, lines: list[str]) -> None:
    source = data.draw(st.sampled_from([*lines, "a/"]))
    start = data.draw(st.integers(0, len(source)))
    part = source[start : data.draw(st.integers(start, len(source)))] or "b"
    part += data.draw(st.sampled_from(("", "a", "\n", "\ud800", ".*")))
    starts = np.cumsum([0, *(len(line) + 1 for line in lines)])[:-1]
    mask = containing(np.frombuffer("\n".join(lines).encode(), np.uint8), starts, part)
    assert mask.tolist() == [part in line for line in lines]


def test_a_count_names_no_more_values_than_it_returns() -> None:
    services = 10 * MAX_COUNTED
    ids = CountedReads(services)
    column = TextColumn(cast("IdTable", ids), str, np.arange(services, dtype=np.int32))
    for matches in (None, np.ones(services, np.bool_)):
        ids.reads = 0
        assert len(column.count(matches)) == MAX_COUNTED
        assert ids.reads == MAX_COUNTED


def test_a_value_is_found_among_many_by_few_comparisons() -> None:
    """Nothing is kept of what was looked up, however many values there are."""
    values = table_of([[f"t{number:05}"] for number in range(70_000)]).columns["tag"].values
    read, reads = Values.__getitem__, list[int]()

    def counted(own: Values, number: int) -> str:
        reads.append(number)
        return read(own, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Values, "__getitem__", counted)
        assert values.find("T69999 ") == 69_999
    assert len(reads) < 20


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
