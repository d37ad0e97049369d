"""The HTTP service: parse, look up or rank, respond by splicing stored JSON."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import cast

import msgspec
import orjson
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import (
    InvalidParameter,
    MethodNotAllowed,
    PathNotFound,
    RatecardError,
    ServiceNotFound,
    SnapshotUnavailable,
)
from service.openapi import document
from service.params import Page, Params
from service.published import Published
from service.records import ErrorBody, ErrorEnvelope, Readiness, format_timestamp
from service.settings import Settings, settings_from
from service.snapshot import Hits, Snapshot

HEALTH = "/healthz"
MAX_ID = 256
METHODS = "GET, HEAD, OPTIONS"
EVERY_RESPONSE = {
    "access-control-allow-origin": "*",
    "access-control-expose-headers": "Ratecard-Snapshot, Retry-After",
    "x-content-type-options": "nosniff",
}
OPTIONS_RESPONSE = {
    "allow": METHODS,
    "access-control-allow-methods": METHODS,
    "access-control-allow-headers": "*",
    "access-control-max-age": "86400",
}

_log = logging.getLogger("uvicorn.error")


async def list_services(request: Request) -> Response:
    """The catalogue in listing order."""
    params = Params(request.scope["query_string"])
    page, narrowing, whole = params.page(), params.narrowing(), params.with_endpoints()
    hits = _snapshot(request).list(page.limit, page.offset, narrowing)
    return _list(request, hits, page, whole=whole)


async def search_services(request: Request) -> Response:
    """The services that match a query, best first."""
    params = Params(request.scope["query_string"])
    query, page = params.query(), params.page()
    narrowing, whole = params.narrowing(), params.with_endpoints()
    hits = _snapshot(request).search(query, page.limit, page.offset, narrowing)
    return _list(request, hits, page, whole=whole)


async def get_service(request: Request) -> Response:
    """One service by its id."""
    service_id = request.path_params["id"]
    service = _snapshot(request).find(service_id)
    if service is None:
        shown = service_id if len(service_id) <= MAX_ID else f"{service_id[:MAX_ID]}…"
        raise ServiceNotFound(f"no service has the id `{shown}`; try searching for its name")
    return _json(request, b'{"service":%b}' % service)


async def ecosystem_overview(request: Request) -> Response:
    """The totals of a timeframe."""
    timeframe = Params(request.scope["query_string"]).timeframe()
    overview = _snapshot(request).ecosystem.overview(timeframe)
    return _json(request, b'{"overview":{"json":%b}}' % overview)


async def ecosystem_stats(request: Request) -> Response:
    """The series of a timeframe."""
    timeframe = Params(request.scope["query_string"]).timeframe()
    buckets = _snapshot(request).ecosystem.stats(timeframe)
    return _json(request, b'{"stats":{"json":[%b]}}' % buckets)


async def recent_transactions(request: Request) -> Response:
    """The newest payments."""
    params = Params(request.scope["query_string"])
    page, limit = params.integer("page", default=0, minimum=0), params.limit()
    items, more = _snapshot(request).ecosystem.transactions(page, limit)
    shape = b'{"transactions":{"json":{"items":[%b],"page":%d,"hasNextPage":%b}}}'
    return _json(request, shape % (items, page, b"true" if more else b"false"))


async def health(request: Request) -> Response:
    """The process is up, whatever it serves."""
    return _json(request, b'{"status":"ok"}')


async def readiness(request: Request) -> Response:
    """What is being served."""
    snapshot = _snapshot(request)
    published: Published = request.app.state.published
    manifest = snapshot.manifest
    ready = Readiness(
        status="ready",
        snapshot=snapshot.id,
        counts=manifest.counts,
        built_at=format_timestamp(manifest.built_at),
        checked_at=format_timestamp(published.checked_at(snapshot)),
    )
    return _json(request, msgspec.json.encode(ready))


async def openapi(request: Request) -> Response:
    """The description of this API."""
    return _json(request, document(request.scope.get("root_path", "")))


ROUTES = [
    Route("/v1/services", list_services),
    Route("/v1/services/search", search_services),
    Route("/v1/search/services", search_services),
    Route("/v1/services/{id}", get_service),
    Route("/v1/ecosystem/overview", ecosystem_overview),
    Route("/v1/ecosystem/transactions", recent_transactions),
    Route("/v1/ecosystem/stats", ecosystem_stats),
    Route(HEALTH, health),
    Route("/readyz", readiness),
    Route("/openapi.json", openapi),
]


def create_app(settings: Settings | None = None) -> Starlette:
    """The application, to be served alone or mounted into another.

    A mounted application's lifespan does not run, so the snapshot is opened at start when it can
    be, and otherwise by the first request. Without settings the environment names the artifacts;
    the other variables are for the server that listens, and not read here.
    """
    published = Published((settings or settings_from(names=("artifacts",))).artifacts)
    app = Starlette(
        routes=ROUTES,
        middleware=[Middleware(PinnedSnapshot, published=published)],
        exception_handlers={
            404: _path_not_found,
            405: _method_not_allowed,
            RatecardError: _refused,
            Exception: _internal_error,
        },
        lifespan=_lifespan(published),
    )
    app.router.redirect_slashes = False
    app.state.published = published
    return app


class PinnedSnapshot:
    """Answers each request from one snapshot, and with 503 while there is none."""

    def __init__(self, app: ASGIApp, published: Published) -> None:
        self._app = app
        self._published = published

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the request with its snapshot, or refuse it."""
        answer = self._app
        if scope["type"] == "http":
            try:
                scope["snapshot"] = self._published.snapshot()
            except SnapshotUnavailable as error:
                if _route(scope) != HEALTH:
                    answer = _error(Request(scope), error, {"retry-after": "5"})
            if scope["method"] == "OPTIONS":
                answer = _response(Request(scope), b"", 204, OPTIONS_RESPONSE)
        await answer(scope, receive, send)


