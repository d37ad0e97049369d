"""Texts by ordinal, the table of ids, and sorted hashes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.arrays.container import items_of, open_arrays, writing_arrays
from service.arrays.texts import IdTable, Texts, equal_hashes, write_ids, write_texts

values = st.lists(st.text(max_size=5), max_size=9)


def written(folder: Path, texts: list[bytes]) -> Texts:
    with writing_arrays(folder / "texts.arrays") as writer:
        assert write_texts(writer, "own", iter(texts)) == len(texts)
    return Texts(open_arrays(folder / "texts.arrays"), "own")


@settings(deadline=None)
@given(values=values, start=st.integers(0, 10), stop=st.integers(0, 10), data=st.data())
def test_slices_and_runs_of_records_are_json_lists(
    tmp_path_factory: pytest.TempPathFactory,
    values: list[str],
    start: int,
    stop: int,
    data: st.DataObject,
) -> None:
    texts = [json.dumps(value).encode() for value in values]
    store = written(tmp_path_factory.mktemp("store"), texts)
    assert len(store) == len(values)
    assert [json.loads(store.text(ordinal)) for ordinal in range(len(store))] == values
    assert json.loads(b"[%b]" % bytes(store.slice(start, stop))) == values[start:stop]
    ordinals = data.draw(st.lists(st.integers(0, len(values) - 1)) if values else st.just([]))
    for run in (ordinals, range(min(start, len(values)), min(stop, len(values)))):
        joined = b",".join(store.run(run))
        assert json.loads(b"[%b]" % joined) == [values[ordinal] for ordinal in run]


def test_texts_larger_than_the_buffers_are_written_whole(tmp_path: Path) -> None:
    texts = [b'"%b"' % (b"%d" % number * size) for number, size in enumerate((3, 10**6, 1, 2**21))]
    store = written(tmp_path, texts)
    assert [store.text(ordinal) for ordinal in range(len(store))] == texts


def test_the_id_table_finds_exact_ids_only(tmp_path: Path) -> None:
    ids = [f"service-{number}" for number in range(300)]
    write_ids(tmp_path, ids)
    table = IdTable(tmp_path)
    assert [table[ordinal] for ordinal in range(300)] == ids
    assert [table.find(service_id) for service_id in ids] == list(range(300))
    for other in ("", "service-300", "SERVICE-1", "ﷺ", "\ud800"):
        assert table.find(other) is None


HASHES = st.integers(0, 7) | st.integers(2**64 - 8, 2**64 - 1)


@given(st.lists(HASHES, max_size=30).map(sorted), HASHES)
def test_the_places_of_a_hash_are_all_of_its_kind(hashes: list[int], wanted: int) -> None:
    places = equal_hashes(items_of(np.array(hashes, np.uint64)), wanted)
    assert [*places] == [place for place, each in enumerate(hashes) if each == wanted]
