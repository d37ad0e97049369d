"""`check`: what it reads, reports and leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.__main__ import main
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import reported
from tests.support.running import Build, payment, service, write_lines
from tests.support.sources.x402 import resource


def files(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder, without the lock of builds and the downloads of feeds."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_a_check_reports_and_publishes_nothing(
    tmp_path: Path, artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_lines(tmp_path / "source.jsonl", [service("a"), resource(), {"name": "x"}])
    payments = write_lines(tmp_path / "payments.jsonl", [payment()])
    arguments = [source, "--transactions", payments, "--out", str(artifacts)]
    assert main(["check", *arguments, "--max-rejects", "50%"]) == 0
    output = capsys.readouterr().out
    assert f"fresh      2 of 3 records of {source}, 1 rejected\n" in output
    assert "2 services, 2 endpoints, 1 listed resource, 1 payment; nothing was" in output
    assert output.endswith("; nothing was published\n")
    assert files(artifacts) == {}


def test_a_check_compares_with_the_served_snapshot_and_leaves_it_alone(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build([service("a"), service("b"), resource()]) == 0
    before, served = files(artifacts), open_snapshot(artifacts).id
    source = write_lines(tmp_path / "source0.jsonl", [service("a", name="New"), service("c")])
    capsys.readouterr()
    assert main(["check", source, "--out", str(artifacts), "--json"]) == 0
    report = reported(capsys)
    assert (report["snapshot"], report["services"]) == ("", 2)
    assert report["changes"] == {"added": 1, "changed": 1, "removed": 2}
    assert files(artifacts) == before
    assert open_snapshot(artifacts).id == served


def test_a_check_fails_where_a_build_would(
    tmp_path: Path, artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_lines(tmp_path / "source.jsonl", [service("a"), {"name": "x"}])
    assert main(["check", source, "--out", str(artifacts)]) == 3
    assert "1 of 2 records is malformed" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "none"), "--out", str(artifacts)]) == 1
