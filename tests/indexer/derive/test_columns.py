"""Columns merged, found and kept in files are those of the records themselves."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.derive.columns import (
    NUMBER,
    RAGGED,
    STRUCTURES,
    RecordColumns,
    merge_columns,
    open_columns,
    ragged_of,
)
from service.arrays.container import write_arrays
from service.errors import SnapshotDamaged
from tests.support.running import Json, examples, service
from tests.support.sources.columns import columns_of, columns_of_texts, keys_of, records, stored

catalogues = st.lists(records, max_size=8)


def described(columns: RecordColumns) -> dict[str, object]:
    """Return all that columns hold, with strings in place of their numbers."""
    strings = np.array([*columns.strings.texts()], object)
    held: dict[str, object] = {"keys": columns.keys.tobytes()}
    for name, dtype in RAGGED.items():
        run = ragged_of(columns.arrays, name)
        items = strings[run.items] if dtype == NUMBER else run.items
        held[name] = run.sizes.tolist(), items.tolist()
    for name, structure in STRUCTURES.items():
        items = columns.arrays[name].view(structure)
        for field in structure.names or ():
            is_number = structure[field] == NUMBER
            held[f"{name} {field}"] = (
                strings[items[field]] if is_number else items[field]
            ).tolist()
    held["service.prices"] = ragged_of(columns.arrays, "service.prices").sizes.tolist()
    return {name: str(each) for name, each in held.items()}  # NaN is equal to itself


def unused_strings(columns: RecordColumns) -> set[int]:
    used = {0}
    for name, dtype in RAGGED.items():
        if dtype == NUMBER:
            used |= {*columns.arrays[name].tolist()}
    for name, structure in STRUCTURES.items():
        items = columns.arrays[name].view(structure)
        for field in structure.names or ():
            if structure[field] == NUMBER:
                used |= {*items[field].tolist()}
    return set(range(len(columns.strings.sizes))) - used


def merged(parts: Sequence[RecordColumns], rows: Sequence[int]) -> RecordColumns:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "columns"
        merge_columns(path, parts, np.array(rows, np.int64))
        return open_columns(path)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(catalogues, min_size=1, max_size=4), st.lists(st.integers(0, 100), max_size=10))
@pytest.mark.parametrize("chunk", [1, 1000])
def test_merged_columns_are_those_of_the_records_in_that_order(
    chunk: int, parts: list[list[Json]], places: list[int]
) -> None:
    every = [record for part in parts for record in part]
    rows = [place % len(every) for place in places] if every else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("indexer.derive.columns.CHUNK", chunk)
        own = merged([columns_of(part) for part in parts], rows)
        again = merged([own], range(len(rows)))
    whole = columns_of([every[row] for row in rows])
    assert described(own) == described(again) == described(whole)
    assert not unused_strings(own)


keys = st.lists(
    st.binary(min_size=32, max_size=32)
    | st.builds(
        bytes.ljust,
        st.sampled_from([b"", b"a", b"b", b"\x00" * 8 + b"a", b"\xff" * 8 + b"b"]),
        st.just(32),
        st.sampled_from([b"\x00", b"\xff"]),
    ),
    max_size=12,
)


@settings(max_examples=examples(100), deadline=None)
@given(keys, keys)
def test_records_are_found_by_their_keys(known: list[bytes], wanted: list[bytes]) -> None:
    def array(each: list[bytes]) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
        return np.frombuffer(b"".join(each), np.uint8).reshape(-1, 32)

    columns = columns_of([service()] * len(known))
    columns.keys = array(known)
    expected = [known.index(key) if key in known else -1 for key in wanted]
    assert columns.find(array(wanted)).tolist() == expected


def test_columns_that_are_missing_or_cut_short_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "columns"
    with pytest.raises(SnapshotDamaged):
        open_columns(path)
    write_arrays(path, columns_of([service("a")]).arrays)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SnapshotDamaged):
        open_columns(path)


def test_columns_of_known_and_of_new_records_are_those_of_a_build_from_nothing() -> None:
    before = [stored(service(str(number), tags=[f"t{number}"])) for number in range(5)]
    after = [before[3], stored(service("new", tags=["new"])), before[0], before[4]]
    known, keys = columns_of_texts(before), keys_of(after)
    rows = known.find(np.concatenate((keys, np.zeros_like(keys)), axis=1))
    assert rows.tolist() == [3, -1, 0, 4]
    new = columns_of_texts([text for text, row in zip(after, rows, strict=True) if row < 0])
    rows[rows < 0] = len(before) + np.arange(len(new.keys))
    assert described(merged([known, new], rows.tolist())) == described(columns_of_texts(after))
