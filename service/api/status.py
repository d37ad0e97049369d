"""The state of the process: for supervisors, load balancers and Prometheus."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response

from service.artifacts.following import Following, read_following
from service.artifacts.sources import read_sources
from service.errors import Draining, SnapshotMissing, SnapshotUnavailable
from service.http.context import context_of, snapshot_of
from service.http.responses import no_store
from service.schema.status import ErrorBody, FollowingState, Readiness
from service.schema.values import format_timestamp

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


async def get_health(_: Request) -> Response:
    """Return 200 while the process is up, whatever it serves."""
    return no_store(b'{"status":"ok"}')


async def get_readiness(request: Request) -> Response:
    """Describe the snapshot being served; 503 without one or its engine, and before stopping."""
    context = context_of(request)
    if context.drain.active:
        raise Draining("the service is about to stop; send requests elsewhere")
    snapshots, follows = context.snapshots, bool(context.settings.follow)
    artifacts, refusal = snapshots.folder.path, snapshots.refusal
    following = await asyncio.to_thread(read_following, artifacts) if follows else None
    try:
        snapshot = snapshot_of(request)
    except SnapshotUnavailable as error:
        reason = refusal or error
        if follows and isinstance(reason, SnapshotMissing):
            raise SnapshotMissing(_nothing_fetched(artifacts, following)) from error
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
    states = await asyncio.to_thread(read_sources, artifacts)
    ready.sources = [each for each in states if each.state != "current"] or UNSET
    if following is not None:
        ready.following = _describe(following)
    return no_store(msgspec.json.encode(ready))


async def get_metrics(request: Request) -> Response:
    """Return the metrics of all workers in the text format of Prometheus."""
    return no_store(context_of(request).metrics.render(), media_type=PROMETHEUS)


def _nothing_fetched(artifacts: Path, following: Following | None) -> str:
    if following is None:
        return f"{artifacts} holds no snapshot, and no follower has written to it; is one running?"
    reason = following.error.message if following.error else "the first one is being fetched"
    return f"no snapshot of {following.origin} was fetched yet: {reason}"


def _describe(following: Following) -> FollowingState:
    published_at, contacted_at = following.published_at, following.contacted_at
    state = FollowingState(
        origin=following.origin,
        snapshot=following.id,
        serial=following.serial,
        seconds_behind=round(following.seconds_behind(datetime.now(UTC)), 3),
        published_at=format_timestamp(published_at) if published_at else None,
        contacted_at=format_timestamp(contacted_at) if contacted_at else None,
    )
    if following.error is not None:
        state.error = ErrorBody(code=following.error.code, message=following.error.message)
    return state
