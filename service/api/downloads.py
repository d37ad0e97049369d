"""Downloads of snapshots, and the files that replicas copy.

    /v1/snapshots/<id>.jsonl.zst, .tar.zst     the archives, for people and mirrors
    /v1/snapshots/<id>/datapackage.json        their description, by Frictionless Data
    /v1/snapshots/<id>/<archive>               the archives, beside their description
    /v1/snapshots/pointer-<format>.json        the published snapshot, and where its manifest is
    /v1/snapshots/manifests/<sha256>.json      the manifest of a copy
    /v1/snapshots/sections/<sha256>.json       the sections of the files of that manifest
    /v1/snapshots/sections/<sha256>.zst        a section of a file
    /v1/snapshots/patches/<from>-<to>.json     the pieces that make files from those of another copy
    /v1/snapshots/patches/<from>-<to>.zst      their frames

All but the pointer and the description never change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Raw
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp

from service.artifacts.downloads import Download, DownloadRange, Downloads, archive_name, lines_name
from service.errors import DownloadNotFound, DownloadsDisabled
from service.http.context import context_of
from service.http.file_ranges import FileResponse
from service.http.responses import IMMUTABLE, JSON, hashed_json
from service.snapshot.manifest import FORMAT

ZSTD = "application/zstd"
T = TypeVar("T")


async def get_archive(request: Request) -> ASGIApp:
    """Send an archive by its name: the services of a snapshot, one a line, or its copy."""
    snapshot_id, name = request.path_params["id"], request.scope["path"].rpartition("/")[2]
    return _file(request, await _find(request, Downloads.archive, snapshot_id, name), ZSTD)


async def get_package(request: Request) -> ASGIApp:
    """Describe the archives of a snapshot as a data package."""
    download = await _find(request, Downloads.download, request.path_params["id"])
    return hashed_json(_package(download), download.id)


async def get_manifest(request: Request) -> ASGIApp:
    """Send the manifest of a copy."""
    _, range_ = await _find(request, Downloads.manifest, request.path_params["sha256"])
    return _file(request, range_, JSON)


async def get_section_index(request: Request) -> ASGIApp:
    """Send the sections of the files of a copy."""
    download, _ = await _find(request, Downloads.manifest, request.path_params["sha256"])
    return hashed_json(download.section_index, download.id, IMMUTABLE)


async def get_section(request: Request) -> ASGIApp:
    """Send a section of a file, compressed."""
    range_ = await _find(request, Downloads.section, request.path_params["sha256"])
    return _file(request, range_, ZSTD)


async def get_patch_index(request: Request) -> ASGIApp:
    """Send the pieces of the files that changed between two snapshots."""
    download, _ = await _find(request, Downloads.patches, *_ends(request))
    return hashed_json(download.patch_index, download.id, IMMUTABLE)


async def get_patches(request: Request) -> ASGIApp:
    """Send the frames of these pieces."""
    _, range_ = await _find(request, Downloads.patches, *_ends(request))
    return _file(request, range_, ZSTD)


def _ends(request: Request) -> tuple[str, str]:
    base, _, target = request.path_params["ends"].partition("-")
    return base, target


async def get_pointer(request: Request) -> ASGIApp:
    """Name the snapshot that was published last."""
    if request.path_params["format"] != str(FORMAT):
        raise DownloadNotFound(f"this release serves snapshots of format {FORMAT}")
    downloads = await _refresh(request)  # workers that lag would name an earlier one in turn
    publication = await asyncio.to_thread(downloads.newest_publication)
    if publication is None:
        raise DownloadNotFound("no publication has whole downloads here; build again")
    return hashed_json(Raw(publication.content), publication.pointer.id)


async def _find(request: Request, find: Callable[..., T | None], *names: str) -> T:
    """Find a download; raises DownloadNotFound or DownloadsDisabled."""
    found = find(_downloads_of(request), *names)
    if found is None:  # another worker may have named what this one has not seen yet
        found = find(await _refresh(request), *names)
    if found is None:
        raise DownloadNotFound("no kept snapshot has this download")
    return found


async def _refresh(request: Request) -> Downloads:
    """Return the downloads that are in the artifacts folder now."""
    _downloads_of(request)
    await asyncio.to_thread(context_of(request).snapshots.folder.refresh)
    return _downloads_of(request)


def _downloads_of(request: Request) -> Downloads:
    downloads = context_of(request).snapshots.folder.downloads
    if downloads is None:
        raise DownloadsDisabled("downloads are switched off here (RATECARD_DOWNLOADS)")
    return downloads


def _file(request: Request, range_: DownloadRange, media_type: str) -> FileResponse:
    return FileResponse(range_, media_type, IMMUTABLE, context_of(request).transfers)


DOWNLOADS = [
    Route("/v1/snapshots/{id}.jsonl.zst", get_archive),
    Route("/v1/snapshots/{id}.tar.zst", get_archive),
    Route("/v1/snapshots/pointer-{format}.json", get_pointer),
    Route("/v1/snapshots/manifests/{sha256}.json", get_manifest),
    Route("/v1/snapshots/sections/{sha256}.json", get_section_index),
    Route("/v1/snapshots/sections/{sha256}.zst", get_section),
    # Two parameters in a part of a path would take quadratic time: seconds for 60,000 characters.
    Route("/v1/snapshots/patches/{ends}.json", get_patch_index),
    Route("/v1/snapshots/patches/{ends}.zst", get_patches),
    Route("/v1/snapshots/{id}/datapackage.json", get_package),
    # A data package may not name files outside of its folder.
    Route("/v1/snapshots/{id}/{archive}", get_archive),
]


def _package(download: Download) -> dict[str, Any]:
    """Return the descriptor of https://datapackage.org for the archives."""
    described = {
        lines_name(download.id): ("services", "jsonl", "The services, one a line, in order of id"),
        archive_name(download.id): ("snapshot", "tar", "The snapshot, as the service reads it"),
    }
    return {
        "$schema": "https://datapackage.org/profiles/2.0/datapackage.json",
        "name": f"ratecard-{download.id}",
        "id": download.id,
        "resources": [
            {
                "name": name,
                "title": title,
                "path": path,
                "format": kind,
                "compression": "zst",
                "mediatype": ZSTD,
                "bytes": download.archives[path].bytes,
                "hash": f"sha256:{download.archives[path].sha256}",
            }
            for path, (name, kind, title) in described.items()
        ],
    }
