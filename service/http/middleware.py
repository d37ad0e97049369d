"""The outermost middleware: what every request and every response has."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from itertools import count

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import PathNotFound, RatecardError
from service.http.access_log import AccessLog
from service.http.exception_handlers import METHODS, error_response
from service.http.metrics import Metrics
from service.http.responses import FIELDS, SNAPSHOT
from service.snapshot import Snapshot
from service.snapshot.manager import SnapshotManager

RawHeaders = list[tuple[bytes, bytes]]

READ_FIELDS = frozenset(
    (b"accept-encoding", b"expect", b"if-none-match", b"upgrade", b"x-request-id")
)
COMMON_HEADERS: RawHeaders = [
    (b"access-control-allow-origin", b"*"),
    (
        b"access-control-expose-headers",
        b"ETag, Ratecard-Snapshot, Retry-After, X-Request-Id",
    ),
    (b"x-content-type-options", b"nosniff"),
]
PREFLIGHT = Response(
    status_code=204,
    headers={
        "allow": METHODS,
        "access-control-allow-methods": METHODS,
        "access-control-allow-headers": "*",
        "access-control-max-age": "86400",
        "cache-control": "no-store",
    },
)
NO_ROUTE = "none"

_log = logging.getLogger("uvicorn.error")
_harmless_id = re.compile(rb"[\w.:/+=@-]{1,128}")


class RequestMiddleware:
    """Pins the snapshot of each request, adds the headers of each response, counts and logs both.

    Answers preflights of any path, and 500 when the application fails. Opens the first snapshot on
    the first request where no lifespan did, as in an application that is mounted into another.
    """

    def __init__(
        self, app: ASGIApp, snapshots: SnapshotManager, metrics: Metrics, log: AccessLog | None
    ) -> None:
        self._app = app
        self._snapshots = snapshots
        self._metrics = metrics
        self._log = log
        self._opening: asyncio.Future[None] | None = None
        self._numbers = count(1)
        self._prefix = os.urandom(6).hex().encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        fields = scope[FIELDS] = read_fields(scope)
        request_id = self._id_of(fields)
        headers = [*COMMON_HEADERS, (b"x-request-id", request_id)]
        snapshot = self._snapshots.opened or await self._open_first()
        if snapshot is not None:
            headers.append((b"ratecard-snapshot", snapshot.encoded_id))
        if b"upgrade" in fields or b"expect" in fields:
            # The parser may have stopped at the head, and would take a body for the next request.
            headers.append((b"connection", b"close"))
        scope[SNAPSHOT] = snapshot
        scope.pop("route", None)  # that of a mount
        status = size = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                both = [*message["headers"], *headers]
                message = {"type": "http.response.start", "status": status, "headers": both}
            else:
                size += len(message.get("body", b""))
            await send(message)

        self._metrics.counts.in_flight += 1
        try:
            app = PREFLIGHT if scope["method"] == "OPTIONS" else self._app
            if scope["path"].endswith("\n"):  # which the `$` of a route's pattern would match
                app = error_response(Request(scope), PathNotFound())
            await app(scope, receive, send_with_headers)
        except Exception:
            _log.exception("request %s failed", request_id.decode())
            if status:  # closing the connection is all that can still end the response
                raise
            error = RatecardError("the service failed; its log has the reason")
            await error_response(Request(scope), error)(scope, receive, send_with_headers)
        finally:
            self._metrics.counts.in_flight -= 1
            # An idle connection keeps its last scope, which must not keep a snapshot mapped.
            scope[SNAPSHOT] = None
            route = scope["route"].path if "route" in scope else NO_ROUTE
            seconds = time.perf_counter() - started
            self._metrics.observe(route, status or 500, seconds)
            if self._log is not None:
                snapshot_id = snapshot.id if snapshot else ""
                self._log.write(scope, request_id, route, status, size, seconds, snapshot_id)

    def _id_of(self, fields: dict[bytes, bytes]) -> bytes:
        """Return the id that the client or a gateway sent if it is harmless, or else a new one."""
        given = fields.get(b"x-request-id", b"")
        if _harmless_id.fullmatch(given):
            return given
        return b"%b-%x" % (self._prefix, next(self._numbers))

    async def _open_first(self) -> Snapshot | None:
        """Open the first snapshot in a thread, once; requests that come meanwhile wait for it."""
        if self._opening is None:
            self._snapshots.start()
            self._opening = asyncio.ensure_future(asyncio.to_thread(self._snapshots.open))
        if not self._opening.done():
            await asyncio.shield(self._opening)
        return self._snapshots.opened


def read_fields(scope: Scope) -> dict[bytes, bytes]:
    """Return the request headers that this service reads; repeated ones are one list."""
    fields: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in READ_FIELDS:
            stripped = value.strip(b" \t")
            fields[name] = b"%b,%b" % (fields[name], stripped) if name in fields else stripped
    return fields
