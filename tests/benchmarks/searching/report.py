"""Tables of search times, by kind of query and beside other engines."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from tests.benchmarks.corpus import MISSPELT, Query

Times = dict[int, float]
"""The seconds of queries by their numbers."""


def report(
    title: str, times: dict[str, Times], queries: Sequence[Query], peers: Sequence[str]
) -> None:
    """Print percentiles of each engine, and its ratios to each peer, for all and by kind."""
    kinds = list(dict.fromkeys(query.kind for query in queries))
    spelt = [kind for kind in kinds if kind != MISSPELT]
    print(f"\n{title}")
    for name, group in (("as asked", kinds), ("whole words and sentences", spelt)):
        _print_percentiles(name, _select(times, queries, group), peers)
    _print_kinds({kind: _select(times, queries, [kind]) for kind in kinds}, peers)


def _select(
    times: dict[str, Times], queries: Sequence[Query], kinds: Sequence[str]
) -> dict[str, Times]:
    """Return the times of the queries of these kinds."""
    return {
        name: {number: seconds[number] for number in seconds if queries[number].kind in kinds}
        for name, seconds in times.items()
    }


def _print_percentiles(title: str, times: dict[str, Times], peers: Sequence[str]) -> None:
    ratios = "".join(f"   ÷ {peer}: p50    p99  slowest    mean" for peer in peers)
    print(f"{title:26}  p50 µs   p99 µs   slowest{ratios}")
    for name, seconds in times.items():
        values = _percentiles(seconds)
        line = f"  {name:24} {''.join(f'{value * 1e6:9,.0f}' for value in values)}"
        for peer in peers:
            theirs = _percentiles(times[peer])
            cells = [ours / other for ours, other in zip(values, theirs, strict=True)]
            cells.append(_mean_ratio(seconds, times[peer]))
            line += " " * (len(peer) - 1) + "".join(f"{cell:8.2f}" for cell in cells)
        print(line)


def _print_kinds(kinds: dict[str, dict[str, Times]], peers: Sequence[str]) -> None:
    """Print a line for each kind: the p50, and the geometric mean of the ratios to each peer."""
    width = max(len(name) for times in kinds.values() for name in times) + 1
    for peer in ("", *peers):
        title = f"÷ {peer}, geometric mean" if peer else "p50 µs by kind"
        names = next(iter(kinds.values()))
        print(f"{title:34} queries {''.join(f'{name:>{width}}' for name in names)}")
        for kind, times in kinds.items():
            cells = [
                f"{_mean_ratio(seconds, times[peer]):{width}.2f}"
                if peer
                else f"{_percentiles(seconds)[0] * 1e6:{width},.0f}"
                for seconds in times.values()
            ]
            print(f"  {kind:32} {len(next(iter(times.values()))):7} {''.join(cells)}")


def _percentiles(seconds: Times) -> tuple[float, float, float]:
    """Return p50, p99 and the maximum."""
    ordered = sorted(seconds.values())
    return ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100], ordered[-1]


def _mean_ratio(ours: Times, theirs: Times) -> float:
    """Return the geometric mean of the ratios of times of the queries that both measured."""
    ratios = [ours[number] / theirs[number] for number in ours.keys() & theirs.keys()]
    return math.exp(statistics.fmean(map(math.log, ratios)))
