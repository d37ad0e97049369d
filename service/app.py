"""The application: its routes, middleware and exception handlers."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from service.api.ard import ARD
from service.api.discovery import DISCOVERY
from service.api.documents.llms import get_llms
from service.api.documents.openapi import get_openapi
from service.api.documents.service_openapi import get_service_openapi
from service.api.ecosystem import (
    GetEcosystemOverview,
    GetEcosystemStats,
    GetRecentTransactions,
    get_overview,
    get_stats,
    get_transactions,
)
from service.api.endpoints import SearchEndpoints, search_endpoints
from service.api.listings import (
    ExplainListings,
    FindAlternatives,
    explain_listings,
    find_alternatives,
)
from service.api.routes import OperationRoute
from service.api.services import (
    ListServices,
    SearchServices,
    get_demand,
    get_service,
    list_services,
)
from service.api.snapshots import SNAPSHOTS
from service.api.status import get_health, get_metrics, get_readiness
from service.errors import needs_extra
from service.http.cache import ResponseCache, version_of
from service.http.context import Context
from service.http.exception_handlers import EXCEPTION_HANDLERS
from service.http.load_shedding import LoadShedder
from service.http.logs import STDOUT, LineHandler
from service.http.metrics import Metrics, share_metrics
from service.http.middleware import RequestMiddleware
from service.opensearch import connector_of
from service.settings import Settings, parse_hosts
from service.snapshot import Snapshot
from service.snapshot.manager import SnapshotManager
from service.web.pages import PAGES, error_page

if TYPE_CHECKING:
    from service.mcp.server import McpMount

ROUTES = [  # the most used first: each route before another one costs its requests a microsecond
    OperationRoute("/v1/search/services", list_services, SearchServices),
    OperationRoute("/v1/search/endpoints", search_endpoints, SearchEndpoints),
    OperationRoute("/v1/services", list_services, ListServices),
    OperationRoute("/v1/services/search", list_services, SearchServices),
    Route("/v1/services/{id}", get_service),
    Route("/v1/services/{id}/demand", get_demand),
    Route("/v1/services/{id}/openapi.json", get_service_openapi),
    OperationRoute("/v1/endpoints/alternatives", find_alternatives, FindAlternatives),
    OperationRoute("/v1/listings", explain_listings, ExplainListings),
    OperationRoute("/v1/ecosystem/overview", get_overview, GetEcosystemOverview),
    OperationRoute("/v1/ecosystem/transactions", get_transactions, GetRecentTransactions),
    OperationRoute("/v1/ecosystem/stats", get_stats, GetEcosystemStats),
    *DISCOVERY,
    *ARD,
    Route("/healthz", get_health),
    Route("/readyz", get_readiness),
    Route("/metrics", get_metrics),
    Route("/openapi.json", get_openapi),
    Route("/llms.txt", get_llms),
]

_log = logging.getLogger("uvicorn.error")


def create_app(settings: Settings | None = None, *, allows_any_origin: bool = True) -> Starlette:
    """Create the application, to be served alone or mounted into another one.

    Settings come from the environment unless they are given. The lifespan of a mounted application
    does not run: its first request opens the snapshot then. An application with a CORS policy of
    its own passes `allows_any_origin=False`: responses then have no CORS headers of this one.
    """
    settings = settings or Settings.from_environment()
    metrics = Metrics()
    snapshots = SnapshotManager(Path(settings.artifacts), connector_of(settings), metrics.describe)
    mcp = _mount_mcp(snapshots, settings) if settings.mcp else None
    routes = [*ROUTES, *SNAPSHOTS, *(mcp.routes if mcp else [])]
    context = Context(
        settings=settings,
        snapshots=snapshots,
        new_cache=partial(
            ResponseCache, settings.cache_bytes, settings.max_age, version_of(settings)
        ),
        metrics=metrics,
        access_log=LineHandler(STDOUT) if settings.log_requests else None,
        load_shedder=LoadShedder(settings.max_lag),
        error_page=error_page if settings.page else None,
        api_paths=frozenset(route.path for route in routes),
        allows_any_origin=allows_any_origin,
    )
    app = Starlette(
        routes=[*routes, *(PAGES if settings.page else [])],
        middleware=[Middleware(RequestMiddleware, context)],
        exception_handlers=EXCEPTION_HANDLERS,
        lifespan=lambda _: _run(context),
    )
    app.router.redirect_slashes = False
    app.state.context = context
    return app


def _mount_mcp(snapshots: SnapshotManager, settings: Settings) -> McpMount:
    try:
        from service.mcp.server import McpMount  # noqa: PLC0415  # an optional dependency, of 36 MB
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        raise RuntimeError(needs_extra("RATECARD_MCP", "mcp")) from error
    return McpMount(snapshots, parse_hosts(settings.mcp_hosts))


def served_snapshot(app: Starlette) -> Snapshot:
    """Return the snapshot that an application of `create_app` serves; opens the first one.

    Raises SnapshotUnavailable without one.
    """
    context: Context = app.state.context
    context.snapshots.open()
    context.snapshots.start()
    return context.snapshots.current()


@asynccontextmanager
async def _run(context: Context) -> AsyncIterator[None]:
    """Run what works beside the requests; each part is closed also when another one fails."""
    async with AsyncExitStack() as stack:
        if context.access_log is not None:
            stack.callback(context.access_log.flush)
        await stack.enter_async_context(context.snapshots.run())
        if context.snapshots.opened is None:
            _log.warning("answering 503 until there is a snapshot: %s", context.snapshots.refusal)
        yield


def __getattr__(name: str) -> Starlette:
    """Create `app` for the server that asks for it; importing `create_app` builds nothing."""
    if name != "app":
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    _end_with_supervisor()
    share_metrics()
    app = globals()[name] = create_app()
    # A full garbage collection stops all requests: 60 ms with all modules, 5 ms without them.
    gc.collect()
    gc.freeze()
    return app


def _end_with_supervisor() -> None:
    """Stop this worker when its supervisor is gone: nobody would replace it, or free its port."""
    supervisor = multiprocessing.parent_process()
    if supervisor is None:
        return

    def follow() -> None:
        supervisor.join()
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=follow, daemon=True).start()
