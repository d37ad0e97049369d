"""What a build leaves behind: one whole snapshot, or what was there before."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest

from indexer.__main__ import main
from service.errors import SnapshotDamaged, SnapshotMissing, SnapshotUnsupported
from service.snapshot import open_snapshot
from tests.conftest import Build
from tests.running import payment, run_indexer, service


def snapshots(artifacts: Path) -> set[str]:
    return {path.name for path in (artifacts / "snapshots").iterdir()}


def folder(artifacts: Path) -> Path:
    return artifacts / "snapshots" / (artifacts / "CURRENT").read_text().strip()


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
    (artifacts / "CURRENT.new").write_text("half")
    assert build([service("b")]) == 0
    assert not (artifacts / "staging").exists()
    assert open_snapshot(artifacts).find("b") is not None


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
@pytest.mark.parametrize("harm", ["missing", "cut short", "empty"])
def test_a_file_that_is_missing_or_cut_is_found_on_opening(
    harm: str, name: str, artifacts: Path, build: Build
) -> None:
    assert build([service("a")], payments=[payment()]) == 0
    path = folder(artifacts) / name
    content = path.read_bytes()
    path.unlink()
    if harm != "missing":
        path.write_bytes(content[:-1] if harm == "cut short" else b"")
    with pytest.raises(SnapshotDamaged, match="rebuild it"):
        open_snapshot(artifacts)
    assert build([service("a")], payments=[payment()]) == 0
    assert open_snapshot(artifacts).find("a") is not None


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


def test_nothing_published_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(SnapshotMissing, match="python -m indexer build SOURCE --out"):
        open_snapshot(tmp_path)
    assert main(["verify", str(tmp_path)]) == 1


def test_the_library_interface_searches(sample: Path) -> None:
    hits = open_snapshot(str(sample)).search("tide harbour", limit=2, offset=0)
    assert hits.total >= 2
    assert len(hits.ids) == 2
    assert all(isinstance(service_id, str) for service_id in hits.ids)
