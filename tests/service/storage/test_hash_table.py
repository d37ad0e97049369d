"""Hash tables: every value is found by its hash, also where the highest bits are equal."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.storage import hash_table
from service.storage.container import arrays_path
from service.storage.hash_table import HashTable, write_hash_table

HIGH = st.integers(0, 3).map(lambda bits: bits << 62)
LOW = st.integers(0, 7)


@given(st.lists(st.builds(int.__add__, HIGH, LOW) | st.integers(0, 2**64 - 1)))
def test_the_values_of_a_bucket_are_found_in_their_order(hashes: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table"
        values = np.arange(len(hashes), dtype=np.int32)
        write_hash_table(path, np.array(hashes, np.uint64), values)
        table = HashTable(path)
    for each in {*hashes, 0, 2**64 - 1}:
        candidates = table.candidates([each])
        assert all((hashes[value] ^ each) & 0xFF == 0 for value in candidates)
        own = [value for value in candidates if hashes[value] == each]
        assert own == [value for value in values.tolist() if hashes[value] == each]


def test_a_table_is_the_same_however_many_hashes_are_counted_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = np.repeat(np.arange(500, dtype=np.uint64) << np.uint64(55), 3)
    values = np.arange(len(hashes), dtype=np.int32)
    write_hash_table(tmp_path / "whole", hashes, values)
    monkeypatch.setattr(hash_table, "COUNTED", 7)
    write_hash_table(tmp_path / "cut", hashes, values)
    assert (
        arrays_path(tmp_path / "cut").read_bytes() == arrays_path(tmp_path / "whole").read_bytes()
    )


def test_a_limited_look_up_finds_the_first_values_of_a_bucket(tmp_path: Path) -> None:
    # Distinct hashes in one bucket, with one tag: descending, so that their order is not theirs.
    hashes = [(1 << 63) + (number << 8) for number in reversed(range(1000))]
    write_hash_table(tmp_path / "t", np.array(hashes, np.uint64), np.arange(1000, dtype=np.int32))
    table = HashTable(tmp_path / "t")
    assert table.candidates(hashes[:1], 32) == list(range(32))
    assert table.candidates([hashes[0], hashes[-1]], 2) == [0, 1, 0, 1]
    assert table.candidates(hashes[:1]) == list(range(1000))
