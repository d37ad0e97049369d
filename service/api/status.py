"""The state of the process: for supervisors, load balancers and Prometheus."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from service.errors import Draining
from service.http.responses import no_store, snapshot_of
from service.records import ErrorBody, Readiness, format_timestamp
from service.snapshot.manager import SnapshotManager

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


async def get_health(_: Request) -> Response:
    """Return 200 while the process is up, whatever it serves."""
    return no_store(b'{"status":"ok"}')


async def get_readiness(request: Request) -> Response:
    """Describe the snapshot being served; 503 without one, and before stopping."""
    if request.app.state.drain.active:
        raise Draining("the service is about to stop; send requests elsewhere")
    snapshot = snapshot_of(request)
    snapshots: SnapshotManager = request.app.state.snapshots
    manifest, refusal = snapshot.manifest, snapshots.refusal
    ready = Readiness(
        status="ready",
        snapshot=snapshot.id,
        counts=manifest.counts,
        built_at=format_timestamp(manifest.built_at),
        checked_at=format_timestamp(snapshots.checked_at(snapshot)),
    )
    if refusal is not None:
        ready.refused = ErrorBody(code=refusal.code, message=str(refusal))
    return no_store(msgspec.json.encode(ready))


async def get_metrics(request: Request) -> Response:
    """Return the metrics of all workers in the text format of Prometheus."""
    return no_store(request.app.state.metrics.render(), media_type=PROMETHEUS)
