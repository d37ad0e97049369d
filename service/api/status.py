"""The state of the process: for supervisors, load balancers and Prometheus."""

from __future__ import annotations

import asyncio

import msgspec
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response

from service.errors import SnapshotUnavailable
from service.http.context import context_of, snapshot_of
from service.http.responses import no_store
from service.schema.status import ErrorBody, Readiness
from service.schema.values import format_timestamp
from service.snapshot.publication import read_sources

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


async def get_health(_: Request) -> Response:
    """Return 200 while the process is up, whatever it serves."""
    return no_store(b'{"status":"ok"}')


async def get_readiness(request: Request) -> Response:
    """Describe the snapshot being served; 503 without one or its engine."""
    snapshots = context_of(request).snapshots
    refusal = snapshots.refusal
    try:
        snapshot = snapshot_of(request)
    except SnapshotUnavailable as error:
        reason = refusal or error
        raise type(reason)(str(reason)) from error
    await snapshot.engine.check()
    manifest = snapshot.manifest
    ready = Readiness(
        status="ready",
        snapshot=snapshot.id,
        counts=manifest.counts,
        built_at=format_timestamp(manifest.built_at),
        checked_at=format_timestamp(snapshots.checked_at(snapshot)),
    )
    if refusal is not None:
        ready.refused = ErrorBody(code=refusal.code, message=str(refusal))
    states = await asyncio.to_thread(read_sources, snapshots.path)
    ready.sources = [each for each in states if each.state != "current"] or UNSET
    return no_store(msgspec.json.encode(ready))


async def get_metrics(request: Request) -> Response:
    """Return the metrics of all workers in the text format of Prometheus."""
    body = await asyncio.to_thread(context_of(request).metrics.render)
    return no_store(body, media_type=PROMETHEUS)
