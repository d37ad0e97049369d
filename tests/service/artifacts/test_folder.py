"""The kept snapshots, and the ids of those that were: as a manager lists them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from indexer.__main__ import main
from indexer.snapshot.rollback import roll_back
from service.artifacts.folder import ArtifactsFolder, KeptSnapshots, read_kept
from service.artifacts.manager import SnapshotManager
from service.errors import SnapshotGone, SnapshotNotFound
from service.snapshot.manifest import EARLIER, MANIFEST, copy_manifest, read_manifest
from tests.support.artifacts import current, folder, snapshots
from tests.support.running import PLAIN, service, write_lines


def publish(artifacts: Path, *names: str, keep: int = 3) -> str:
    """Publish a catalogue of services with these ids; returns the id of the snapshot."""
    artifacts.mkdir(exist_ok=True)
    source = write_lines(artifacts.parent / "source.jsonl", map(service, names))
    options = ["--out", str(artifacts), "--quiet", "--keep", str(keep), *PLAIN]
    assert main(["build", source, *options]) == 0
    return current(artifacts)


def kept(artifacts: Path) -> KeptSnapshots:
    return read_kept(artifacts)


def ids(snapshots: KeptSnapshots) -> list[str]:
    return [snapshot.id for snapshot in snapshots.snapshots]


def earlier(artifacts: Path) -> list[str]:
    return read_manifest(folder(artifacts)).earlier


def test_kept_snapshots_are_listed_newest_first_with_their_times(artifacts: Path) -> None:
    published = [publish(artifacts, name) for name in "abc"]
    listed = kept(artifacts).snapshots
    assert [snapshot.id for snapshot in listed] == published[::-1]
    times = [(snapshot.manifest.built_at, snapshot.checked_at) for snapshot in listed]
    assert all(built_at < checked_at for built_at, checked_at in times)
    assert times == sorted(times, reverse=True)
    assert [snapshot.folder.name for snapshot in listed] == published[::-1]


def test_a_withdrawn_snapshot_is_kept_and_comes_last(artifacts: Path) -> None:
    a, b, c = (publish(artifacts, name) for name in "abc")
    roll_back(artifacts)
    assert ids(kept(artifacts)) == [b, a, c]


def test_folders_that_are_no_snapshot_of_this_format_are_not_listed(artifacts: Path) -> None:
    a = publish(artifacts, "a")
    for name in ("copy", "0" * 20):
        shutil.copytree(folder(artifacts), artifacts / "snapshots" / name)
    older = artifacts / "snapshots" / ("f" * 20)
    older.mkdir()
    (older / MANIFEST).write_text(json.dumps({"format": 1, "id": older.name}))
    (artifacts / "snapshots" / "notes").write_text("of an operator")
    assert ids(kept(artifacts)) == [a]


def test_a_removed_snapshot_is_gone_and_an_unknown_one_not_found(artifacts: Path) -> None:
    a, b, c = (publish(artifacts, name, keep=2) for name in "abc")
    listing = kept(artifacts)
    assert listing.find(b, c).id == b
    with pytest.raises(SnapshotGone, match=f"{a} is no longer kept; copy {c}"):
        listing.find(a, c)
    with pytest.raises(SnapshotNotFound, match=f"there was no snapshot {'0' * 20}"):
        listing.find("0" * 20, c)


def test_a_copy_of_one_snapshot_knows_what_was_before_it(artifacts: Path, tmp_path: Path) -> None:
    a, b, c = (publish(artifacts, name) for name in "abc")
    copy = tmp_path / "copy"
    shutil.copytree(artifacts / "snapshots" / c, copy / "snapshots" / c)
    (copy / "CURRENT").write_text(c)
    listing = kept(copy)
    assert ids(listing) == [c]
    for removed in (a, b):
        with pytest.raises(SnapshotGone):
            listing.find(removed, c)


def test_a_manager_lists_what_a_build_removes_without_a_swap(artifacts: Path) -> None:
    a, b, c = (publish(artifacts, name) for name in "abc")
    manager = SnapshotManager(artifacts)
    manager.open()
    assert [snapshot.id for snapshot in manager.folder.kept.snapshots] == [c, b, a]
    served = manager.current()
    assert publish(artifacts, "c", keep=1) == c
    manager.poll()
    assert manager.current() is served
    assert [snapshot.id for snapshot in manager.folder.kept.snapshots] == [c]
    assert manager.folder.kept.snapshots[0].checked_at == manager.checked_at(served)


def test_changes_within_one_tick_of_the_clock_are_seen(artifacts: Path) -> None:
    a, b = (publish(artifacts, name) for name in "ab")
    watched, path = ArtifactsFolder(artifacts), artifacts / "snapshots"
    watched.refresh()
    modified = path.stat().st_mtime_ns
    shutil.rmtree(path / a)
    (path / "other").mkdir()  # the count of links stays the same
    os.utime(path, ns=(modified, modified))
    watched.refresh()
    assert ids(watched.kept) == [b]


def test_an_unchanged_folder_is_not_read_again(
    artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = publish(artifacts, "a")
    watched = ArtifactsFolder(artifacts)
    for path in (folder(artifacts), artifacts, *artifacts.iterdir()):
        os.utime(path, (10**9, 10**9))
    watched.refresh()
    monkeypatch.setattr("service.artifacts.folder.read_history", None)
    watched.refresh()
    assert ids(watched.kept) == [a]


def test_a_thousand_earlier_ids_are_remembered(artifacts: Path) -> None:
    first = publish(artifacts, "first")
    manifest = folder(artifacts) / MANIFEST
    content = json.loads(manifest.read_bytes())
    before = [f"{number:020x}" for number in range(EARLIER)]
    manifest.write_text(json.dumps(content | {"earlier": before}))
    second = publish(artifacts, "second")
    assert earlier(artifacts) == [*before[1:], first]
    publish(artifacts, "third", keep=1)
    assert earlier(artifacts) == [*before[2:], first, second]
    listing = kept(artifacts)
    with pytest.raises(SnapshotNotFound):
        listing.find(before[1], "")
    for known in (before[2], first, second):
        with pytest.raises(SnapshotGone):
            listing.find(known, "")


def test_ids_and_what_is_remembered_agree_after_a_rollback_and_a_rebuild(artifacts: Path) -> None:
    a, b = publish(artifacts, "a"), publish(artifacts, "b")
    manifest = copy_manifest(read_manifest(folder(artifacts)))
    roll_back(artifacts)
    assert current(artifacts) == a
    assert publish(artifacts, "b") == b
    assert copy_manifest(read_manifest(folder(artifacts))) == manifest
    assert earlier(artifacts) == [a]
    c = publish(artifacts, "c")
    assert earlier(artifacts) == [a, b]
    assert ids(kept(artifacts)) == [c, b, a]


def test_a_withdrawn_snapshot_is_remembered_when_it_is_removed(artifacts: Path) -> None:
    a, b = publish(artifacts, "a"), publish(artifacts, "b")
    roll_back(artifacts)
    c = publish(artifacts, "c", keep=2)
    assert snapshots(artifacts) == {a, c}
    assert earlier(artifacts) == [a, b]
    d = publish(artifacts, "d", keep=1)
    assert earlier(artifacts) == [a, b, c]
    with pytest.raises(SnapshotGone):
        kept(artifacts).find(b, d)
