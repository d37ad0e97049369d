"""The middleware: pins snapshots, adds common headers, caches, counts and logs."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from itertools import count
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import RatecardError
from service.http.access_log import access_line
from service.http.cache import CACHEABLE_METHODS, KEY, CachedResponse, CacheKey, is_known
from service.http.compression import IDENTITY, negotiate
from service.http.context import Context
from service.http.exception_handlers import (
    GET_METHODS,
    POST_METHODS,
    error_response,
    path_not_found,
)
from service.http.responses import (
    FIELDS,
    RESPONSE,
    SNAPSHOT,
    Cacheable,
    RawHeaders,
    ResponseWriter,
    path_of,
)
from service.snapshot import Snapshot

READ_FIELDS = frozenset(
    (b"accept-encoding", b"expect", b"if-none-match", b"upgrade", b"x-request-id")
)
OWN_HEADERS: RawHeaders = [(b"x-content-type-options", b"nosniff")]
COMMON_HEADERS: RawHeaders = [
    (b"access-control-allow-origin", b"*"),
    (
        b"access-control-expose-headers",
        b"Accept-Ranges, Content-Range, ETag, Ratecard-Snapshot, Retry-After, X-Request-Id",
    ),
    *OWN_HEADERS,
]
ALLOWED_HEADERS = "*, Authorization"  # `*` alone does not allow `Authorization`
MCP_HEADERS = "Mcp-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name, Last-Event-Id"
POST_HEADERS = f"{ALLOWED_HEADERS}, Content-Type, {MCP_HEADERS}"
LARGE_BODY = 2**18
"""Bytes that take milliseconds to compress: in a thread, one body after another."""

_log = logging.getLogger("uvicorn.error")
_harmless_id = re.compile(rb"[\w.:/+=@-]{1,128}")


class RequestMiddleware:
    """Pins a snapshot to each request, adds headers to each response, counts and logs both.

    Sends each `Cacheable` response: compressed, from the cache where it is kept, and as 304 to a
    client that has it. Answers preflights of any path, and 500 when the application fails. Opens
    the first snapshot on the first request where no lifespan did, as in an application that is
    mounted into another.
    """

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._context = context
        self._headers = COMMON_HEADERS if context.allows_any_origin else OWN_HEADERS
        self._compressing = asyncio.Lock()
        self._opening: asyncio.Future[None] | None = None
        self._swaps = 0
        self._numbers = count(1)
        self._prefix = os.urandom(6).hex().encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        context = self._context
        counts, snapshots = context.metrics.counts, context.snapshots
        fields = scope[FIELDS] = read_fields(scope)
        swaps = snapshots.swaps  # before the snapshot, which is then this one or a later one
        snapshot = snapshots.opened or await self._open_first()
        request_id = self._id_of(fields)
        headers = [*self._headers, (b"x-request-id", request_id)]
        if b"upgrade" in fields or b"expect" in fields:
            # The parser may have stopped at the head, and would take a body for the next request.
            headers.append((b"connection", b"close"))
        snapshot_id = b"" if snapshot is None else snapshot.encoded_id
        writer = ResponseWriter(request_id, headers, snapshot_id, send)
        scope[SNAPSHOT] = snapshot
        del snapshot  # a download takes it from the scope, since it may outlast many snapshots
        counts.in_flight += 1
        try:
            if scope["method"] not in CACHEABLE_METHODS:
                await self._call_application(scope, receive, writer)
                return
            coding = negotiate(fields.get(b"accept-encoding", b""))
            root = scope.get("root_path", "")
            key = snapshot_id, scope["path"], scope["query_string"], coding, root
            response: CachedResponse | Cacheable | None = self._find_cached(key, swaps)
            if response is None:
                scope[KEY] = key
                await self._call_application(scope, receive, writer)
                response = scope.pop(RESPONSE, None)
                if response is None:  # the application sent its own
                    return
            if isinstance(response, Cacheable):
                counts.cache_misses += 1
                response = await self._encode(scope[KEY], response, writer.route, swaps)
            else:
                counts.cache_hits += 1
            status, own_headers, body = 200, response.headers, response.body
            if b"if-none-match" in fields and is_known(scope, response.etag):
                status, own_headers, body = 304, response.not_modified, b""
            writer.route, writer.status, writer.size = response.route, status, len(body)
            headers = [*own_headers, *headers]
            scope[SNAPSHOT] = None  # a client that does not read must not keep it mapped
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        finally:
            # An idle connection keeps its last scope, which must not keep a snapshot mapped.
            scope[SNAPSHOT] = None
            counts.in_flight -= 1
            seconds = time.perf_counter() - started
            context.metrics.observe(writer.route, writer.status or 500, seconds)
            if context.access_log is not None:
                context.access_log.write(access_line(scope, writer, seconds, snapshot_id))

    def _find_cached(self, key: CacheKey, swaps: int) -> CachedResponse | None:
        """Return a cached response. A swap evicts all: a repaired snapshot keeps its id."""
        if swaps != self._swaps:
            self._swaps = swaps
            self._context.cache.clear()
        return self._context.cache.get(key)

    async def _encode(
        self, key: CacheKey, response: Cacheable, route: str, swaps: int
    ) -> CachedResponse:
        """Encode a response, a large one in a thread; cache it if no swap came meanwhile."""
        context, cache = self._context, self._context.cache
        encoded: CachedResponse | None
        if key[3] == IDENTITY or len(response.content) < LARGE_BODY:
            encoded = cache.encode(key, response, route)
        else:
            async with self._compressing:
                encoded = cache.get(key)  # as cached by a request that came before this one
                if encoded is None:
                    encoded = await asyncio.to_thread(cache.encode, key, response, route)
        if response.is_kept and context.snapshots.swaps == swaps:
            cache.add(key, encoded)
        return encoded

    async def _call_application(
        self, scope: Scope, receive: Receive, writer: ResponseWriter
    ) -> None:
        """Call the application, or answer in its place: a preflight, or 500 when it fails."""
        app = self._app
        if scope["method"] == "OPTIONS":
            app = self._options(is_post=path_of(scope) in self._context.post_paths)
        if scope["path"].endswith("\n"):  # which the `$` of a route's pattern would match
            app = error_response(Request(scope), path_not_found())
        elif b"snapshot" in scope["query_string"] and is_pinned(scope, writer.snapshot_id):
            app = error_response(Request(scope), _pins_removed(writer.snapshot_id.decode()))
        scope.pop("route", None)  # that of an outer application, which metrics would count
        try:
            await app(scope, receive, writer.send)
        except Exception:
            _log.exception("request %s failed", writer.request_id.decode())
            if writer.status:  # closing the connection is all that can still end the response
                raise
            error = RatecardError("the service failed; its log has the reason")
            await error_response(Request(scope), error)(scope, receive, writer.send)
        finally:
            if "route" in scope:
                writer.route = scope["route"].path

    def _options(self, *, is_post: bool) -> Response:
        """Name the methods of a path, and to a preflight what pages of other origins may send."""
        methods = POST_METHODS if is_post else GET_METHODS
        headers = {"allow": methods, "cache-control": "no-store"}
        if self._context.allows_any_origin:
            headers |= {
                "access-control-allow-methods": methods,
                "access-control-allow-headers": POST_HEADERS if is_post else ALLOWED_HEADERS,
                "access-control-max-age": "86400",
            }
        return Response(status_code=204, headers=headers)

    def _id_of(self, fields: dict[bytes, bytes]) -> bytes:
        """Return the id that the client or a gateway sent if it is harmless, or else a new one."""
        given = fields.get(b"x-request-id")
        if given and _harmless_id.fullmatch(given):
            return given
        return b"%b-%x" % (self._prefix, next(self._numbers))

    async def _open_first(self) -> Snapshot | None:
        """Open the first snapshot in a thread, once; requests that come meanwhile wait for it."""
        snapshots = self._context.snapshots
        if self._opening is None:
            if snapshots.is_watching:  # a slow disk must not hold requests up
                return None
            snapshots.start()
            self._opening = asyncio.ensure_future(asyncio.to_thread(snapshots.open))
        if not self._opening.done():
            await asyncio.shield(self._opening)
        return snapshots.opened


def read_fields(scope: Scope) -> dict[bytes, bytes]:
    """Return the request headers that this service reads; repeated ones are one list."""
    fields: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in READ_FIELDS:
            stripped = value.strip(b" \t")
            fields[name] = b"%b,%b" % (fields[name], stripped) if name in fields else stripped
    return fields


def is_pinned(scope: Scope, served: bytes) -> bool:
    """Return whether the query names another snapshot than the served one.

    The parameter of earlier releases: an answer from another snapshot than asked for would mislead.
    """
    query = parse_qs(scope["query_string"].decode("utf-8", "replace"), keep_blank_values=True)
    return bool(served) and not {*query.get("snapshot", ())} <= {served.decode()}


def _pins_removed(served: str) -> RatecardError:
    """Return the error of a request that names another snapshot than the one that is served."""
    message = (
        f"answers come from the served snapshot alone, {served}; leave `snapshot` out, and start "
        "again where the header Ratecard-Snapshot changes"
    )
    return RatecardError(message, "snapshot_pins_removed")
