"""Benchmarks of pages, search, builds and serving, each compared with other systems."""

from __future__ import annotations

import argparse
import os

from tests.benchmarks.agents import bench_agents
from tests.benchmarks.builds import bench_builds
from tests.benchmarks.downloads import bench_downloads
from tests.benchmarks.endpoints import bench_endpoints
from tests.benchmarks.pages import bench_pages
from tests.benchmarks.rebuilds import bench_rebuilds
from tests.benchmarks.replicas import bench_replicas
from tests.benchmarks.search import PEERS, bench_search
from tests.benchmarks.serving import bench_serving

PARTS = (
    "pages",
    "search",
    "endpoints",
    "builds",
    "rebuilds",
    "replicas",
    "service",
    "agents",
    "downloads",
)
BUILD_COUNTS = [10_000, 100_000]
AGENTS_COUNT = 5_000
SERVED_COUNTS = [1_000, 100_000]
FULL_COUNT = 1_000_000


def main() -> None:
    """Run the benchmarks and print their tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS)
    parser.add_argument("--documents", type=int, default=100_000, help="documents to search")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--builds", nargs="*", type=int, help="catalogue sizes to build")
    parser.add_argument("--rebuilt", type=int, default=100_000, help="services to change")
    parser.add_argument("--followed", type=int, default=100_000, help="services to replicate")
    parser.add_argument("--served", nargs="*", type=int, help="catalogue sizes to serve")
    options = parser.parse_args()
    if "pages" in options.parts:
        bench_pages()
    if "search" in options.parts:
        bench_search(options.documents, options.peers)
    if "endpoints" in options.parts:
        bench_endpoints(options.documents)
    if "builds" in options.parts:
        bench_builds(
            options.builds or [*BUILD_COUNTS, *([FULL_COUNT] if os.environ.get("FULL") else [])]
        )
    if "rebuilds" in options.parts:
        bench_rebuilds(options.rebuilt)
    if "replicas" in options.parts:
        bench_replicas(options.followed)
    if "service" in options.parts:
        for count in options.served or SERVED_COUNTS:
            bench_serving(count)
    if "agents" in options.parts:
        bench_agents(AGENTS_COUNT)
    if "downloads" in options.parts:
        bench_downloads(options.rebuilt)


if __name__ == "__main__":
    main()
