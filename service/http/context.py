"""The context of an application, and the snapshot that a request is answered from."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from service.errors import RatecardError
from service.http.cache import ResponseCache
from service.http.load_shedding import LoadShedder
from service.http.logs import LineHandler
from service.http.metrics import Metrics
from service.http.responses import SNAPSHOT
from service.settings import Settings
from service.snapshot import Snapshot
from service.snapshot.manager import SnapshotManager


class Context(Struct, frozen=True, kw_only=True):
    """Objects that the handlers and the middleware of one application share.

    api_paths: patterns of the routes whose errors are JSON for browsers, too
    allows_any_origin: whether pages of any origin may read responses (CORS)
    """

    settings: Settings
    snapshots: SnapshotManager
    new_cache: Callable[[], ResponseCache]
    metrics: Metrics
    access_log: LineHandler | None
    load_shedder: LoadShedder
    error_page: Callable[[Request, RatecardError], Response] | None
    api_paths: frozenset[str]
    allows_any_origin: bool


def context_of(request: Request) -> Context:
    """Return the context of the application that answers the request."""
    context: Context = request.app.state.context
    return context


def snapshot_of(request: Request) -> Snapshot:
    """Return the snapshot that the request is pinned to; raises SnapshotUnavailable without one."""
    snapshot: Snapshot | None = request.scope.get(SNAPSHOT)
    return context_of(request).snapshots.current() if snapshot is None else snapshot
