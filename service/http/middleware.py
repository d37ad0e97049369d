"""The middleware: pins snapshots, adds common headers, caches, counts and logs."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from itertools import count
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import RatecardError
from service.http.cache import CachedResponse, CacheKey, ResponseCache, is_known
from service.http.compression import IDENTITY, negotiate
from service.http.context import Context
from service.http.exception_handlers import (
    POST_METHODS,
    error_response,
    methods_of,
    path_not_found,
)
from service.http.logs import access_record
from service.http.responses import RESPONSE, SNAPSHOT, Cacheable, RawHeaders, ResponseWriter
from service.snapshot import Snapshot

OWN_HEADERS: RawHeaders = [(b"x-content-type-options", b"nosniff")]
COMMON_HEADERS: RawHeaders = [
    (b"access-control-allow-origin", b"*"),
    (
        b"access-control-expose-headers",
        (
            b"Accept-Ranges, Content-Range, ETag, Ratecard-Fit, Ratecard-Similar, "
            b"Ratecard-Snapshot, Retry-After, X-Request-Id"
        ),
    ),
    *OWN_HEADERS,
]
ALLOWED_HEADERS = "*, Authorization"  # `*` alone does not allow `Authorization`
MCP_HEADERS = "Mcp-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name, Last-Event-Id"
POST_HEADERS = f"{ALLOWED_HEADERS}, Content-Type, {MCP_HEADERS}"
CACHEABLE_METHODS = ("GET", "HEAD")
LARGE_BODY = 2**18
"""Bytes that take milliseconds to compress: in a thread, one body after another."""

_log = logging.getLogger("uvicorn.error")
_harmless_id = re.compile(rb"[\w.:/+=@-]{1,128}")
_pin = re.compile(rb"(?:^|&)snapshot=([^&]*)")


class RequestMiddleware:
    """Pins a snapshot to each request, adds headers to each response, counts and logs both.

    Sends each `Cacheable` response: compressed, from the cache where it is kept, and as 304 to a
    client that has it. Answers OPTIONS, and 500 when the application fails. Opens the first
    snapshot on the first request where no lifespan did, as in an application that is mounted into
    another.
    """

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._context = context
        self._headers = COMMON_HEADERS if context.allows_any_origin else OWN_HEADERS
        self._compressing = asyncio.Lock()
        self._opening: asyncio.Future[None] | None = None
        self._cache, self._swaps = context.new_cache(), 0
        self._numbers = count(1)
        self._prefix = os.urandom(6).hex().encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, context = time.perf_counter(), self._context
        fields = dict(scope["headers"])
        if len(fields) < len(scope["headers"]):
            fields = join_fields(scope["headers"])
        swaps = context.snapshots.swaps  # before the snapshot, which is this one or a later one
        snapshot = context.snapshots.opened or await self._open_first()
        request_id = fields.get(b"x-request-id", b"").strip(b" \t")
        if not _harmless_id.fullmatch(request_id):
            request_id = b"%b-%x" % (self._prefix, next(self._numbers))
        headers = [*self._headers, (b"x-request-id", request_id)]
        if b"upgrade" in fields or b"expect" in fields:
            # The parser may have stopped at the head, and would take a body for the next request.
            headers.append((b"connection", b"close"))
        snapshot_id = b"" if snapshot is None else snapshot.encoded_id
        writer = ResponseWriter(send, headers, snapshot_id)
        scope[SNAPSHOT] = snapshot
        del snapshot  # a download takes it from the scope, since it may outlast many snapshots
        lookup = "none"
        try:
            coding = negotiate(fields.get(b"accept-encoding", b""))
            root = scope.get("root_path", "")
            key = snapshot_id, scope["path"], scope["query_string"], coding, root
            cache = self._cache_since(swaps)
            is_cacheable = scope["method"] in CACHEABLE_METHODS
            response = cache.get(key) if is_cacheable else None
            if response is None:
                await self._call_application(scope, receive, writer, request_id)
                if RESPONSE not in scope:  # the application sent its own
                    return
                response = await self._encode(cache, key, scope.pop(RESPONSE), writer.route)
                lookup = "miss"
            else:
                lookup = "hit"
            status, own_headers, body = 200, response.headers, response.body
            known = fields.get(b"if-none-match")
            if known and is_cacheable and is_known(known, response.etag):
                status, own_headers, body = 304, response.not_modified, b""
            writer.route, writer.status, writer.size = response.route, status, len(body)
            scope[SNAPSHOT] = None  # a client that does not read must not keep it mapped
            headers = [*own_headers, *headers]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        finally:
            # An idle connection keeps its last scope, which must not keep a snapshot mapped.
            scope[SNAPSHOT] = None
            seconds = time.perf_counter() - started
            context.metrics.observe(writer.route, writer.status or 500, lookup, seconds)
            if context.access_log is not None:
                context.access_log.handle(access_record(scope, writer, seconds, request_id))

    def _cache_since(self, swaps: int) -> ResponseCache:
        """Return the cache, a new one after a swap: a repaired snapshot keeps its id."""
        if swaps != self._swaps:
            self._cache, self._swaps = self._context.new_cache(), swaps
        return self._cache

    async def _encode(
        self, cache: ResponseCache, key: CacheKey, response: Cacheable, route: str
    ) -> CachedResponse:
        """Encode a response, a large one in a thread, and cache it."""
        encoded: CachedResponse | None
        if key[3] == IDENTITY or len(response.content) < LARGE_BODY:
            encoded = cache.encode(key, response, route)
        else:
            async with self._compressing:
                encoded = cache.get(key)  # as cached by a request that came before this one
                if encoded is None:
                    encoded = await asyncio.to_thread(cache.encode, key, response, route)
        if response.is_kept:
            cache.add(key, encoded)
        return encoded

    async def _call_application(
        self, scope: Scope, receive: Receive, writer: ResponseWriter, request_id: bytes
    ) -> None:
        """Call the application, or answer in its place: OPTIONS, or 500 when it fails."""
        app, served = self._app, writer.snapshot_id.decode()
        if scope["path"].endswith("\n"):  # which the `$` of a route's pattern would match
            app = error_response(Request(scope), path_not_found())
        elif b"snapshot" in scope["query_string"] and names_other_snapshot(scope, served):
            app = error_response(Request(scope), _pins_removed(served))
        elif scope["method"] == "OPTIONS":
            app = self._options(scope)
        scope.pop("route", None)  # that of an outer application, which metrics would count
        try:
            with self._context.metrics.in_flight.track_inprogress():
                await app(scope, receive, writer.send)
        except Exception:
            _log.exception("request %s failed", request_id.decode())
            if writer.status:  # closing the connection is all that can still end the response
                raise
            error = RatecardError("the service failed; its log has the reason")
            await error_response(Request(scope), error)(scope, receive, writer.send)
        finally:
            if "route" in scope:
                writer.route = scope["route"].path

    def _options(self, scope: Scope) -> Response:
        """Name the methods of a path, and to a preflight what pages of other origins may send."""
        routes = (each for each in scope["app"].routes if each.matches(scope)[0] != Match.NONE)
        route = next(routes, None)
        if route is None:
            return error_response(Request(scope), path_not_found())
        methods = methods_of(route)
        headers = {"allow": methods, "cache-control": "no-store"}
        if self._context.allows_any_origin:
            headers |= {
                "access-control-allow-methods": methods,
                "access-control-allow-headers": (
                    POST_HEADERS if methods == POST_METHODS else ALLOWED_HEADERS
                ),
                "access-control-max-age": "86400",
            }
        return Response(status_code=204, headers=headers)

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


def join_fields(headers: RawHeaders) -> dict[bytes, bytes]:
    """Return the headers of a request by name; repeated ones are one list."""
    fields: dict[bytes, bytes] = {}
    for name, value in headers:
        fields[name] = b"%b,%b" % (fields[name], value) if name in fields else value
    return fields


def names_other_snapshot(scope: Scope, served: str) -> bool:
    """Return whether the query names another snapshot than the served one, by `snapshot`.

    The parameter of earlier releases: an answer from another snapshot than asked for would mislead.
    """
    named = _pin.findall(scope["query_string"])
    return bool(served) and any(unquote_to_bytes(name) != served.encode() for name in named)


def _pins_removed(served: str) -> RatecardError:
    """Return the error of a request that names another snapshot than the one that is served."""
    message = (
        f"answers come from the served snapshot alone, {served}; leave `snapshot` out, and start "
        "again where the header Ratecard-Snapshot changes"
    )
    return RatecardError(message, "snapshot_pins_removed")
