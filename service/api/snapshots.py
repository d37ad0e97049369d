"""The snapshots that are kept: what each holds, and the files that a copy of it has."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from service.http.responses import no_store, snapshot_of
from service.records import format_timestamp
from service.snapshot.kept import KeptSnapshot
from service.snapshot.manager import SnapshotManager
from service.snapshot_records import (
    SnapshotDescription,
    SnapshotEnvelope,
    SnapshotFile,
    SnapshotList,
)


async def list_snapshots(request: Request) -> Response:
    """List the kept snapshots, newest first.

    The list changes without a new snapshot, when a build finds the catalogue up to date or removes
    old snapshots, so that no cache may answer it.
    """
    served, snapshots = snapshot_of(request), _manager_of(request)
    kept = list(snapshots.kept)
    if served.id not in [snapshot.id for snapshot in kept]:
        kept.insert(0, snapshots.describe(served))
    return no_store(msgspec.json.encode(SnapshotList(list(map(describe, kept)))))


async def get_current_snapshot(request: Request) -> Response:
    """Describe the snapshot being served."""
    served = snapshot_of(request)
    current = _manager_of(request).describe(served)
    return no_store(msgspec.json.encode(SnapshotEnvelope(describe(current))))


def describe(snapshot: KeptSnapshot) -> SnapshotDescription:
    """Describe a snapshot and the files that the service reads, which a copy of it holds."""
    manifest = snapshot.manifest
    return SnapshotDescription(
        id=snapshot.id,
        built_at=format_timestamp(manifest.built_at),
        checked_at=format_timestamp(snapshot.checked_at),
        counts=manifest.counts,
        files=[
            SnapshotFile(path, file.bytes, file.sha256)
            for path, file in sorted(manifest.served_files.items())
        ],
    )


def _manager_of(request: Request) -> SnapshotManager:
    manager: SnapshotManager = request.app.state.snapshots
    return manager
