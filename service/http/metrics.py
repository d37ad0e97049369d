"""Metrics: plain counters, rendered in the text format of Prometheus."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct, field
from prometheus_client import Metric, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from service.artifacts.manager import SnapshotManager
from service.snapshot import Snapshot

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable of the folder in which the workers of one port share their counters."""
SHARE_INTERVAL = 0.5  # seconds
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds of the buckets of request durations, in seconds."""


class RouteCounts(Struct):
    """Requests of one route that ended in one status, their seconds, and a count per bucket."""

    route: str
    status: int
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))


class ProcessMetrics(Struct):
    """The counters and gauges of one process."""

    requests: list[RouteCounts] = []
    in_flight: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    swaps: int = 0
    refusals: int = 0
    refused: bool = False
    built_at: float = 0.0
    checked_at: float = 0.0


_counts = msgspec.json.Decoder(ProcessMetrics)


class Metrics(Collector):
    """Counts requests in plain integers, since every request pays for it.

    prometheus_client's own counters in its multiprocess mode cost more than a cached response, so
    workers share theirs in files twice a second, in `SHARED_FOLDER`: one for each process and
    application. Several applications of one process are told apart by the order of their creation,
    which is the same in each worker.
    """

    _numbers = itertools.count(1)

    def __init__(self, snapshots: SnapshotManager) -> None:
        self.counts = ProcessMetrics()
        self._snapshots = snapshots
        self._by_outcome: dict[tuple[str, int], RouteCounts] = {}
        folder = os.environ.get(SHARED_FOLDER)
        self._name = f"ratecard-{next(self._numbers)}"
        self._path = Path(folder, f"{self._name}-{os.getpid()}.json") if folder else None

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        counts = self._by_outcome.get((route, status))
        if counts is None:
            counts = self._by_outcome[route, status] = RouteCounts(route, status)
            self.counts.requests.append(counts)
        counts.seconds += seconds
        counts.buckets[bisect_left(BOUNDS, seconds)] += 1

    @asynccontextmanager
    async def share(self) -> AsyncIterator[None]:
        """Write the counters for the other workers, regularly and at the end."""
        if self._path is None:
            yield
            return
        sharing = asyncio.create_task(self._share_regularly(self._path))
        try:
            yield
        finally:
            sharing.cancel()
            await asyncio.wait([sharing])
            self._write(self._path)

    def render(self) -> bytes:
        """Return the metrics of all workers, and the snapshot that this one serves."""
        return generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        yield from _families(self._snapshots.opened, *self._all_counts())

    async def _share_regularly(self, path: Path) -> None:
        while True:
            await asyncio.to_thread(self._write, path)
            await asyncio.sleep(SHARE_INTERVAL)

    def _write(self, path: Path) -> None:
        fresh = path.with_suffix(".new")
        with suppress(OSError):  # a full disk must not stop the service
            fresh.write_bytes(msgspec.json.encode(self._current()))
            fresh.replace(path)

    def _current(self) -> ProcessMetrics:
        counts, snapshots = self.counts, self._snapshots
        counts.swaps, counts.refusals = snapshots.swaps, snapshots.refusals
        counts.refused = snapshots.refusal is not None
        if (snapshot := snapshots.opened) is not None:
            counts.built_at = snapshot.manifest.built_at.timestamp()
            counts.checked_at = snapshots.checked_at(snapshot).timestamp()
        return counts

    def _all_counts(self) -> tuple[list[ProcessMetrics], list[ProcessMetrics]]:
        """Return the counts of all workers that ever ran, and of those that are alive."""
        own = self._current()
        ever, alive = [own], [own]
        if self._path is not None:
            for path in self._path.parent.glob(f"{self._name}-*.json"):
                if path != self._path:
                    counts = _counts.decode(path.read_bytes())
                    ever.append(counts)
                    if Path("/proc", path.stem.rpartition("-")[2]).exists():
                        alive.append(counts)
        return ever, alive


def _families(
    snapshot: Snapshot | None, ever: list[ProcessMetrics], alive: list[ProcessMetrics]
) -> Iterator[Metric]:
    """Sum counters over all workers that ever ran, and gauges over those that are alive."""
    yield from _request_families(each for counts in ever for each in counts.requests)
    for name, documentation, attribute in (
        ("cache_hits", "Responses from the cache.", "cache_hits"),
        ("cache_misses", "Responses that had to be made.", "cache_misses"),
        ("snapshot_swaps", "Snapshots that replaced another one.", "swaps"),
        ("snapshot_refusals", "Snapshots that were refused.", "refusals"),
    ):
        value = sum(getattr(counts, attribute) for counts in ever)
        yield CounterMetricFamily(f"ratecard_{name}", documentation, value=value)
    built_at = min(counts.built_at for counts in alive)
    for name, documentation, value in (
        (
            "requests_in_flight",
            "Requests being answered.",
            sum(counts.in_flight for counts in alive),
        ),
        (
            "snapshot_refused",
            "1 while a worker cannot serve the published snapshot.",
            max(counts.refused for counts in alive),
        ),
        (
            "snapshot_built_timestamp_seconds",
            "Build time of the oldest snapshot being served; 0 without one.",
            built_at,
        ),
        (
            "snapshot_checked_timestamp_seconds",
            "Time of the last build that found the served snapshot up to date.",
            min(counts.checked_at for counts in alive),
        ),
    ):
        yield GaugeMetricFamily(f"ratecard_{name}", documentation, value=value)
    if built_at:
        yield GaugeMetricFamily(
            "ratecard_snapshot_age_seconds",
            "Age of the oldest snapshot being served.",
            value=time.time() - built_at,
        )
    if snapshot is not None:
        served = GaugeMetricFamily(
            "ratecard_snapshot_info",
            "The snapshot served by the worker that answers.",
            labels=["snapshot"],
        )
        served.add_metric([snapshot.id], 1)
        yield served


def _request_families(requests: Iterable[RouteCounts]) -> Iterator[Metric]:
    by_outcome: Counter[tuple[str, str]] = Counter()
    by_route: dict[str, RouteCounts] = {}
    for each in requests:
        by_outcome[each.route, str(each.status)] += sum(each.buckets)
        route = by_route.setdefault(each.route, RouteCounts(each.route, 0))
        route.seconds += each.seconds
        route.buckets = [a + b for a, b in zip(route.buckets, each.buckets, strict=True)]
    answered = CounterMetricFamily(
        "ratecard_requests", "Requests answered.", labels=["route", "status"]
    )
    for outcome, count in by_outcome.items():
        answered.add_metric(outcome, count)
    yield answered
    durations = HistogramMetricFamily(
        "ratecard_request_seconds",
        "Seconds from the head of a request to the last byte of its response.",
        labels=["route"],
    )
    bounds = (*map(str, BOUNDS), "+Inf")
    for name, route in by_route.items():
        cumulative = map(float, itertools.accumulate(route.buckets))
        durations.add_metric([name], [*zip(bounds, cumulative, strict=True)], route.seconds)
    yield durations
