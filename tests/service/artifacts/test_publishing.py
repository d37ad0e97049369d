"""Publishing: durable and atomic, with the last three snapshots kept and damage repaired."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from indexer.__main__ import main
from service.snapshot.manifest import MANIFEST
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import current, flip_a_bit, folder, reported, snapshots
from tests.support.clients.terminals import into_closed_pipe, onto_full_disk
from tests.support.publishing import look_at_downloads
from tests.support.running import (
    PLAIN,
    Build,
    Json,
    Program,
    build_records,
    payment,
    run_fork,
    run_indexer,
    serve,
    service,
    write_lines,
)

Paid = tuple[Callable[..., str], str]
RECORD = service("a", description="\u00e9")


@pytest.fixture(scope="module")
def paid(tmp_path_factory: pytest.TempPathFactory) -> Paid:
    """A function that builds a record and a payment, always in one folder, and their snapshot."""
    folder = tmp_path_factory.mktemp("paid")

    def build(record: Json, **fields: object) -> str:
        payments = write_lines(folder / "payments.jsonl", [payment(**fields)])
        options = ("--transactions", payments, "--no-semantic")
        return current(build_records(folder, [record], *options))

    return build, build(RECORD)


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
    assert replace(again.manifest, inputs=None) == replace(first.manifest, inputs=None)
    assert again.checked_at > first.checked_at


@pytest.mark.parametrize(
    "change",
    [{"name": "Other"}, {"unknown": 1}, {"endpoints": []}, {"description": "e\u0301"}],
)
def test_any_change_gives_another_snapshot(change: Json, paid: Paid) -> None:
    build, first = paid
    assert build(RECORD | change) != first


def test_a_change_of_payments_alone_gives_another_snapshot(paid: Paid) -> None:
    build, first = paid
    assert build(RECORD, amount=1) != first


def test_an_empty_catalogue_is_published(tmp_path: Path, artifacts: Path, build: Build) -> None:
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
        set_times_of_folders(artifacts, published)
    assert snapshots(artifacts) == set(published[1:])
    assert build([service("b")]) == 0
    assert open_snapshot(artifacts).id == published[1]
    assert snapshots(artifacts) == set(published[1:])
    assert build([service("e")]) == 0
    assert snapshots(artifacts) == {*published[2:], open_snapshot(artifacts).id}


@pytest.mark.parametrize("keep", [1, 2])
def test_the_served_snapshot_and_the_newest_other_one_are_always_kept(
    keep: int, artifacts: Path, build: Build
) -> None:
    options = ("--keep", str(keep))
    published = []
    for name in "abc":
        assert build([service(name)], options=("--keep", "9")) == 0
        published.append(current(artifacts))
    assert build([service("a")], options=options) == 0  # which was built first
    assert current(artifacts) == published[0]
    assert snapshots(artifacts) == {published[0], published[2]}
    assert build([service("d")], options=options) == 0
    assert snapshots(artifacts) == {published[2], current(artifacts)}


def test_a_build_that_fails_removes_no_snapshot_that_is_needed(
    artifacts: Path, build: Build
) -> None:
    for name in "ab":
        assert build([service(name)]) == 0
    before = snapshots(artifacts)
    assert build([{"id": 7}, {"id": 7}], options=("--keep", "1")) == 3
    assert snapshots(artifacts) == before


def test_a_folder_of_the_last_release_is_built_on_and_cleared_of_its_files(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        assert build([service(name)], options=("--no-downloads",)) == 0
    manifest = folder(artifacts) / MANIFEST
    content = json.loads(manifest.read_bytes()) | {"earlier": ["0" * 20]}
    manifest.write_text(json.dumps(content))
    before = current(artifacts)
    (artifacts / "feeds").mkdir()
    (artifacts / "feeds" / "kept.json").write_text("of the last release")
    for name in ("history.json", "pointer.json", "following.json"):
        (artifacts / name).write_text("[]")
    with serve(artifacts) as client:
        assert client.get("/readyz").json()["snapshot"] == before
        assert client.get("/v1/snapshots/current").json()["snapshot"]["files"] == []
    kept = [f"{'0a' * 32}.arrays", f"{before}.json"]
    for name in kept:
        (artifacts / "reuse" / name).write_text("{}")
    capsys.readouterr()
    assert build([service("c")], options=("--json",)) == 0
    (note,) = reported(capsys)["notes"]
    removed = ["history.json", "pointer.json", "following.json", "feeds"]
    assert note == f"removed {', '.join(removed)}, reuse of an earlier release"
    assert {path.name for path in (artifacts / "reuse").iterdir()}.isdisjoint(kept)
    assert {path.name for path in artifacts.iterdir()}.isdisjoint(removed)
    assert look_at_downloads(artifacts) == current(artifacts)
    assert len(snapshots(artifacts)) == 3
    assert build([service("c")], options=("--json",)) == 0
    assert reported(capsys)["notes"] == []
    assert main(["rollback", str(artifacts)]) == 0
    assert current(artifacts) == before


def set_times_of_folders(artifacts: Path, published: list[str]) -> None:
    """Set file times that reverse the order of publication."""
    for age, snapshot_id in enumerate(published):
        path = artifacts / "snapshots" / snapshot_id
        if path.exists():
            os.utime(path, (10**9 - age, 10**9 - age))


def test_foreign_files_and_folders_are_not_removed(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    first = folder(artifacts)
    foreign = {artifacts / "snapshots" / name for name in ("keep-me", "0" * 20, "f" * 20, "copy")}
    for path in foreign - {artifacts / "snapshots" / "copy"}:
        path.mkdir()
        (path / "notes").write_text("of an operator")
    (artifacts / "snapshots" / ("f" * 20) / MANIFEST).write_text('{"format":1,"id":"other"}')
    shutil.copytree(first, artifacts / "snapshots" / "copy")
    (artifacts / "snapshots" / "a-file").write_text("of an operator")
    ours = {open_snapshot(artifacts).id}
    for name in "bcde":
        assert build([service(name)]) == 0
        ours.add(open_snapshot(artifacts).id)
    names = {path.name for path in foreign} | {"a-file"}
    assert snapshots(artifacts) >= names
    remaining = snapshots(artifacts) - names
    assert len(remaining) == 3
    assert remaining < ours


FOREIGN = ["feeds", "staging", "history.json", "whoosh", "accepted", "last.json", "sources.json"]


@pytest.mark.parametrize("name", [*FOREIGN, "incoming", "staging snapshots"])
def test_a_folder_of_something_else_is_left_as_it_is(
    name: str, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    artifacts.mkdir()
    first, *_ = names = name.split()
    own = {artifacts / each / "own" for each in names}
    for path in own:
        path.parent.mkdir()
        path.write_text("of an operator")
    assert build([service("a")]) == 1
    assert f"has `{first}`, which a build would remove" in capsys.readouterr().err
    assert {*artifacts.rglob("*")} == own | {path.parent for path in own}


def test_a_folder_that_a_killed_first_build_left_is_built_on(artifacts: Path, build: Build) -> None:
    for name in ("snapshots", "staging", "whoosh"):
        (artifacts / name).mkdir(parents=True)
    (artifacts / ".lock").touch()
    assert build([service("a")]) == 0
    assert open_snapshot(artifacts).find("a") is not None


def test_snapshots_of_earlier_versions_are_pruned(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    earlier = artifacts / "snapshots" / ("0" * 20)
    earlier.mkdir()
    manifest = {"format": 2, "id": earlier.name, "built_at": "2026-05-07T10:16:51Z"}
    (earlier / MANIFEST).write_text(json.dumps(manifest))
    for name in "bc":
        assert build([service(name)]) == 0
    assert not earlier.exists()
    assert len(snapshots(artifacts)) == 3


def test_the_staging_folder_of_a_killed_build_is_removed(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    (artifacts / "staging" / "snapshot").mkdir(parents=True)
    (artifacts / "staging" / "spool").write_text("half")
    assert build([service("b")]) == 0
    assert not (artifacts / "staging").exists()
    assert open_snapshot(artifacts).find("b") is not None


@pytest.mark.parametrize("fails", ["os.fsync", "pathlib.Path.rename", "pathlib.Path.replace"])
def test_a_failure_to_publish_is_an_error_and_the_next_build_publishes(
    fails: str, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    assert build([service("old")]) == 0
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(fails, fail)
        assert build([service("new")]) == 1
    reported = capsys.readouterr().err
    assert reported.startswith("error: ")
    assert "No space left on device" in reported
    assert reported.endswith("; what was published before stays\n")
    assert open_snapshot(artifacts).find("old") is not None
    assert main(["verify", str(artifacts)]) == 0
    assert build([service("new")]) == 0
    assert open_snapshot(artifacts).find("new") is not None


def test_a_concurrent_build_is_refused(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build([service("a")]) == 0
    with (artifacts / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert build([service("b")]) == 1
    assert "another build is at work" in capsys.readouterr().err
    assert open_snapshot(artifacts).find("a") is not None


@pytest.mark.parametrize("out", ["/dev/null/artifacts", "/proc/artifacts"])
def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path, out: str) -> None:
    source = tmp_path / "s.json"
    source.write_text("[]")
    process = run_indexer("build", source, "--out", out)
    assert process.returncode == 1
    assert process.stderr.startswith(f"error: {out}")
    assert "Traceback" not in process.stderr


FILES = ["records.json", "records.arrays", "ids.arrays", "services.arrays"]


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_detected_by_verify_and_repaired_by_a_build(
    name: str, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build([service("a")]) == 0
    assert main(["verify", str(artifacts)]) == 0
    path = folder(artifacts) / name
    flip_a_bit(path)
    assert main(["verify", str(artifacts)]) == 1
    assert f"{path} is not what was published; rebuild it" in capsys.readouterr().err
    assert build([service("a")]) == 0
    assert main(["verify", str(artifacts)]) == 0


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_a_missing_or_truncated_file_is_repaired_by_a_build(
    name: str, artifacts: Path, build: Build
) -> None:
    for damaged in (None, b"", b"["):
        assert build([service("a")]) == 0
        path = folder(artifacts) / name
        path.unlink()
        if damaged is not None:
            path.write_bytes(damaged)
        assert main(["verify", str(artifacts)]) == 1
    assert build([service("a")]) == 0
    assert open_snapshot(artifacts).find("a") is not None


def test_a_damaged_snapshot_is_replaced_whole_and_stays_readable_for_who_has_it_open(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    snapshot = folder(artifacts)
    opened, inode = open_snapshot(artifacts), snapshot.stat().st_ino
    (snapshot / "services.arrays").unlink()
    flip_a_bit(snapshot / "records.json")
    with (snapshot / "records.json").open("rb") as reader:
        damaged = reader.read()
        assert build([service("a")]) == 0
        reader.seek(0)
        assert reader.read() == damaged != (snapshot / "records.json").read_bytes()
    assert opened.find("a") is not None
    assert folder(artifacts) == snapshot
    assert snapshot.stat().st_ino != inode
    assert main(["verify", str(artifacts)]) == 0
    assert not (artifacts / "staging").exists()


def test_a_whole_snapshot_that_is_published_again_keeps_its_folder_and_time(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    first, inode = open_snapshot(artifacts), folder(artifacts).stat().st_ino
    assert build([service("b")]) == 0
    assert build([service("a")]) == 0
    again = open_snapshot(artifacts)
    assert again.id == first.id
    assert again.manifest.built_at == first.manifest.built_at
    assert folder(artifacts).stat().st_ino == inode


def test_a_damaged_manifest_is_replaced_by_the_next_build(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    path = folder(artifacts) / MANIFEST
    path.write_bytes(path.read_bytes().replace(b'"id": "', b'"id": "\xff'))
    assert build([service("a")]) == 0
    assert main(["verify", str(artifacts)]) == 0


@pytest.mark.parametrize(
    ("program", "warning"),
    [
        (onto_full_disk, "warning: the summary cannot be printed: No space left on device\n"),
        (into_closed_pipe, ""),
    ],
    ids=["full", "a pipe that nobody reads"],
)
def test_a_summary_that_cannot_be_printed_does_not_fail_the_build(
    program: Program, warning: str, tmp_path: Path, artifacts: Path
) -> None:
    source = write_lines(tmp_path / "source.jsonl", [service("a")])
    process = run_fork(program, "build", source, "--out", artifacts, *PLAIN)
    assert (process.returncode, process.stderr) == (0, warning)
    assert open_snapshot(artifacts).find("a") is not None


def test_no_lock_of_the_text_index_is_published(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    assert not [path for path in folder(artifacts).rglob("*") if path.name.endswith("LOCK")]
