"""Publications as tests make them, and what services and copies find of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from indexer.__main__ import main
from service.artifacts.downloads import CURRENT_FILE, read_downloads
from service.artifacts.publishing import DOWNLOADS, publish, stage, time_of_build
from service.errors import SnapshotDamaged, SnapshotMissing
from service.schema.status import SnapshotEnvelope
from service.snapshot.manifest import hash_file, read_manifest, verify
from service.snapshot.publication import SNAPSHOTS, read_current
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import current, folder
from tests.support.running import build_snapshot_alone, serve, service, write_lines

ARTIFACTS = "artifacts"
SERVICES = 5
DAMAGED = "the served snapshot is damaged"


class Found(NamedTuple):
    """The snapshot that an artifacts folder publishes, and the one that it names to copies."""

    id: str = ""
    checked_at: datetime | None = None
    offered: str = ""


def look(artifacts: Path) -> Found | str:
    """Read an artifacts folder as services do; raises for what is not whole."""
    offered = look_at_downloads(artifacts)
    try:
        snapshot = open_snapshot(artifacts)
        verify(artifacts / SNAPSHOTS / snapshot.id)
    except SnapshotMissing:
        return Found()
    except SnapshotDamaged:
        return DAMAGED
    return Found(snapshot.id, read_current(artifacts).checked_at, offered)


def look_at_downloads(artifacts: Path) -> str:
    """Read all downloads as copies do; return the id of the snapshot that `current.json` names."""
    downloads = artifacts / DOWNLOADS
    for path in downloads.glob("*.json"):
        for file in read_downloads(artifacts, path.stem):
            assert hash_file(downloads / file.path).sha256 == file.sha256
    if not (downloads / CURRENT_FILE).exists():
        return ""
    content = (downloads / CURRENT_FILE).read_bytes()
    described = msgspec.json.decode(content, type=SnapshotEnvelope).snapshot
    assert described.files == read_downloads(artifacts, described.id) != []
    return described.id


def publish_service(artifacts: Path, service_id: str) -> Path:
    """Publish a catalogue of one service as a build does; returns the folder of the snapshot.

    A process builds it once, without what lies beside a snapshot, and publishes copies.
    """
    with stage(artifacts) as staging:
        root = Path(_build_service(service_id).name, ARTIFACTS)
        built = shutil.copytree(folder(root), staging / "snapshot")
        manifest = read_manifest(built)
        manifest.built_at = time_of_build(artifacts)
        publish(artifacts, built, manifest)
    return folder(artifacts)


@cache
def _build_service(service_id: str) -> TemporaryDirectory[str]:
    directory = TemporaryDirectory()
    build_snapshot_alone(Path(directory.name), [service(service_id)])
    return directory


class Publishing:
    """Publishes editions of a catalogue, and records one act."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root, self.contents = folder / "root", folder / "contents"
        self.root.mkdir(parents=True)
        self.contents.mkdir()
        self.artifacts = self.root / ARTIFACTS

    def build(self, edition: str, *options: str) -> str:
        """Build an edition; returns the id of its snapshot."""
        services = [service(f"s{n}", name=f"{n} {edition}") for n in range(SERVICES)]
        source = write_lines(self.folder / f"{edition}.jsonl", services)
        command = ["build", source, "--out", str(self.artifacts), "--jobs", "1", "--no-semantic"]
        assert main([*command, "--quiet", *options]) == 0
        return current(self.artifacts)

    @contextmanager
    def origin(self, edition: str) -> Iterator[str]:
        """Serve an edition from another folder; yields the address."""
        origin = Publishing(self.folder / f"origin-{edition}")
        origin.build(edition)
        with serve(origin.artifacts) as client:
            yield str(client.base_url)

    def roll_back(self) -> None:
        """Roll back."""
        assert main(["rollback", str(self.artifacts)]) == 0
