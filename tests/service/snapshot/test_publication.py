"""The history of publications, which ends at the snapshot that CURRENT names."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import SnapshotMissing
from service.snapshot.manifest import MANIFEST
from service.snapshot.publication import Publication, read_current, read_history
from tests.support.artifacts import folder

START = datetime(2026, 5, 7, tzinfo=UTC)


def write(artifacts: Path, current: str, *recorded: str) -> None:
    """Write CURRENT and a history whose publications are a day apart."""
    (artifacts / "CURRENT").write_text(f"{current}\n")
    days = [(START + timedelta(days=day)).isoformat() for day in range(len(recorded))]
    (artifacts / "history.json").write_text(json.dumps(list(zip(recorded, days, strict=True))))


def ids(artifacts: Path) -> list[str]:
    return [publication.id for publication in read_history(artifacts)]


@pytest.mark.parametrize(
    ("current", "recorded", "history"),
    [
        ("c", "abc", "abc"),
        ("b", "abc", "ab"),  # c was rolled back, or its publication was interrupted
        ("d", "abc", "abcd"),  # interrupted before the history was written
        ("a", "aba", "ba"),  # published again
        ("b", "aba", "ab"),  # the second publication of a was interrupted
        ("a", "", "a"),
    ],
)
def test_the_history_ends_with_the_last_publication_of_the_current_snapshot(
    current: str, recorded: str, history: str, tmp_path: Path
) -> None:
    write(tmp_path, current, *recorded)
    assert ids(tmp_path) == list(history)


def test_the_last_publication_has_the_time_of_current(tmp_path: Path) -> None:
    write(tmp_path, "b", "a", "b")
    assert read_history(tmp_path) == [Publication("a", START), read_current(tmp_path)]


@pytest.mark.parametrize("content", [b"", b"{}", b'[["a"]]', b'[["a","never"]]', b"\xff"])
def test_a_damaged_history_is_ignored(tmp_path: Path, content: bytes) -> None:
    write(tmp_path, "b", "a", "b")
    (tmp_path / "history.json").write_bytes(content)
    assert ids(tmp_path) == ["b"]


@pytest.mark.parametrize("content", [None, b"\xff", b"a/b"])
def test_the_whole_history_is_read_when_current_is_damaged(
    tmp_path: Path, content: bytes | None
) -> None:
    write(tmp_path, "a", "a", "b")
    (tmp_path / "CURRENT").unlink()
    if content is not None:
        (tmp_path / "CURRENT").write_bytes(content)
    assert ids(tmp_path) == ["a", "b"]


def test_without_publications_the_history_is_empty(tmp_path: Path) -> None:
    assert read_history(tmp_path) == []


@settings(deadline=None)
@given(st.lists(st.sampled_from("abc"), max_size=6), st.sampled_from("abcd"))
def test_each_snapshot_is_in_the_history_once_at_its_last_publication(
    tmp_path_factory: pytest.TempPathFactory, recorded: list[str], current: str
) -> None:
    folder = tmp_path_factory.mktemp("history")
    write(folder, current, *recorded)
    end = len(recorded) - recorded[::-1].index(current) - 1 if current in recorded else None
    expected: list[str] = []
    for snapshot_id in [*recorded[:end], current]:
        expected = [earlier for earlier in expected if earlier != snapshot_id]
        expected.append(snapshot_id)
    assert ids(folder) == expected


@pytest.mark.parametrize(
    ("snapshots", "has_history", "is_served"),
    [(["a" * 20], False, True), (["a" * 20, "b" * 20], False, False), (["a" * 20], True, False)],
)
def test_the_only_snapshot_of_a_folder_without_current_and_history_is_served(
    snapshots: list[str], has_history: bool, is_served: bool, tmp_path: Path, sample: Path
) -> None:
    for name in snapshots:
        target = tmp_path / "snapshots" / name
        target.mkdir(parents=True)
        shutil.copy(folder(sample) / MANIFEST, target)
    if has_history:
        (tmp_path / "history.json").write_text("[]")
    with nullcontext() if is_served else pytest.raises(SnapshotMissing):
        assert read_current(tmp_path).id == snapshots[0]
