"""The snapshots that are kept: what each holds, and the files that a copy of it has."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.types import Scope

from service.artifacts.folder import KeptSnapshot
from service.http.cache import CachedRoute
from service.http.context import context_of, snapshot_of
from service.http.responses import Cacheable, hashed_json
from service.schema.snapshots import (
    SnapshotDescription,
    SnapshotEnvelope,
    SnapshotFile,
    SnapshotList,
)
from service.schema.values import format_timestamp
from service.snapshot.manifest import File

MAX_LISTED = 100
"""Snapshots that are listed, of some 26 KB each before compression."""


async def list_snapshots(request: Request) -> Cacheable:
    """List the newest kept snapshots, the last publication first."""
    context, served = context_of(request), snapshot_of(request)
    context.load_shedder.check()
    kept = list(context.snapshots.folder.kept.snapshots[:MAX_LISTED])
    if served.id not in [snapshot.id for snapshot in kept]:
        kept.insert(0, context.snapshots.find(served.id, served))
    descriptions = [describe(request, snapshot) for snapshot in kept]
    return hashed_json(SnapshotList(descriptions), "", is_kept=True)


async def get_snapshot(request: Request) -> Cacheable:
    """Describe a kept snapshot, by default the one being served."""
    served = snapshot_of(request)
    snapshot_id = request.path_params.get("id", served.id)
    snapshot = context_of(request).snapshots.find(snapshot_id, served)
    envelope = SnapshotEnvelope(describe(request, snapshot))
    return hashed_json(envelope, snapshot.id, is_kept=True)


def _folder_version(scope: Scope) -> int:
    return context_of(Request(scope)).snapshots.folder.version


SNAPSHOTS = [
    CachedRoute("/v1/snapshots", list_snapshots, edition=_folder_version),
    CachedRoute("/v1/snapshots/current", get_snapshot, edition=_folder_version),
    CachedRoute("/v1/snapshots/{id}", get_snapshot, edition=_folder_version),
]


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
