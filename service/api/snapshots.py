"""The served snapshot, the files that others copy, and the paths that these replaced."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from http import HTTPStatus

import msgspec
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from service.artifacts.downloads import ARCHIVE, KINDS, describe, read_downloads
from service.artifacts.publishing import DOWNLOADS
from service.errors import RangeNotSatisfiable, RatecardError
from service.http.cache import is_known
from service.http.context import context_of, snapshot_of
from service.http.responses import IMMUTABLE, NO_CACHE, SNAPSHOT, Cacheable
from service.snapshot.publication import is_snapshot_id

CURRENT = "/v1/snapshots/current"
CHANGES = "/v1/changes"
ZSTD = "application/zstd"
SHORT = "public, max-age=5"


class Download(FileResponse):
    """A file or a range of it; a range that cannot be sent is an error as all others are."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file, whole where the range has another unit than bytes."""
        fields = [
            (name, value)
            for name, value in scope["headers"]
            if name != b"range" or value.lower().startswith(b"bytes=")
        ]

        async def send_file(message: Message) -> None:
            status = message.get("status")
            if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise RangeNotSatisfiable(int(self.headers["content-length"]))
            if status == HTTPStatus.BAD_REQUEST:
                raise RatecardError("the header Range is malformed", "bad_request")
            await send(message)

        await super().__call__({**scope, "headers": fields}, receive, send_file)


async def get_current(request: Request) -> Cacheable:
    """Describe the served snapshot, and the files to copy."""
    snapshots, snapshot = context_of(request).snapshots, snapshot_of(request)
    files = []
    if context_of(request).settings.downloads:
        files = await asyncio.to_thread(read_downloads, snapshots.path, snapshot.id)
    envelope = describe(snapshot.manifest, snapshots.checked_at(snapshot), files)
    body = msgspec.json.encode(envelope)
    etag = hashlib.sha256(body).hexdigest()
    return Cacheable(body, etag=etag, cache_control=SHORT, is_kept=False)


async def get_file(request: Request) -> Response:
    """Send a file that others copy, or a range of it, unless the client has it."""
    context, name = context_of(request), request.scope["path"].rpartition("/")[2]
    if not context.settings.downloads:
        message = "downloads are switched off here (RATECARD_DOWNLOADS)"
        raise RatecardError(message, "downloads_disabled")
    snapshot_id, path = request.path_params["id"], context.snapshots.path / DOWNLOADS / name
    files = []
    if is_snapshot_id(snapshot_id):
        files = await asyncio.to_thread(read_downloads, context.snapshots.path, snapshot_id)
    tags = [f'"{file.sha256}"' for file in files if file.path == name]
    with suppress(FileNotFoundError):  # a build may have removed it meanwhile
        for etag in tags:
            stat = await asyncio.to_thread(path.stat)
            request.scope[SNAPSHOT] = None  # a slow client must not keep an old one mapped
            control = NO_CACHE if name.endswith(ARCHIVE) else IMMUTABLE
            headers = {"cache-control": control, "etag": etag}
            known = ",".join(request.headers.getlist("if-none-match"))
            if is_known(known.encode("latin-1"), etag.encode()):
                return Response(None, HTTPStatus.NOT_MODIFIED, headers)
            return Download(path, headers=headers, media_type=ZSTD, stat_result=stat)
    raise RatecardError("there is no such file", "download_not_found", see=CURRENT)


async def refuse_removed(request: Request) -> None:
    """Name the path that replaced other ones of snapshots, and the changes between these."""
    message = "only the served snapshot and the files to copy have addresses"
    if request.scope["route"].path == CHANGES:
        message = "changes are found by comparing two indexes, which `files` names"
    raise RatecardError(message, "path_removed", see=CURRENT)


SNAPSHOTS = [
    Route(CURRENT, get_current),
    *(Route(f"/v1/snapshots/{{id}}.{kind}", get_file) for kind in reversed(KINDS)),
    Route("/v1/snapshots", refuse_removed),
    Route("/v1/snapshots/{path:path}", refuse_removed),
    Route(CHANGES, refuse_removed),
]
