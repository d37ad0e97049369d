"""The snapshots that are kept: what each holds, and the files that a copy of it has."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from service.artifacts.kept import KeptSnapshot
from service.http.context import context_of, snapshot_of
from service.http.responses import no_store
from service.records import format_timestamp
from service.snapshot.manifest import File
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
    served, snapshots = snapshot_of(request), context_of(request).snapshots
    kept = list(snapshots.folder.kept.snapshots)
    if served.id not in [snapshot.id for snapshot in kept]:
        kept.insert(0, snapshots.find(served.id, served))
    described = [describe(request, snapshot) for snapshot in kept]
    return no_store(msgspec.json.encode(SnapshotList(described)))


async def get_current_snapshot(request: Request) -> Response:
    """Describe the snapshot being served."""
    served = snapshot_of(request)
    current = describe(request, context_of(request).snapshots.find(served.id, served))
    return no_store(msgspec.json.encode(SnapshotEnvelope(current)))


def describe(request: Request, snapshot: KeptSnapshot) -> SnapshotDescription:
    """Describe a snapshot: the files that a copy of it holds, and its downloads."""
    manifest = snapshot.manifest
    downloads = context_of(request).snapshots.folder.downloads
    archives: Mapping[str, File] = {}
    if downloads is not None:
        download = downloads.download(snapshot.id)
        archives = {} if download is None else download.archives
    return SnapshotDescription(
        id=snapshot.id,
        built_at=format_timestamp(manifest.built_at),
        checked_at=format_timestamp(snapshot.checked_at),
        counts=manifest.counts,
        files=_list_files(manifest.files),
        downloads=_list_files(archives),
    )


def _list_files(files: Mapping[str, File]) -> list[SnapshotFile]:
    return [SnapshotFile(path, file.bytes, file.sha256) for path, file in sorted(files.items())]
