"""The files that others copy, and their description.

downloads/<id>.tar.zst           the folder of the snapshot, its manifest first
downloads/<id>.jsonl.zst         the services, one a line in order of id
downloads/<id>.index.jsonl.zst   `{"id":…,"hash":…}` of each service, in the same order
downloads/<id>.json              the sizes and hashes of these three, written last
downloads/current.json           the answer of `/v1/snapshots/current`, for a static host
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec

from service.artifacts.durable import replace_durably, sync
from service.artifacts.publishing import DOWNLOADS, STAGING
from service.schema.snapshots import SnapshotDescription, SnapshotEnvelope, SnapshotFile
from service.schema.values import format_timestamp
from service.snapshot.manifest import Manifest
from service.storage.json_file import read_json

KINDS = ("tar.zst", "jsonl.zst", "index.jsonl.zst")
"""The names of the files after the id and a dot."""
CURRENT_FILE = "current.json"


def read_downloads(artifacts: Path, snapshot_id: str) -> list[SnapshotFile]:
    """Return the files of a snapshot, none where they were not made or one is missing."""
    folder = artifacts / DOWNLOADS
    files = read_json(folder / f"{snapshot_id}.json", list[SnapshotFile]) or []
    with suppress(OSError):
        if all((folder / each.path).stat().st_size == each.bytes for each in files):
            return files
    return []


def add_downloads(
    artifacts: Path, snapshot_id: str, staged: Path, files: Sequence[SnapshotFile]
) -> None:
    """Move the files of a snapshot, which stand in a staged folder, to the downloads."""
    target = artifacts / DOWNLOADS
    target.mkdir(exist_ok=True)
    for each in files:
        sync(staged / each.path)
        (staged / each.path).replace(target / each.path)
    draft = artifacts / STAGING / f"{snapshot_id}.json"
    replace_durably(target / f"{snapshot_id}.json", msgspec.json.encode(files), draft)


def name_current(artifacts: Path, manifest: Manifest, checked_at: datetime) -> None:
    """Have `current.json` name a snapshot, or remove it where the snapshot has no downloads."""
    path = artifacts / DOWNLOADS / CURRENT_FILE
    if files := read_downloads(artifacts, manifest.id):
        content = msgspec.json.encode(describe(manifest, checked_at, files))
        replace_durably(path, content, artifacts / STAGING / CURRENT_FILE)
    elif path.exists():
        path.unlink()
        sync(path.parent)


def describe(
    manifest: Manifest, checked_at: datetime, files: Sequence[SnapshotFile]
) -> SnapshotEnvelope:
    """Describe a snapshot and its downloads."""
    return SnapshotEnvelope(
        SnapshotDescription(
            id=manifest.id,
            built_at=format_timestamp(manifest.built_at),
            checked_at=format_timestamp(checked_at),
            counts=manifest.counts,
            files=list(files),
        )
    )


def names_of(snapshot_id: str) -> list[str]:
    """Return the names of the files of a snapshot."""
    return [f"{snapshot_id}.{kind}" for kind in KINDS]
