"""CURRENT and the kept snapshots, in order of their builds."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import SnapshotDamaged, SnapshotMissing, SnapshotUnavailable
from service.snapshot.manifest import MANIFEST
from service.snapshot.publication import Publication, read_current, read_kept, read_others

START = datetime(2026, 5, 7, tzinfo=UTC)
A, B, C = ("a" * 20, "b" * 20, "c" * 20)


def write(artifacts: Path, snapshot_id: str, day: int, **fields: object) -> Path:
    """Write the manifest of a snapshot that was built on a day."""
    folder = artifacts / "snapshots" / snapshot_id
    folder.mkdir(parents=True)
    built_at = (START + timedelta(days=day)).isoformat()
    content = {"id": snapshot_id, "built_at": built_at} | fields
    (folder / MANIFEST).write_text(json.dumps(content))
    return folder


def point(artifacts: Path, content: str) -> None:
    (artifacts / "CURRENT").write_text(content)


def others(artifacts: Path) -> tuple[list[str], list[str]]:
    earlier, later = read_others(artifacts)
    return [each.id for each in earlier], [each.id for each in later]


def test_the_published_snapshot_has_the_time_of_current(tmp_path: Path) -> None:
    write(tmp_path, A, 0)
    point(tmp_path, f"{A}\n")
    os.utime(tmp_path / "CURRENT", (10**9, 10**9))
    assert read_current(tmp_path) == Publication(A, datetime.fromtimestamp(10**9, UTC))


def test_without_current_the_newest_snapshot_is_published_since_its_build(tmp_path: Path) -> None:
    for day, name in ((2, A), (9, B), (5, C)):
        write(tmp_path, name, day)
    assert read_current(tmp_path) == Publication(B, START + timedelta(days=9))


def test_a_folder_without_snapshots_has_no_published_one(tmp_path: Path) -> None:
    with pytest.raises(SnapshotMissing, match="holds no snapshot; run `ratecard build SOURCE"):
        read_current(tmp_path)
    assert read_kept(tmp_path) == []
    assert others(tmp_path) == ([], [])


@pytest.mark.parametrize("content", ["", "a/b", "../" + A, A.upper(), A + "0"])
def test_current_that_names_no_snapshot_is_damaged(tmp_path: Path, content: str) -> None:
    write(tmp_path, A, 0)
    point(tmp_path, content)
    with pytest.raises(SnapshotDamaged, match="names no snapshot; rebuild it"):
        read_current(tmp_path)
    assert others(tmp_path) == ([A], [])


def test_current_that_cannot_be_read_is_no_missing_one(tmp_path: Path) -> None:
    write(tmp_path, A, 0)
    (tmp_path / "CURRENT").write_bytes(b"\xff")
    with pytest.raises(SnapshotUnavailable, match="CURRENT cannot be read"):
        read_current(tmp_path)
    (tmp_path / "CURRENT").unlink()
    (tmp_path / "CURRENT").symlink_to("CURRENT")
    with pytest.raises(SnapshotUnavailable, match="CURRENT cannot be read"):
        read_current(tmp_path)
    assert others(tmp_path) == ([A], [])


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"[", b'{"id":"' + b"[" * 10**5, b"[]", b'{"id":1}', b"{}"]
)
def test_a_snapshot_with_a_damaged_manifest_is_not_kept(tmp_path: Path, content: bytes) -> None:
    write(tmp_path, A, 0)
    (write(tmp_path, B, 1) / MANIFEST).write_bytes(content)
    assert [each.id for each in read_kept(tmp_path)] == [A]


def test_folders_of_other_names_than_their_snapshots_are_not_kept(tmp_path: Path) -> None:
    for name in ("copy", B, C[:-1]):
        write(tmp_path, name, 0, id=A)
    write(tmp_path, C, 1, format=1, unknown={})
    (tmp_path / "snapshots" / "notes").write_text("of an operator")
    assert [each.id for each in read_kept(tmp_path)] == [C]


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 4)),
    st.sampled_from("abcdef"),
    st.integers(0, 4),
)
def test_the_others_are_those_built_before_and_after_the_published_one(
    tmp_path_factory: pytest.TempPathFactory, days: dict[str, int], current: str, checked: int
) -> None:
    """The time of CURRENT stands for that of a published snapshot whose manifest is damaged."""
    artifacts = tmp_path_factory.mktemp("others")
    for name, day in days.items():
        write(artifacts, name * 20, day)
    point(artifacts, current * 20)
    time = (START + timedelta(days=checked)).timestamp()
    os.utime(artifacts / "CURRENT", (time, time))
    earlier, later = others(artifacts)
    built = {name * 20: (day, name * 20) for name, day in days.items()}
    for listed in (earlier, later):
        assert listed == sorted(listed, key=built.__getitem__, reverse=True)
    assert {*earlier, *later} == built.keys() - {current * 20}
    served = days.get(current, checked), current * 20
    assert all(built[each] < served for each in earlier)
    assert all(built[each] > served for each in later)