def _route(scope: Scope) -> str:
    """The path within this application; a server may or may not put its prefix before it."""
    path: str = scope["path"]
    prefix = scope.get("root_path", "")
    return path.removeprefix(prefix) if path.startswith(f"{prefix}/") else path


def _snapshot(request: Request) -> Snapshot:
    snapshot: Snapshot = request.scope["snapshot"]
    return snapshot


def _list(request: Request, hits: Hits, page: Page, *, whole: bool) -> Response:
    snapshot = _snapshot(request)
    store = snapshot.services if whole else snapshot.summaries
    envelope = {
        "services": [orjson.Fragment(text) for text in store.run(hits.ordinals)],
        "total": hits.total,
        "limit": page.limit,
        "offset": orjson.Fragment(b"%d" % page.offset),  # may exceed the 64 bits of orjson
    }
    if hits.facets is not None:
        envelope["facets"] = hits.facets
    return _json(request, orjson.dumps(envelope))


def _json(request: Request, body: bytes) -> Response:
    return _response(request, body, 200, {"content-type": "application/json"})


def _response(request: Request, body: bytes, status: int, headers: dict[str, str]) -> Response:
    headers = EVERY_RESPONSE | headers
    if "snapshot" in request.scope:
        headers["ratecard-snapshot"] = _snapshot(request).id
    return Response(body, status, headers)


def _error(
    request: Request, error: RatecardError, headers: dict[str, str] | None = None
) -> Response:
    message = str(error).encode("utf-8", "replace").decode()  # it may quote what is no Unicode
    body = ErrorBody(code=error.code, message=message)
    if isinstance(error, InvalidParameter):
        body.parameter = error.parameter
    return _response(
        request,
        msgspec.json.encode(ErrorEnvelope(body)),
        error.status,
        {"content-type": "application/json"} | (headers or {}),
    )


async def _refused(request: Request, error: Exception) -> Response:
    return _error(request, cast("RatecardError", error))


async def _path_not_found(request: Request, _: Exception) -> Response:
    return _error(request, PathNotFound("nothing answers at this path; see /openapi.json"))


async def _method_not_allowed(request: Request, _: Exception) -> Response:
    error = MethodNotAllowed(f"{request.method} is not answered here; use {METHODS}")
    return _error(request, error, {"allow": METHODS})


async def _internal_error(request: Request, _: Exception) -> Response:
    return _error(request, RatecardError("the service failed to answer; its log says why"))


def _lifespan(published: Published) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            published.snapshot()
        except SnapshotUnavailable as error:
            _log.warning("answering 503 until there is a snapshot: %s", error)
        yield

    return lifespan


app = create_app()
