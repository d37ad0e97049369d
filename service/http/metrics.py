"""Metrics for Prometheus, of one process or of all workers."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import IO

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    generate_latest,
    values,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from service.settings import SHARED_FOLDER
from service.snapshot.manager import SnapshotManager

PREFIX = "ratecard_"
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds of the buckets of request durations, in seconds."""
_slot: IO[bytes] | None = None


class Metrics(Collector):
    """The metrics of one application, in a registry of its own."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._seconds = Histogram(
            f"{PREFIX}request_seconds",
            "Seconds from the head of a request to the last byte of its response.",
            ["route", "status", "cache"],
            buckets=BOUNDS,
            registry=registry,
        )
        self._children: dict[tuple[str, int, str], Histogram] = {}
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self.in_flight = gauge(
            f"{PREFIX}requests_in_flight",
            "Requests that the application is answering.",
            multiprocess_mode="livesum",
        )
        self._swaps = counter(f"{PREFIX}snapshot_swaps", "Snapshots that replaced another one.")
        self._refusals = counter(f"{PREFIX}snapshot_refusals", "Snapshots that were refused.")
        self._refused = gauge(
            f"{PREFIX}snapshot_refused",
            "1 while a worker cannot serve the published snapshot.",
            multiprocess_mode="livemax",
        )
        self._built_at = gauge(
            f"{PREFIX}snapshot_built_timestamp_seconds",
            "Build time of the oldest snapshot being served; 0 without one.",
            multiprocess_mode="livemin",
        )
        self._checked_at = gauge(
            f"{PREFIX}snapshot_checked_timestamp_seconds",
            "Time of the last build that found the served snapshot up to date.",
            multiprocess_mode="livemin",
        )
        self._counted = 0, 0

    def observe(self, route: str, status: int, cache: str, seconds: float) -> None:
        """Count one request; `cache` is `hit`, `miss` or `none`."""
        child = self._children.get((route, status, cache))
        if child is None:
            child = self._seconds.labels(route, status, cache)
            self._children[route, status, cache] = child
        child.observe(seconds)

    def describe(self, snapshots: SnapshotManager) -> None:
        """Take over the state of the snapshots, after each look of their manager."""
        swaps, refusals = self._counted
        self._counted = snapshots.swaps, snapshots.refusals
        self._swaps.inc(snapshots.swaps - swaps)
        self._refusals.inc(snapshots.refusals - refusals)
        self._refused.set(snapshots.refusal is not None)
        if (snapshot := snapshots.opened) is not None:
            self._built_at.set(snapshot.manifest.built_at.timestamp())
            self._checked_at.set(snapshots.checked_at(snapshot).timestamp())

    def render(self) -> bytes:
        """Return the metrics of all workers in the text format of Prometheus."""
        return generate_latest(self)

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of all workers, without those of an embedding application."""
        collector: Collector | CollectorRegistry = self._registry
        folder = os.environ.get(SHARED_FOLDER, "")
        if folder and Path(folder).is_dir():  # it may have been removed as a temporary one
            _forget_ended_workers(Path(folder))
            collector = MultiProcessCollector(None)
        return (metric for metric in collector.collect() if metric.name.startswith(PREFIX))


def share_metrics() -> None:
    """Take a slot of the shared folder, if there is one, before this process makes an application.

    prometheus_client names the files of a worker by its process id, so that each worker that ever
    ran leaves some. A slot is a number whose lock a living worker holds: the next one that takes
    it counts on in the same files.
    """
    global _slot  # noqa: PLW0603  # the lock lasts as long as the process
    values.ValueClass = values.MutexValue  # it was chosen at the import, by an earlier variable
    if folder := os.environ.get(SHARED_FOLDER):
        Path(folder).mkdir(parents=True, exist_ok=True)
        slots = (_take(Path(folder, f"{number}.slot")) for number in count())
        _slot = next(filter(None, slots))
        number = Path(_slot.name).stem
        mark_process_dead(number)
        values.ValueClass = values.MultiProcessValue(lambda: number)


def _forget_ended_workers(folder: Path) -> None:
    """Remove the gauges of slots that no worker holds; their counters stay."""
    for path in folder.glob("*.slot"):
        if lock := _take(path):
            with lock:
                mark_process_dead(path.stem)


def _take(path: Path) -> IO[bytes] | None:
    """Lock a slot; return None where a worker holds the lock."""
    file = path.open("wb")
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file
    file.close()
    return None
