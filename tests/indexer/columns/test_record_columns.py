"""Columns taken, joined, found and kept in files are those of the records themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.columns.files import FILE, ColumnsDamaged, open_columns, write_columns
from indexer.columns.record_columns import RecordColumns, concatenate, no_columns
from tests.support.artifacts import DAMAGES
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
        write_columns(tmp_path, columns)
        assert described(open_columns(tmp_path)) == described(columns)
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
    folder = tmp_path_factory.mktemp("columns")
    columns = columns_of(given_records)
    write_columns(folder, columns)
    assert described(open_columns(folder)) == described(columns)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    write_columns(tmp_path, columns_of([service("a"), service("b")]))
    return tmp_path / FILE


HARMS: dict[str, Callable[[bytes], bytes]] = DAMAGES | {
    "empty": lambda _: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "without its last byte": lambda content: content[:-1],
    "another file": lambda _: b"{}",
}


@pytest.mark.parametrize("harm", HARMS)
def test_damaged_columns_are_noticed(harm: str, written: Path) -> None:
    written.write_bytes(HARMS[harm](written.read_bytes()))
    with pytest.raises(ColumnsDamaged):
        open_columns(written.parent)


def test_missing_columns_are_noticed(tmp_path: Path) -> None:
    with pytest.raises(ColumnsDamaged):
        open_columns(tmp_path)


def test_a_flipped_bit_is_noticed(written: Path) -> None:
    content = written.read_bytes()
    for place in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        written.write_bytes(damaged)
        with pytest.raises(ColumnsDamaged):
            open_columns(written.parent)


FOREIGN: dict[str, Callable[[RecordColumns], RecordColumns]] = {
    "fewer keys": lambda columns: columns._replace(keys=columns.keys[1:]),
    "wider keys": lambda columns: columns._replace(keys=columns.keys.astype(np.uint16)),
    "fewer endpoints": lambda columns: columns._replace(endpoints=columns.endpoints[1:]),
    "other fields": lambda columns: columns._replace(services=columns.endpoints),
    "no strings": lambda columns: columns._replace(strings=columns.endpoint_runs["tag"]),
    "strings that are not there": lambda columns: columns._replace(
        strings=columns.strings.take(np.array([0]))
    ),
    "another first string": lambda columns: columns._replace(
        strings=columns.strings.take(np.array([1, 0]))
    ),
    "no names": lambda columns: columns._replace(service_runs={"id": columns.service_runs["id"]}),
    "a run that is too short": lambda columns: columns._replace(
        service_runs=columns.service_runs
        | {"id": columns.service_runs["id"]._replace(items=np.zeros(1, np.uint8))}
    ),
}


@pytest.mark.parametrize("change", FOREIGN)
def test_columns_of_another_layout_are_refused(change: str, tmp_path: Path) -> None:
    columns = FOREIGN[change](columns_of([service("a"), service("b")]))
    write_columns(tmp_path, columns)
    with pytest.raises(ColumnsDamaged):
        open_columns(tmp_path)


def test_columns_of_another_program_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.columns.files.LAYOUT", ["another"])
    write_columns(tmp_path, columns_of([service()]))
    monkeypatch.undo()
    with pytest.raises(ColumnsDamaged):
        open_columns(tmp_path)


def test_columns_of_known_and_of_new_records_are_those_of_a_build_from_nothing() -> None:
    before = [stored(service(str(number), tags=[f"t{number}"])) for number in range(5)]
    after = [before[3], stored(service("new", tags=["new"])), before[0], before[4]]
    known = columns_of_texts(before)
    rows = known.find(keys_of(after))
    assert rows.tolist() == [3, -1, 0, 4]
    new = columns_of_texts([text for text, row in zip(after, rows, strict=True) if row < 0])
    rows[rows < 0] = len(before) + np.arange(len(new.keys))
    assert described(concatenate([known, new]).take(rows)) == described(columns_of_texts(after))
