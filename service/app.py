"""The HTTP service: parse, look up or rank, respond by splicing stored JSON."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from service.api.examples import examples
from service.api.listing import answer_listing
from service.api.llms import introduction
from service.api.openapi import document
from service.api.parameters import listing, overview, search, stats, transactions
from service.errors import Draining, ServiceNotFound, SnapshotUnavailable
from service.http.access_log import RequestLog
from service.http.draining import Drain
from service.http.exception_handlers import REFUSALS
from service.http.front import Front
from service.http.load_shedding import Overload
from service.http.metrics import Metrics
from service.http.responses import from_cache, momentary, tagged
from service.http.serving import Serving
from service.records import ErrorBody, Readiness, format_timestamp
from service.settings import OF_THE_APPLICATION, Settings, settings_from
from service.snapshot.manager import SnapshotManager
from service.snapshot.snapshot import Snapshot
from service.web.pages import ASSETS, PAGES

HEALTH, METRICS = "/healthz", "/metrics"
MAX_ID = 256
UNPINNED = frozenset({HEALTH, METRICS, ASSETS})
PLAIN = b"content-type: text/plain; charset=utf-8\r\n"
PROMETHEUS = b"content-type: text/plain; version=0.0.4; charset=utf-8\r\n"

_log = logging.getLogger("uvicorn.error")


async def list_services(request: Request) -> Response:
    """The catalogue in listing order."""
    asked, key = listing(request.scope["query_string"])
    snapshot = _snapshot(request)
    return from_cache(request, key, lambda: (answer_listing(snapshot, asked), snapshot.name))


async def search_services(request: Request) -> Response:
    """The services that match a query, best first."""
    asked, key = search(request.scope["query_string"])
    snapshot = _snapshot(request)

    def rank() -> tuple[bytes, bytes]:
        request.app.state.overload.check()
        return answer_listing(snapshot, asked), snapshot.name

    return from_cache(request, key, rank)


async def get_service(request: Request) -> Response:
    """One service by its id."""
    service_id = request.scope["path_params"]["id"]
    snapshot = _snapshot(request)

    def fetch() -> tuple[bytes, bytes]:
        ordinal = snapshot.ordinal_of(service_id)
        if ordinal is None:
            shown = service_id if len(service_id) <= MAX_ID else f"{service_id[:MAX_ID]}…"
            raise ServiceNotFound(f"no service has the id `{shown}`; try searching for its name")
        body = b"".join((b'{"service":', snapshot.services.view(ordinal), b"}"))
        return body, snapshot.tag_of(ordinal)

    key = b"service %b" % service_id.encode("utf-8", "surrogatepass")
    return from_cache(request, key, fetch)


async def ecosystem_overview(request: Request) -> Response:
    """The totals of a timeframe."""
    asked, key = overview(request.scope["query_string"])
    snapshot, shape = _snapshot(request), b'{"overview":{"json":%b}}'
    totals = snapshot.ecosystem.overview
    return from_cache(request, key, lambda: (shape % totals(asked.timeframe), snapshot.name))


async def ecosystem_stats(request: Request) -> Response:
    """The series of a timeframe."""
    asked, key = stats(request.scope["query_string"])
    snapshot, shape = _snapshot(request), b'{"stats":{"json":[%b]}}'
    buckets = snapshot.ecosystem.stats
    return from_cache(request, key, lambda: (shape % buckets(asked.timeframe), snapshot.name))


async def recent_transactions(request: Request) -> Response:
    """The newest payments."""
    asked, key = transactions(request.scope["query_string"])
    snapshot = _snapshot(request)

    def page() -> tuple[bytes, bytes]:
        items, more = snapshot.ecosystem.transactions(asked.page, asked.limit)
        shape = b'{"transactions":{"json":{"items":[%b],"page":%d,"hasNextPage":%b}}}'
        return shape % (items, asked.page, b"true" if more else b"false"), snapshot.name

    return from_cache(request, key, page)


async def health(request: Request) -> Response:
    """The process is up, whatever it serves."""
    return momentary(request, b'{"status":"ok"}')


async def readiness(request: Request) -> Response:
    """What is being served, unless the service is about to stop."""
    if request.app.state.drain.active:
        raise Draining("the service stops in a moment; send requests elsewhere")
    snapshot = _snapshot(request)
    published: SnapshotManager = request.app.state.published
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
    snapshot = _snapshot(request) if "serving" in request.scope else None
    counted: Metrics = request.app.state.metrics
    return momentary(request, counted.text(snapshot.id if snapshot else ""), lines=PROMETHEUS)


async def openapi(request: Request) -> Response:
    """The description of this API."""
    root_path, snapshot = request.scope.get("root_path", ""), _snapshot(request)

    def describe() -> tuple[bytes, bytes]:
        return tagged(document(root_path, examples(snapshot)))

    return from_cache(request, repr(("openapi", root_path)).encode(), describe)


async def llms(request: Request) -> Response:
    """How an agent finds and calls a service."""
    counts = _snapshot(request).manifest.counts
    return from_cache(request, b"llms", lambda: tagged(introduction(counts)), PLAIN)


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
    Route("/llms.txt", llms),
]


class Ratecard(Starlette):
    """Starlette behind the front."""

    def build_middleware_stack(self) -> ASGIApp:
        """Starlette's own, which has what the front leaves."""
        state = self.state
        log = RequestLog() if state.settings.log_requests else None
        inner = super().build_middleware_stack()
        routes = ROUTES + PAGES if state.settings.page else ROUTES
        return Front(inner, routes, UNPINNED, state.published, state.metrics, log)


def create_app(settings: Settings | None = None) -> Starlette:
    """The application, to be served alone or mounted into another.

    A mounted application's lifespan does not run, so the snapshot is opened at start when it can
    be, and otherwise by the first request. Without settings the environment has them; those for
    the server that listens are not read here.
    """
    settings = settings or settings_from(names=OF_THE_APPLICATION)
    metrics = Metrics(settings.metrics_folder)
    published = SnapshotManager(settings, metrics)
    drain = Drain(settings.drain)
    app = Ratecard(exception_handlers=REFUSALS, lifespan=_lifespan(published, drain))
    app.router.redirect_slashes = False
    app.state.settings = settings
    app.state.metrics = metrics
    app.state.published = published
    app.state.drain = drain
    app.state.overload = Overload(settings.max_lag)
    return app


def _snapshot(request: Request) -> Snapshot:
    serving: Serving = request.scope["serving"]
    return serving.snapshot


def _lifespan(
    published: SnapshotManager, drain: Drain
) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            published.serving()
        except SnapshotUnavailable as error:
            _log.warning("answering 503 until there is a snapshot: %s", error)
        published.follow()
        drain.put_off_stopping()
        yield
        published.close()

    return lifespan


app = create_app()
