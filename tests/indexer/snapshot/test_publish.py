"""What a build leaves behind: one whole snapshot, or what was there before."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from indexer.__main__ import main
from indexer.snapshot.publish import publish, stage
from service.errors import SnapshotDamaged, SnapshotMissing, SnapshotUnsupported
from service.search.config import SEARCH_CONFIG
from service.snapshot.snapshot import MANIFEST, open_snapshot, read_manifest
from tests.support.artifacts import HARMS, folder, snapshots
from tests.support.running import ROOT, Build, payment, run_indexer, service, write_lines


def test_the_same_input_gives_the_same_snapshot(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build([service("a"), service("b")], payments=[payment()]) == 0
    first = open_snapshot(artifacts)
    os.utime(artifacts / "CURRENT", (0, 0))
    capsys.readouterr()
    assert build([service("b"), service("a")], payments=[payment()]) == 0
    again = open_snapshot(artifacts)
    assert "nothing changed; still serving" in capsys.readouterr().out
    assert again.id == first.id
    assert again.manifest == first.manifest
    assert again.checked_at > first.checked_at


@pytest.mark.parametrize(
    "change",
    [{"name": "Other"}, {"unknown": 1}, {"endpoints": []}, {"description": "e\u0301"}],
)
def test_any_change_gives_another_snapshot(
    change: dict[str, object], artifacts: Path, build: Build
) -> None:
    assert build([service("a", description="\u00e9")], payments=[payment()]) == 0
    first = open_snapshot(artifacts).id
    assert build([service("a", **{"description": "\u00e9"} | change)], payments=[payment()]) == 0
    assert open_snapshot(artifacts).id != first


def test_a_change_of_payments_alone_gives_another_snapshot(artifacts: Path, build: Build) -> None:
    assert build([service()], payments=[payment()]) == 0
    first = open_snapshot(artifacts).id
    assert build([service()], payments=[payment(amount=1)]) == 0
    assert open_snapshot(artifacts).id != first


def test_an_empty_catalogue_is_a_catalogue(tmp_path: Path, artifacts: Path, build: Build) -> None:
    source = tmp_path / "empty.json"
    source.write_text("[]")
    assert build(source) == 0
    snapshot = open_snapshot(artifacts)
    assert (len(snapshot.services), snapshot.search("weather").total) == (0, 0)
    assert snapshot.find("a") is None


def test_the_last_three_snapshots_are_kept(artifacts: Path, build: Build) -> None:
    published = []
    for name in "abcd":
        assert build([service(name)]) == 0
        published.append(open_snapshot(artifacts).id)
        for age, snapshot_id in enumerate(reversed(published)):
            path = artifacts / "snapshots" / snapshot_id
            if path.exists():
                os.utime(path, (10**9 - age, 10**9 - age))
    assert snapshots(artifacts) == set(published[1:])
    assert build([service("b")]) == 0
    assert open_snapshot(artifacts).id == published[1]
    assert snapshots(artifacts) == set(published[1:])


def test_what_a_killed_build_left_is_removed(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    (artifacts / "staging" / "snapshot").mkdir(parents=True)
    (artifacts / "staging" / "spool").write_text("half")
    assert build([service("b")]) == 0
    assert not (artifacts / "staging").exists()
    assert open_snapshot(artifacts).find("b") is not None


class Steps:
    """What publishing asks of the disk, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[tuple[str, object]] = []
        really_rename, really_replace, really_open = Path.rename, Path.replace, Path.open

        def fsync(descriptor: int) -> None:
            self.done.append(("sync", os.fstat(descriptor).st_ino))

        def rename(path: Path, target: Path) -> Path:
            self.done.append(("rename", target))
            return really_rename(path, target)

        def replace(path: Path, target: Path) -> Path:
            self.done.append(("replace", target))
            return really_replace(path, target)

        def open_file(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if mode == "wb":
                self.done.append(("write", path.name))
            return really_open(path, mode, *arguments, **options)

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(Path, "rename", rename)
        monkeypatch.setattr(Path, "replace", replace)
        monkeypatch.setattr(Path, "open", open_file)


def republish(artifacts: Path, snapshot: Path) -> None:
    """Publish a copy of a published snapshot, as a build does."""
    with stage(artifacts) as staging:
        shutil.copytree(snapshot, staging / "snapshot")
        (staging / "snapshot" / "manifest.json").unlink()
        publish(artifacts, staging / "snapshot", read_manifest(snapshot))


@pytest.fixture
def next_snapshot(tmp_path: Path) -> Path:
    """A snapshot that was published to another folder, with a service `new`."""
    other = tmp_path / "elsewhere"
    source = write_lines(tmp_path / "next.jsonl", [service("new")])
    assert main(["build", source, "--out", str(other)]) == 0
    return folder(other)


@pytest.mark.parametrize("fails", ["os.fsync", "pathlib.Path.rename", "pathlib.Path.replace"])
def test_a_build_that_fails_to_publish_says_so_and_the_next_one_publishes(
    fails: str, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    assert build([service("old")]) == 0
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(fails, fail)
        assert build([service("new")]) == 1
    said = capsys.readouterr().err
    assert said == "error: No space left on device; what was published before stays\n"
    assert open_snapshot(artifacts).find("old") is not None
    assert main(["verify", str(artifacts)]) == 0
    assert build([service("new")]) == 0
    assert open_snapshot(artifacts).find("new") is not None


def test_every_byte_is_on_the_disk_before_it_gets_its_name(
    artifacts: Path, build: Build, next_snapshot: Path
) -> None:
    assert build([service("old")]) == 0
    with pytest.MonkeyPatch.context() as monkeypatch:
        steps = Steps(monkeypatch)
        republish(artifacts, next_snapshot)
    published = folder(artifacts)
    rename = steps.done.index(("rename", published))
    replace = steps.done.index(("replace", artifacts / "CURRENT"))
    synced = {path: ("sync", path.stat().st_ino) for path in (published, *published.rglob("*"))}
    assert all(step in steps.done[:rename] for step in synced.values())
    written = steps.done.index(("write", "manifest.json"))
    others = [step for path, step in synced.items() if path.is_file() and path.name != MANIFEST]
    assert all(step in steps.done[:written] for step in others)
    between, after = steps.done[rename:replace], steps.done[replace:]
    assert ("sync", (artifacts / "snapshots").stat().st_ino) in between
    assert ("sync", (artifacts / "CURRENT").stat().st_ino) in between
    assert ("sync", artifacts.stat().st_ino) in after


def test_two_builds_at_once_are_refused_in_words(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build([service("a")]) == 0
    with (artifacts / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert build([service("b")]) == 1
    assert "another build is at work" in capsys.readouterr().err
    assert open_snapshot(artifacts).find("a") is not None


@pytest.mark.parametrize("out", ["/dev/null/artifacts", "/proc/artifacts"])
def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, out: str) -> None:
    source = tmp_path / "s.json"
    source.write_text("[]")
    finished = run_indexer("build", source, "--out", out)
    assert finished.returncode == 1
    assert finished.stderr.startswith(f"error: {out}")
    assert "Traceback" not in finished.stderr


FILES = ["records.json", "records.offsets.npy", "ids.tags.npy", "ecosystem/overview.json"]


@pytest.mark.parametrize("name", FILES)
def test_a_changed_byte_is_found_by_verify_and_mended_by_a_build(
    name: str, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build([service("a")], payments=[payment()]) == 0
    assert main(["verify", str(artifacts)]) == 0
    path = folder(artifacts) / name
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert main(["verify", str(artifacts)]) == 1
    assert f"{path} is not what was published; rebuild it" in capsys.readouterr().err
    assert build([service("a")], payments=[payment()]) == 0
    assert main(["verify", str(artifacts)]) == 0


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_a_file_that_is_missing_or_cut_is_found_on_opening_and_mended_by_a_build(
    name: str, artifacts: Path, build: Build
) -> None:
    assert build([service("a")], payments=[payment()]) == 0
    path = folder(artifacts) / name
    content = path.read_bytes()
    for harm in (None, content[:-1], b""):
        path.unlink()
        if harm is not None:
            path.write_bytes(harm)
        with pytest.raises(SnapshotDamaged, match="rebuild it"):
            open_snapshot(artifacts)
        path.write_bytes(harm or b"")
    assert build([service("a")], payments=[payment()]) == 0
    assert open_snapshot(artifacts).find("a") is not None


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_file_of_unchanged_size_never_ends_opening_in_another_error(
    harm: str, artifacts: Path, build: Build
) -> None:
    records = [service("a", category="Data", tags=["x"], networks=["Base"]), service("b")]
    assert build(records, payments=[payment()]) == 0
    damaged = set()
    for path in sorted(path for path in folder(artifacts).rglob("*") if path.is_file()):
        content = path.read_bytes()
        path.write_bytes(HARMS[harm](content))
        try:
            open_snapshot(artifacts)
        except (SnapshotDamaged, SnapshotUnsupported) as error:
            assert "rebuild it" in str(error)  # noqa: PT017  # most files are read when asked for
            damaged.add(path.name)
        path.write_bytes(content)
    assert "manifest.json" in damaged
    assert open_snapshot(artifacts).find("a") is not None


def test_a_damaged_manifest_is_replaced_by_the_next_build(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    path = folder(artifacts) / MANIFEST
    path.write_bytes(path.read_bytes().replace(b'"id": "', b'"id": "\xff'))
    assert build([service("a")]) == 0
    assert main(["verify", str(artifacts)]) == 0


def test_postings_of_another_version_are_told_from_damaged_ones(
    artifacts: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build([service("a")]) == 0
    newer = msgspec.structs.replace(SEARCH_CONFIG, layout=SEARCH_CONFIG.layout + 1)
    monkeypatch.setattr("service.search.searcher.SEARCH_CONFIG", newer)
    with pytest.raises(SnapshotUnsupported, match="rebuild it"):
        open_snapshot(artifacts)


def test_another_format_is_told_from_a_damaged_one(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    (folder(artifacts) / "manifest.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(SnapshotUnsupported, match="has format 99, this version reads format"):
        open_snapshot(artifacts)


@pytest.mark.parametrize("current", ["", "..", "a/b", "0" * 20])
def test_a_current_that_names_no_snapshot_is_damaged(
    current: str, artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    (artifacts / "CURRENT").write_text(current)
    with pytest.raises(SnapshotDamaged):
        open_snapshot(artifacts)


@pytest.mark.parametrize("closed", ["full", "a pipe that nobody reads"])
def test_a_summary_that_cannot_be_printed_undoes_nothing(
    closed: str, tmp_path: Path, artifacts: Path
) -> None:
    source = write_lines(tmp_path / "source.jsonl", [service("a")])
    command = [sys.executable, "-m", "indexer", "build", source, "--out", str(artifacts)]
    reader, writer = os.pipe()
    os.close(reader)
    with open("/dev/full" if closed == "full" else writer, "wb") as out:  # noqa: PTH123  # or a pipe
        finished = subprocess.run(
            command, cwd=ROOT, stdout=out, stderr=subprocess.PIPE, text=True, check=False
        )
    assert finished.returncode == 0
    assert finished.stderr.startswith("warning: the summary cannot be printed: ")
    assert finished.stderr.count("\n") == 1
    assert open_snapshot(artifacts).find("a") is not None


def test_no_lock_of_the_text_index_is_published(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    assert not [path for path in folder(artifacts).rglob("*") if path.name.endswith("LOCK")]


def test_nothing_published_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(SnapshotMissing, match="python -m indexer build SOURCE --out"):
        open_snapshot(tmp_path)
    assert main(["verify", str(tmp_path)]) == 1


def test_the_library_interface_searches(sample: Path) -> None:
    hits = open_snapshot(str(sample)).search("tide harbour", limit=2, offset=0)
    assert hits.total >= 2
    assert len(hits.ids) == 2
    assert all(isinstance(service_id, str) for service_id in hits.ids)
