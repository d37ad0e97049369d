"""The record store and the table of ids."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.record_store import write_ids, write_record_store
from service.storage.record_store import IdTable, RecordStore

values = st.lists(st.text(max_size=5), max_size=9)


@settings(deadline=None)
@given(values=values, start=st.integers(0, 10), stop=st.integers(0, 10), data=st.data())
def test_slices_and_runs_of_records_are_json_lists(
    tmp_path_factory: pytest.TempPathFactory,
    values: list[str],
    start: int,
    stop: int,
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("store")
    write_record_store(folder, "records", (json.dumps(value).encode() for value in values))
    store = RecordStore(folder, "records")
    assert len(store) == len(values)
    assert [json.loads(store.text(ordinal)) for ordinal in range(len(store))] == values
    assert json.loads(b"[%b]" % bytes(store.slice(start, stop))) == values[start:stop]
    ordinals = data.draw(st.lists(st.integers(0, len(values) - 1)) if values else st.just([]))
    for run in (ordinals, range(min(start, len(values)), min(stop, len(values)))):
        joined = b",".join(store.run(run))
        assert json.loads(b"[%b]" % joined) == [values[ordinal] for ordinal in run]


def test_the_id_table_finds_exact_ids_only(tmp_path: Path) -> None:
    ids = [f"service-{number}" for number in range(300)]
    write_ids(tmp_path, ids)
    table = IdTable(tmp_path)
    assert [table[ordinal] for ordinal in range(300)] == ids
    assert [table.find(service_id) for service_id in ids] == list(range(300))
    for other in ("", "service-300", "SERVICE-1", "ﷺ", "\ud800"):
        assert table.find(other) is None
