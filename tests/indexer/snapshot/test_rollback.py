"""Rolling back to an earlier build, and publishing again."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import pytest

from indexer.__main__ import main
from indexer.snapshot import rollback
from service.artifacts.downloads import CURRENT_FILE
from service.artifacts.publishing import DOWNLOADS
from service.snapshot.manifest import MANIFEST, read_manifest
from service.snapshot.publication import read_kept
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import flip_a_bit, folder, overlays, snapshots
from tests.support.publishing import look_at_downloads
from tests.support.running import Build, build_records, service


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts of three snapshots with one service each: `a`, then `b`, then `c`."""
    folder = tmp_path_factory.mktemp("built")
    *_, artifacts = (build_records(folder, [service(name)], "--no-semantic") for name in "abc")
    return artifacts


@pytest.fixture
def published(built: Path, artifacts: Path) -> list[str]:
    """The ids of the snapshots of `built`, which are copied."""
    shutil.copytree(built, artifacts)
    return [each.id for each in reversed(read_kept(artifacts))]


def publish(artifacts: Path, build: Build, name: str) -> str:
    assert build([service(name)]) == 0
    return open_snapshot(artifacts).id


def roll_back(artifacts: Path) -> int:
    return main(["rollback", str(artifacts)])


def test_the_previous_snapshot_is_current_and_reported_in_one_line(
    artifacts: Path, published: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    _, before, served = published
    capsys.readouterr()
    assert roll_back(artifacts) == 0
    snapshot = open_snapshot(artifacts)
    assert snapshot.id == before
    assert snapshot.find("b") is not None
    reported = capsys.readouterr().out
    built_at = f"{snapshot.manifest.built_at:%Y-%m-%dT%H:%M:%S}"
    assert reported.startswith(f"rolled back from {served} to {before}, built {built_at}")
    assert "1 service; the next build publishes again what its sources make\n" in reported
    assert reported.count("\n") == 1
    assert main(["verify", str(artifacts)]) == 0
    assert {path.name for path in artifacts.iterdir()} == {
        ".lock",
        "CURRENT",
        "downloads",
        "last.json",
        "reuse",
        "snapshots",
        "sources",
        "sources.json",
        "whoosh",
    }


def test_after_a_rollback_the_snapshot_was_checked_when_it_was_built(
    artifacts: Path, published: list[str]
) -> None:
    assert roll_back(artifacts) == 0
    snapshot = open_snapshot(artifacts)
    assert snapshot.id == published[1]
    assert snapshot.checked_at == snapshot.manifest.built_at


def test_a_rollback_leads_copies_to_a_snapshot_that_was_built_without_downloads(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a")], options=("--no-downloads",)) == 0
    before = open_snapshot(artifacts)
    assert build([service("b")]) == 0
    assert roll_back(artifacts) == 0
    assert look_at_downloads(artifacts) == before.id


def test_a_rollback_whose_downloads_cannot_be_made_is_done_and_says_so(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    assert build([service("a")], options=("--no-downloads",)) == 0
    before = open_snapshot(artifacts).id
    assert build([service("b")]) == 0
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(rollback, "make_downloads", fail)
        assert roll_back(artifacts) == 0
    assert (
        "its downloads cannot be made: [Errno 28] No space left on device"
        in capsys.readouterr().out
    )
    assert (open_snapshot(artifacts).id, look_at_downloads(artifacts)) == (before, "")


def test_a_rollback_makes_no_downloads_that_no_build_made(artifacts: Path, build: Build) -> None:
    for name in "ab":
        assert build([service(name)], options=("--no-downloads",)) == 0
    assert roll_back(artifacts) == 0
    assert not (artifacts / DOWNLOADS / CURRENT_FILE).exists()
    assert not (artifacts / DOWNLOADS).exists()


def test_repeated_rollbacks_reach_the_first_build_and_then_the_newest(
    artifacts: Path, published: list[str]
) -> None:
    for before in (*reversed(published[:-1]), published[-1]):
        assert roll_back(artifacts) == 0
        assert open_snapshot(artifacts).id == before
    assert snapshots(artifacts) == set(published)


def test_the_next_build_publishes_a_rolled_back_snapshot_again(
    artifacts: Path, build: Build, published: list[str]
) -> None:
    newest = publish(artifacts, build, "d")
    assert roll_back(artifacts) == 0
    assert publish(artifacts, build, "d") == newest
    assert roll_back(artifacts) == 0
    assert open_snapshot(artifacts).id == published[2]


def test_a_rollback_goes_to_the_newest_build_before_the_served_one(
    artifacts: Path, build: Build, published: list[str]
) -> None:
    assert roll_back(artifacts) == 0
    newest = publish(artifacts, build, "d")
    assert snapshots(artifacts) == {*published[1:], newest}
    assert roll_back(artifacts) == 0
    assert open_snapshot(artifacts).id == published[2]


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_rollback_from_the_oldest_build_goes_to_the_newest_other_one_and_says_so(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str], is_damaged: bool
) -> None:
    """Its content was published again, and a build keeps the time of a snapshot that it meets."""
    if is_damaged:
        flip_a_bit(artifacts / "snapshots" / publish(artifacts, build, "0") / "records.json")
    first, second = publish(artifacts, build, "a"), publish(artifacts, build, "b")
    assert publish(artifacts, build, "a") == first
    capsys.readouterr()
    assert roll_back(artifacts) == 0
    assert open_snapshot(artifacts).id == second
    older = "older snapshot that is whole" if is_damaged else "older snapshot"
    done = f"there is no {older}: serves the newest other one, {second}, built "
    assert capsys.readouterr().out.splitlines()[is_damaged].startswith(done)


def test_a_rollback_says_how_many_denials_since_then_the_older_snapshot_lacks(
    artifacts: Path, build: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["a", "b", "c"]
    for number, count in enumerate((1, 3, 2)):
        denied = overlays(tmp_path, dict.fromkeys(names[:count], None))
        records = [service(name) for name in (*names, f"new-{number}")]
        assert build(records, options=denied) == 0
    assert roll_back(artifacts) == 0
    assert "lacks" not in capsys.readouterr().out
    assert roll_back(artifacts) == 0
    assert (
        "it lacks 2 denials since then, which the next build applies\n" in capsys.readouterr().out
    )
    assert open_snapshot(artifacts).find("b") is not None


def test_the_only_whole_snapshot_is_reached_though_it_was_built_later(
    artifacts: Path, build: Build
) -> None:
    published = [publish(artifacts, build, name) for name in "abcb"]
    (artifacts / "snapshots" / published[0] / MANIFEST).unlink()
    assert roll_back(artifacts) == 0
    assert open_snapshot(artifacts).id == published[2]


@pytest.mark.parametrize("days", [1, 400])
def test_a_build_with_the_clock_set_back_is_the_newest(
    days: int, artifacts: Path, build: Build, published: list[str]
) -> None:
    kept = [read_manifest(artifacts / "snapshots" / each).built_at for each in published]

    class Earlier(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Earlier:
            return super().now(tz) - timedelta(days=days)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("service.artifacts.publishing.datetime", Earlier)
        newest = publish(artifacts, build, "d")
    assert read_manifest(folder(artifacts)).built_at > max(kept)
    assert snapshots(artifacts) == {*published[1:], newest}
    assert roll_back(artifacts) == 0
    assert open_snapshot(artifacts).id == published[2]
    after = publish(artifacts, build, "e")
    assert read_kept(artifacts)[0].id == after


def test_a_damaged_snapshot_is_skipped_and_reported(
    artifacts: Path, published: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    records = artifacts / "snapshots" / published[1] / "records.json"
    records.write_bytes(records.read_bytes().replace(b"One", b"Two"))
    assert roll_back(artifacts) == 0
    reported = capsys.readouterr().out
    assert f"passed over {records} is not what was published" in reported
    assert open_snapshot(artifacts).id == published[0]


def test_without_an_intact_earlier_snapshot_current_does_not_change(
    artifacts: Path, published: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in published[:2]:
        flip_a_bit(artifacts / "snapshots" / name / "records.json")
    assert roll_back(artifacts) == 1
    reported = capsys.readouterr().err
    assert reported.startswith(f"error: {artifacts} holds no snapshot to go back to")
    assert all(name in reported for name in published[:2])
    assert open_snapshot(artifacts).id == published[2]


def test_rollbacks_do_not_depend_on_file_times(
    artifacts: Path, published: list[str], tmp_path: Path
) -> None:
    assert roll_back(artifacts) == 0
    copy = tmp_path / "copy"
    shutil.copytree(artifacts, copy, copy_function=shutil.copyfile)
    for position, snapshot_id in enumerate(published):  # a copy may change the times
        os.utime(copy / "snapshots" / snapshot_id, (10**9 + position, 10**9 + position))
    assert roll_back(copy) == 0
    assert open_snapshot(copy).id == published[0]


def test_an_edited_current_is_rolled_back_from(artifacts: Path, published: list[str]) -> None:
    (artifacts / "CURRENT").write_text(published[1])
    assert roll_back(artifacts) == 0
    assert open_snapshot(artifacts).id == published[0]


@pytest.mark.parametrize("damage", ["missing", "damaged", "not named"])
def test_a_missing_or_damaged_current_snapshot_can_be_rolled_back(
    damage: str, artifacts: Path, published: list[str]
) -> None:
    if damage == "missing":
        shutil.rmtree(folder(artifacts))
    elif damage == "damaged":
        (folder(artifacts) / MANIFEST).write_bytes(b"\xff")
    else:
        shutil.rmtree(folder(artifacts))
        (artifacts / "CURRENT").write_bytes(b"\xff")
    assert roll_back(artifacts) == 0
    assert open_snapshot(artifacts).id == published[1]
    assert roll_back(artifacts) == 0
    assert open_snapshot(artifacts).id == published[0]


def test_a_rollback_during_a_build_is_refused(
    artifacts: Path, published: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with (artifacts / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert roll_back(artifacts) == 1
    assert "another build is at work" in capsys.readouterr().err
    assert open_snapshot(artifacts).id == published[2]


def test_a_rollback_without_artifacts_is_an_error_and_creates_no_folder(
    artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert roll_back(artifacts) == 1
    assert capsys.readouterr().err == f"error: {artifacts} holds no snapshot to go back to\n"
    assert not artifacts.exists()


def test_a_failing_rollback_does_not_change_current(
    artifacts: Path, published: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as failing:
        failing.setattr(os, "fsync", fail)
        assert roll_back(artifacts) == 1
    assert open_snapshot(artifacts).id == published[2]
    assert roll_back(artifacts) == 0
    assert open_snapshot(artifacts).id == published[1]


def test_the_first_publication_cannot_be_rolled_back(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    assert roll_back(artifacts) == 1
    assert open_snapshot(artifacts).find("a") is not None
