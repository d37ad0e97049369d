"""The HTTP service: parse, look up or rank, respond by splicing stored JSON."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec
import orjson
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from service.drain import Drain
from service.errors import Draining, ServiceNotFound, SnapshotUnavailable
from service.metrics import Metrics
from service.observe import Observed
from service.openapi import document
from service.overload import Overload
from service.params import Page, Params
from service.published import Published
from service.records import ErrorBody, Readiness, format_timestamp
from service.refusals import ALLOW, REFUSALS, refuse
from service.responses import Header, cache_control, cacheable, momentary
from service.settings import OF_THE_APPLICATION, Settings, settings_from
from service.snapshot import Hits, Snapshot

HEALTH, METRICS = "/healthz", "/metrics"
MAX_ID = 256
OPTIONS_RESPONSE: tuple[Header, ...] = (
    ALLOW,
    (b"access-control-allow-methods", ALLOW[1]),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-max-age", b"86400"),
)
PROMETHEUS: Header = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")

_log = logging.getLogger("uvicorn.error")


async def list_services(request: Request) -> Response:
    """The catalogue in listing order."""
    params = Params(request.scope["query_string"])
    page, narrowing, whole = params.page(), params.narrowing(), params.with_endpoints()
    hits = _snapshot(request).list(page.limit, page.offset, narrowing)
    return _list(request, hits, page, whole=whole)


async def search_services(request: Request) -> Response:
    """The services that match a query, best first."""
    request.app.state.overload.check()
    params = Params(request.scope["query_string"])
    query, page = params.query(), params.page()
    narrowing, whole = params.narrowing(), params.with_endpoints()
    hits = _snapshot(request).search(query, page.limit, page.offset, narrowing)
    return _list(request, hits, page, whole=whole)


async def get_service(request: Request) -> Response:
    """One service by its id."""
    service_id = request.path_params["id"]
    snapshot = _snapshot(request)
    ordinal = snapshot.ordinal_of(service_id)
    if ordinal is None:
        shown = service_id if len(service_id) <= MAX_ID else f"{service_id[:MAX_ID]}…"
        raise ServiceNotFound(f"no service has the id `{shown}`; try searching for its name")
    body = b'{"service":%b}' % snapshot.services.text(ordinal)
    return cacheable(request, body, snapshot.tag_of(ordinal))


async def ecosystem_overview(request: Request) -> Response:
    """The totals of a timeframe."""
    timeframe = Params(request.scope["query_string"]).timeframe()
    overview = _snapshot(request).ecosystem.overview(timeframe)
    return _of_snapshot(request, b'{"overview":{"json":%b}}' % overview)


async def ecosystem_stats(request: Request) -> Response:
    """The series of a timeframe."""
    timeframe = Params(request.scope["query_string"]).timeframe()
    buckets = _snapshot(request).ecosystem.stats(timeframe)
    return _of_snapshot(request, b'{"stats":{"json":[%b]}}' % buckets)


async def recent_transactions(request: Request) -> Response:
    """The newest payments."""
    params = Params(request.scope["query_string"])
    page, limit = params.integer("page", default=0, minimum=0), params.limit()
    items, more = _snapshot(request).ecosystem.transactions(page, limit)
    shape = b'{"transactions":{"json":{"items":[%b],"page":%d,"hasNextPage":%b}}}'
    return _of_snapshot(request, shape % (items, page, b"true" if more else b"false"))


async def health(request: Request) -> Response:
    """The process is up, whatever it serves."""
    return momentary(request, b'{"status":"ok"}')


async def readiness(request: Request) -> Response:
    """What is being served, unless the service is about to stop."""
    if request.app.state.drain.active:
        raise Draining("the service stops in a moment; send requests elsewhere")
    snapshot = _snapshot(request)
    published: Published = request.app.state.published
    manifest, refusal = snapshot.manifest, published.refusal
    ready = Readiness(
        status="ready",
        snapshot=snapshot.id,
        counts=manifest.counts,
        built_at=format_timestamp(manifest.built_at),
        checked_at=format_timestamp(published.checked_at(snapshot)),
    )
    if refusal is not None:
        ready.refused = ErrorBody(code=refusal.code, message=str(refusal))
    return momentary(request, msgspec.json.encode(ready))


async def metrics(request: Request) -> Response:
    """What an operator watches, for Prometheus."""
    snapshot: Snapshot | None = request.scope.get("snapshot")
    counted: Metrics = request.app.state.metrics
    text = counted.text(
        snapshot.id if snapshot else "",
        snapshot.manifest.built_at.timestamp() if snapshot else 0.0,
    )
    return momentary(request, text, headers=(PROMETHEUS,))


async def openapi(request: Request) -> Response:
    """The description of this API."""
    return cacheable(request, document(request.scope.get("root_path", "")))


ROUTES = [
    Route("/v1/services", list_services),
    Route("/v1/services/search", search_services),
    Route("/v1/search/services", search_services),
    Route("/v1/services/{id}", get_service),
    Route("/v1/ecosystem/overview", ecosystem_overview),
    Route("/v1/ecosystem/transactions", recent_transactions),
    Route("/v1/ecosystem/stats", ecosystem_stats),
    Route(HEALTH, health),
    Route(METRICS, metrics),
    Route("/readyz", readiness),
    Route("/openapi.json", openapi),
]


class Ratecard(Starlette):
    """Starlette, observed from outside its handling of unexpected errors."""

    def build_middleware_stack(self) -> ASGIApp:
        """Starlette's own, within what counts, times and logs."""
        paths: dict[Any, str] = {route.endpoint: route.path for route in ROUTES}
        inner = super().build_middleware_stack()
        log_requests: bool = self.state.settings.log_requests
        return Observed(inner, paths, self.state.metrics, log=log_requests)


def create_app(settings: Settings | None = None) -> Starlette:
    """The application, to be served alone or mounted into another.

    A mounted application's lifespan does not run, so the snapshot is opened at start when it can
    be, and otherwise by the first request. Without settings the environment has them; those for
    the server that listens are not read here.
    """
    settings = settings or settings_from(names=OF_THE_APPLICATION)
    metrics = Metrics()
    published = Published(settings.artifacts, metrics)
    drain = Drain(settings.drain)
    app = Ratecard(
        routes=ROUTES,
        middleware=[Middleware(PinnedSnapshot, published=published)],
        exception_handlers=REFUSALS,
        lifespan=_lifespan(published, drain),
    )
    app.router.redirect_slashes = False
    app.state.settings = settings
    app.state.metrics = metrics
    app.state.published = published
    app.state.drain = drain
    app.state.overload = Overload(settings.max_lag)
    app.state.cache_control = cache_control(settings.max_age)
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
            self._published.follow()
            try:
                scope["snapshot"] = self._published.snapshot()
            except SnapshotUnavailable as error:
                if _route(scope) not in {HEALTH, METRICS}:
                    answer = refuse(Request(scope), error)
            if scope["method"] == "OPTIONS":
                answer = momentary(Request(scope), b"", 204, OPTIONS_RESPONSE)
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
    return _of_snapshot(request, orjson.dumps(envelope))


def _of_snapshot(request: Request, body: bytes) -> Response:
    """An answer that stays the same as long as its snapshot is served."""
    return cacheable(request, body, _snapshot(request).name)


def _lifespan(
    published: Published, drain: Drain
) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            published.snapshot()
        except SnapshotUnavailable as error:
            _log.warning("answering 503 until there is a snapshot: %s", error)
        published.follow()
        drain.put_off_stopping()
        yield
        published.close()

    return lifespan


app = create_app()
