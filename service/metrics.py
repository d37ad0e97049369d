"""Metrics: what an operator watches, in the text format of Prometheus."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that has worker processes count in files of one folder, so that any can tell all."""
disable_created_metrics()  # type: ignore[no-untyped-call]  # a time of creation beside every count
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """The metrics of one application."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "ratecard_requests", "Requests answered.", ["route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "ratecard_request_seconds",
            "Seconds from the head of a request to the last byte of its response.",
            ["route"],
            buckets=SECONDS,
            registry=registry,
        )
        self.in_flight = self.cache_hits = self.cache_misses = 0
        self._told = (0, 0)
        self._hits = Counter(
            "ratecard_cache_hits", "Answers that had been made before.", registry=registry
        )
        self._misses = Counter(
            "ratecard_cache_misses", "Answers that had to be made.", registry=registry
        )
        self._in_flight = Gauge(
            "ratecard_requests_in_flight",
            "Requests being answered.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.swaps = Counter(
            "ratecard_snapshot_swaps", "Snapshots taken into service.", registry=registry
        )
        self.refusals = Counter(
            "ratecard_snapshot_refusals", "Reloads that failed.", registry=registry
        )
        self.refused = Gauge(
            "ratecard_snapshot_refused",
            "1 while a worker cannot serve what is published.",
            registry=registry,
            multiprocess_mode="livemax",
        )
        self.built = Gauge(
            "ratecard_snapshot_built_timestamp_seconds",
            "When the snapshot was built that is served; the oldest of the workers'.",
            registry=registry,
            multiprocess_mode="livemin",
        )
        self._observers: dict[tuple[str, int], tuple[Callable[[], None], Callable[[float], None]]]
        self._observers = {}

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        observers = self._observers.get((route, status))
        if observers is None:
            observers = self._observers[route, status] = (
                self._requests.labels(route, str(status)).inc,
                self._seconds.labels(route).observe,
            )
        count, time_taken = observers
        count()
        time_taken(seconds)

    def sample(self) -> None:
        """Take down what changes too often to be told each time; about twice a second."""
        self._in_flight.set(self.in_flight)
        hits, misses = self._told
        self._told = self.cache_hits, self.cache_misses
        self._hits.inc(self._told[0] - hits)
        self._misses.inc(self._told[1] - misses)

    def text(self, snapshot: str, built_at: float) -> bytes:
        """All metrics of all workers, and the snapshot of the one that is asked.

        `built_at` is in seconds since 1970; without a snapshot its id is empty.
        """
        self.sample()
        registry = self._registry
        folder = os.environ.get(SHARED_FOLDER)
        if folder:
            _forget_the_dead(Path(folder))
            registry = CollectorRegistry()
            MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]  # it has no types
        own = CollectorRegistry()
        if snapshot:
            served = Gauge(
                "ratecard_snapshot_info",
                "The snapshot that is served by the worker that answers.",
                ["snapshot"],
                registry=own,
            )
            served.labels(snapshot).set(1)
            age = Gauge("ratecard_snapshot_age_seconds", "How long ago it was built.", registry=own)
            age.set(time.time() - built_at)
        return generate_latest(registry) + generate_latest(own)


def _forget_the_dead(folder: Path) -> None:
    """Take what workers that are gone had in flight out of the sums."""
    for path in folder.glob("gauge_live*_*.db"):
        process = int(path.stem.rpartition("_")[2])
        if not Path(f"/proc/{process}").exists():
            mark_process_dead(process, str(folder))  # type: ignore[no-untyped-call]  # the same
