"""Benchmarks of search, builds and serving, each compared with other systems."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

from tests.benchmarks.copies import bench_copies
from tests.benchmarks.indexing.builds import bench_builds
from tests.benchmarks.indexing.memory import bench_memory
from tests.benchmarks.indexing.rebuilds import bench_rebuilds
from tests.benchmarks.searching.endpoints import bench_endpoints
from tests.benchmarks.searching.engines import bench_engines
from tests.benchmarks.searching.services import PEERS, bench_search
from tests.benchmarks.searching.stuffing import bench_stuffing
from tests.benchmarks.serving.agents import bench_agents
from tests.benchmarks.serving.service import bench_serving

BUILD_COUNTS = [10_000, 100_000]
AGENTS_COUNT = 5_000
SERVED_COUNTS = [1_000, 100_000]
FULL_COUNT = 1_000_000


def bench_full_builds(counts: list[int] | None) -> None:
    """Build catalogues of these sizes, or of the usual ones."""
    full = [FULL_COUNT] if os.environ.get("FULL") else []
    bench_builds(counts or [*BUILD_COUNTS, *full])


def bench_services(counts: list[int] | None) -> None:
    """Serve catalogues of these sizes, or of the usual ones."""
    for count in counts or SERVED_COUNTS:
        bench_serving(count)


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "search": lambda options: bench_search(options.documents, options.peers),
    "endpoints": lambda options: bench_endpoints(options.documents),
    "stuffing": lambda options: bench_stuffing(options.set),
    "engines": lambda options: bench_engines(options.documents),
    "builds": lambda options: bench_full_builds(options.builds),
    "rebuilds": lambda options: bench_rebuilds(options.rebuilt),
    "memory": lambda options: bench_memory(options.rebuilt),
    "copies": lambda options: bench_copies(options.rebuilt),
    "service": lambda options: bench_services(options.served),
    "agents": lambda _: bench_agents(AGENTS_COUNT),
}


def main() -> None:
    """Run the benchmarks and print their tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--documents", type=int, default=100_000, help="documents to search")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--set", action="append", default=[], help="parameters of `stuffing`")
    parser.add_argument("--builds", nargs="*", type=int, help="catalogue sizes to build")
    parser.add_argument("--rebuilt", type=int, default=40_000, help="services to change")
    parser.add_argument("--served", nargs="*", type=int, help="catalogue sizes to serve")
    options = parser.parse_args()
    for part, bench in PARTS.items():
        if part in options.parts:
            bench(options)


if __name__ == "__main__":
    main()
