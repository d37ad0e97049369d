"""Columns taken, joined, found and kept in files are those of the records themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.columns.record_columns import (
    RecordColumns,
    concatenate,
    no_columns,
    open_columns,
    write_columns,
)
from service.errors import SnapshotDamaged
from tests.support.running import Json, examples, service
from tests.support.sources.columns import columns_of, columns_of_texts, keys_of, records, stored

catalogues = st.lists(records, max_size=8)


def described(columns: RecordColumns) -> list[object]:
    """Return all that columns hold, with strings in place of their numbers."""
    strings = columns.strings.texts()
    plain = [columns.services, columns.endpoints]
    runs = [*columns.service_runs.values(), *columns.endpoint_runs.values()]
    named = [np.array(strings, object)[numbers].tolist() for numbers in columns.numbers()]
    plain += [run.items for run in runs]
    names = [
        [name for name in items.dtype.names or () if items.dtype[name] != np.int32]
        for items in plain
    ]
    return [
        columns.keys.tobytes(),
        columns.texts.tobytes(),
        named,
        [run.sizes.tolist() for run in runs],
        [run.items.tobytes() for run in runs if run.items.dtype == np.uint8],
        [[items[name].tobytes() for name in own] for items, own in zip(plain, names, strict=True)],
    ]


def unused_strings(columns: RecordColumns) -> set[int]:
    used = {number for numbers in columns.numbers() for number in numbers.tolist()}
    return set(range(1, len(columns.strings.sizes))) - used


@settings(max_examples=examples(60), deadline=None)
@given(catalogues, st.lists(st.integers(0, 100), max_size=10))
def test_taken_columns_are_those_of_the_records_in_that_order(
    given_records: list[Json], places: list[int]
) -> None:
    rows = [place % len(given_records) for place in places] if given_records else []
    taken = columns_of(given_records).take(np.array(rows, np.int32))
    assert described(taken) == described(columns_of([given_records[row] for row in rows]))
    assert not unused_strings(taken)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(catalogues, max_size=4))
def test_joined_columns_are_those_of_all_records(parts: list[list[Json]]) -> None:
    joined = concatenate([columns_of(part) for part in parts])
    whole = columns_of([record for part in parts for record in part])
    assert described(joined) == described(whole)


def test_columns_of_nothing_are_those_of_no_records(tmp_path: Path) -> None:
    for columns in (concatenate([]), no_columns().take(np.empty(0, np.int64))):
        assert described(columns) == described(columns_of([]))
        write_columns(tmp_path / "columns", columns)
        assert described(open_columns(tmp_path / "columns")) == described(columns)
        assert columns.find(keys_of([b"x"])).tolist() == [-1]


keys = st.lists(
    st.binary(min_size=16, max_size=16)
    | st.builds(
        bytes.ljust,
        st.sampled_from([b"", b"a", b"b", b"\x00" * 8 + b"a", b"\xff" * 8 + b"b"]),
        st.just(16),
        st.sampled_from([b"\x00", b"\xff"]),
    ),
    max_size=12,
)


@settings(max_examples=examples(100), deadline=None)
@given(keys, keys)
def test_records_are_found_by_their_keys(known: list[bytes], wanted: list[bytes]) -> None:
    def array(each: list[bytes]) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
        return np.frombuffer(b"".join(each), np.uint8).reshape(-1, 16)

    columns = columns_of([service()] * len(known))._replace(keys=array(known))
    expected = [known.index(key) if key in known else -1 for key in wanted]
    assert columns.find(array(wanted)).tolist() == expected


@settings(max_examples=examples(40), deadline=None)
@given(catalogues)
def test_columns_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, given_records: list[Json]
) -> None:
    path = tmp_path_factory.mktemp("columns") / "columns"
    columns = columns_of(given_records)
    write_columns(path, columns)
    assert described(open_columns(path)) == described(columns)


def test_columns_of_another_layout_are_refused(tmp_path: Path) -> None:
    columns = columns_of([service("a"), service("b")])
    with pytest.raises(ValueError, match="annotations"):
        write_columns(tmp_path / "columns", columns._replace(keys=columns.keys[1:]))
    with pytest.raises(SnapshotDamaged):
        open_columns(tmp_path / "columns")
    with pytest.raises(SnapshotDamaged):
        open_columns(tmp_path / "missing")


def test_columns_of_known_and_of_new_records_are_those_of_a_build_from_nothing() -> None:
    before = [stored(service(str(number), tags=[f"t{number}"])) for number in range(5)]
    after = [before[3], stored(service("new", tags=["new"])), before[0], before[4]]
    known = columns_of_texts(before)
    rows = known.find(keys_of(after))
    assert rows.tolist() == [3, -1, 0, 4]
    new = columns_of_texts([text for text, row in zip(after, rows, strict=True) if row < 0])
    rows[rows < 0] = len(before) + np.arange(len(new.keys))
    assert described(concatenate([known, new]).take(rows)) == described(columns_of_texts(after))
