"""Opening the published snapshot, and the errors when it is missing, damaged or unsupported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from indexer.__main__ import main
from service.errors import SnapshotDamaged, SnapshotMissing, SnapshotUnsupported
from service.search.config import SEARCH_CONFIG
from service.snapshot import open_snapshot
from service.snapshot.manifest import FORMAT, MANIFEST
from tests.support.artifacts import DAMAGES, folder
from tests.support.running import build_records, payment, service, write_lines

FILES = ["records.json", "records.arrays", "ids.arrays", "services.arrays"]

FORMAT_2 = {
    "format": 2,
    "id": "0f0bda38a2b4a6a5b7f1",
    "built_at": "2026-05-07T10:16:51.123456Z",
    "counts": {"services": 1, "endpoints": 1, "payments": 0},
    "sources": [{"name": "services.jsonl", "records": 1, "rejected": 0}],
    "files": {"narrowing/cheapest.npy": {"bytes": 136, "sha256": "00"}},
}
"""A manifest of an earlier version."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifacts of two services and a payment."""
    folder = tmp_path_factory.mktemp("built")
    records = [service("a", category="Data", tags=["x"], networks=["Base"]), service("b")]
    payments = write_lines(folder / "payments.jsonl", [payment()])
    return build_records(folder, records, "--transactions", payments)


@pytest.fixture
def artifacts(built: Path, artifacts: Path) -> Path:
    """A copy of `built`, to damage."""
    return shutil.copytree(built, artifacts)


def test_an_opened_snapshot_can_be_searched(sample: Path) -> None:
    hits = open_snapshot(str(sample)).search("tide harbour", limit=2, offset=0)
    assert hits.total >= 2
    assert len(hits.ids) == 2
    assert all(isinstance(service_id, str) for service_id in hits.ids)


def test_a_missing_snapshot_is_an_error_with_the_command_to_run(tmp_path: Path) -> None:
    with pytest.raises(SnapshotMissing, match="ratecard build SOURCE --out"):
        open_snapshot(tmp_path)
    assert main(["verify", str(tmp_path)]) == 1


@pytest.mark.parametrize("current", ["", "..", "a/b", "0" * 20])
def test_current_without_a_valid_id_is_damaged(current: str, artifacts: Path) -> None:
    (artifacts / "CURRENT").write_text(current)
    with pytest.raises(SnapshotDamaged):
        open_snapshot(artifacts)


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_a_missing_or_truncated_file_is_detected_on_opening(name: str, artifacts: Path) -> None:
    path = folder(artifacts) / name
    content = path.read_bytes()
    for damaged in (None, content[:-1], b""):
        path.unlink()
        if damaged is not None:
            path.write_bytes(damaged)
        with pytest.raises(SnapshotDamaged, match="rebuild it"):
            open_snapshot(artifacts)
        path.write_bytes(damaged or b"")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_of_unchanged_size_opens_or_is_a_snapshot_error(
    damage: str, artifacts: Path
) -> None:
    damaged = set()
    for path in sorted(path for path in folder(artifacts).rglob("*") if path.is_file()):
        content = path.read_bytes()
        path.write_bytes(DAMAGES[damage](content))
        try:
            open_snapshot(artifacts)
        except (SnapshotDamaged, SnapshotUnsupported) as error:
            assert "rebuild it" in str(error)  # noqa: PT017  # most files are not read on opening
            damaged.add(path.name)
        path.write_bytes(content)
    assert "manifest.json" in damaged
    assert open_snapshot(artifacts).find("a") is not None


@pytest.mark.parametrize(
    ("manifest", "remedy"),
    [
        (FORMAT_2, "; rebuild it with"),
        ({"format": FORMAT - 1}, "; rebuild it with"),
        ({"format": 99}, " and needs an update"),
    ],
)
def test_a_snapshot_of_another_format_is_unsupported(
    manifest: object, remedy: str, artifacts: Path
) -> None:
    (folder(artifacts) / MANIFEST).write_text(json.dumps(manifest))
    message = rf"has format \d+, this version reads format {FORMAT}{remedy}"
    with pytest.raises(SnapshotUnsupported, match=message):
        open_snapshot(artifacts)


def test_a_snapshot_of_another_analysis_is_unsupported(
    artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = msgspec.structs.replace(SEARCH_CONFIG, analysis=SEARCH_CONFIG.analysis + 1)
    monkeypatch.setattr("service.search.query.SEARCH_CONFIG", newer)
    with pytest.raises(SnapshotUnsupported, match="rebuild it"):
        open_snapshot(artifacts)
