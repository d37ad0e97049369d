"""Writing the records: whole, whatever the sizes of records and of runs."""

from __future__ import annotations

from pathlib import Path

from indexer.record_store import record_key, run_of, write_record_store, write_records
from indexer.segments.reuse import KeptRecords
from service.storage.record_store import Records, RecordStore
from tests.support.sources.columns import columns_of_texts, stored

SIZES = (1, 90, 1_000, 7)
TEXTS = [
    stored({"id": "one", "name": "a", "description": "d" * size, "endpoints": []}) for size in SIZES
]


def test_records_of_all_sizes_are_written_whole(tmp_path: Path) -> None:
    write_records(tmp_path, map(run_of, TEXTS))
    check(tmp_path, TEXTS)


def test_a_long_run_of_kept_records_is_copied_whole(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    write_records(before, map(run_of, TEXTS))
    kept = KeptRecords(before, columns_of_texts(TEXTS))
    fresh = stored({"id": "two", "name": "b", "description": "", "endpoints": []})
    runs = [kept.run(1, 4), run_of(fresh), kept.run(0, 3)]
    keys = write_records(after, runs)
    texts = [*TEXTS[1:], fresh, *TEXTS[:3]]
    check(after, texts)
    assert [key.tobytes() for key in keys] == [*map(record_key, texts)]


def check(folder: Path, texts: list[bytes]) -> None:
    """Check that a folder has these records."""
    assert (folder / "records.json").read_bytes() == b",".join(texts)
    records = Records(folder)
    assert [records.text(ordinal) for ordinal in range(len(records))] == texts


def test_a_store_of_texts_larger_than_the_buffers_is_written_whole(tmp_path: Path) -> None:
    texts = [b'"%b"' % (b"%d" % number * size) for number, size in enumerate((3, 10**6, 1, 2**21))]
    assert write_record_store(tmp_path, "texts", texts) == len(texts)
    store = RecordStore(tmp_path, "texts")
    assert [store.text(ordinal) for ordinal in range(len(store))] == texts
