"""Writing the records: whole, whatever their sizes."""

from __future__ import annotations

from pathlib import Path

from indexer.record_store import record_key, write_records
from service.arrays.texts import Records
from tests.support.sources.columns import stored

SIZES = (1, 90, 1_000, 7)
TEXTS = [
    stored({"id": "one", "name": "a", "description": "d" * size, "endpoints": []}) for size in SIZES
]


def test_records_of_all_sizes_are_written_whole(tmp_path: Path) -> None:
    keys = write_records(tmp_path, TEXTS)
    check(tmp_path, TEXTS)
    assert [key.tobytes() for key in keys] == [*map(record_key, TEXTS)]


def check(folder: Path, texts: list[bytes]) -> None:
    """Check that a folder has these records."""
    assert (folder / "records.json").read_bytes() == b",".join(texts)
    records = Records(folder)
    assert [records.text(ordinal) for ordinal in range(len(records))] == texts
