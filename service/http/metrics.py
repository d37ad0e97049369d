"""Metrics: what an operator watches, in the text format of Prometheus."""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct, field
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""The bounds of the buckets that request times are counted in."""


class Requests(Struct):
    """The requests of one route that ended in one status: how many, and how long they took.

    `buckets` has a count for each of `SECONDS`, and one for what took longer.
    """

    route: str
    status: int
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))


class Counts(Struct):
    """What one process counts."""

    requests: list[Requests] = []
    in_flight: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    swaps: int = 0
    refusals: int = 0
    refused: bool = False
    built_at: float = 0.0
    checked_at: float = 0.0


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Counts)


class Metrics:
    """The counts of one process, plain as they change with every request, and of its siblings.

    Processes that serve one port tell each other by files in `folder`, where there is one.
    """

    def __init__(self, folder: str = "") -> None:
        self.counts = Counts()
        self._by_outcome: dict[tuple[str, int], Requests] = {}
        self._path = Path(folder, f"{os.getpid()}.json") if folder else None

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        requests = self._by_outcome.get((route, status))
        if requests is None:
            requests = self._by_outcome[route, status] = Requests(route, status)
            self.counts.requests.append(requests)
        requests.seconds += seconds
        requests.buckets[bisect_left(SECONDS, seconds)] += 1

    def tell(self) -> None:
        """Let the siblings know; to be called about twice a second."""
        if self._path is not None:
            fresh = self._path.with_suffix(".new")
            with suppress(OSError):  # a full disk is no reason not to serve
                fresh.write_bytes(_encoder.encode(self.counts))
                fresh.replace(self._path)

    def text(self, snapshot: str) -> bytes:
        """All metrics of all processes, and the snapshot that this one serves; empty for none."""
        registry = CollectorRegistry()
        registry.register(_Families(snapshot, *self._everything()))
        return generate_latest(registry)

    def _everything(self) -> tuple[list[Counts], list[Counts]]:
        """The counts of all processes, and of those that live."""
        everyone, living = [self.counts], [self.counts]
        if self._path is not None:
            for path in self._path.parent.glob("*.json"):
                if path != self._path:
                    counts = _decoder.decode(path.read_bytes())
                    everyone.append(counts)
                    if Path(f"/proc/{path.stem}").exists():
                        living.append(counts)
        return everyone, living


class _Families(Collector):
    """The metrics as Prometheus knows them: counts of all that ever ran, states of what lives."""

    def __init__(self, snapshot: str, everyone: list[Counts], living: list[Counts]) -> None:
        self._snapshot = snapshot
        self._everyone = everyone
        self._living = living

    def collect(self) -> Iterator[Metric]:
        everyone, living = self._everyone, self._living
        yield from _requests(each for counts in everyone for each in counts.requests)
        for name, what, total in (
            ("cache_hits", "Answers that had been made before.", "cache_hits"),
            ("cache_misses", "Answers that had to be made.", "cache_misses"),
            ("snapshot_swaps", "Snapshots taken into service in place of others.", "swaps"),
            ("snapshot_refusals", "Snapshots that were not taken into service.", "refusals"),
        ):
            value = sum(getattr(counts, total) for counts in everyone)
            yield CounterMetricFamily(f"ratecard_{name}", what, value=value)
        yield GaugeMetricFamily(
            "ratecard_requests_in_flight",
            "Requests being answered.",
            value=sum(counts.in_flight for counts in living),
        )
        yield GaugeMetricFamily(
            "ratecard_snapshot_refused",
            "1 while a process cannot serve what is published.",
            value=max(counts.refused for counts in living),
        )
        built = min(counts.built_at for counts in living)
        yield GaugeMetricFamily(
            "ratecard_snapshot_built_timestamp_seconds",
            "When the oldest snapshot that is served was built; 0 while one serves none.",
            value=built,
        )
        yield GaugeMetricFamily(
            "ratecard_snapshot_checked_timestamp_seconds",
            "When a build last found that what is served is what its sources make.",
            value=min(counts.checked_at for counts in living),
        )
        if built:
            yield GaugeMetricFamily(
                "ratecard_snapshot_age_seconds",
                "How long ago the oldest snapshot that is served was built.",
                value=time.time() - built,
            )
        if self._snapshot:
            served = GaugeMetricFamily(
                "ratecard_snapshot_info",
                "The snapshot that is served by the process that answers.",
                labels=["snapshot"],
            )
            served.add_metric([self._snapshot], 1)
            yield served


def _requests(all_requests: Iterable[Requests]) -> Iterator[Metric]:
    by_outcome: dict[tuple[str, str], int] = {}
    by_route: dict[str, Requests] = {}
    for each in all_requests:
        outcome = each.route, str(each.status)
        by_outcome[outcome] = by_outcome.get(outcome, 0) + sum(each.buckets)
        route = by_route.setdefault(each.route, Requests(each.route, 0))
        route.seconds += each.seconds
        route.buckets = [a + b for a, b in zip(route.buckets, each.buckets, strict=True)]
    answered = CounterMetricFamily(
        "ratecard_requests", "Requests answered.", labels=["route", "status"]
    )
    for outcome, number in by_outcome.items():
        answered.add_metric(outcome, number)
    yield answered
    timed = HistogramMetricFamily(
        "ratecard_request_seconds",
        "Seconds from the head of a request to the last byte of its response.",
        labels=["route"],
    )
    for name, route in by_route.items():
        within, buckets = 0, []
        for bound, number in zip((*map(str, SECONDS), "+Inf"), route.buckets, strict=True):
            within += number
            buckets.append((bound, float(within)))
        timed.add_metric([name], buckets, route.seconds)
    yield timed
