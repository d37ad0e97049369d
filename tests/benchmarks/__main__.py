"""`make bench`: building, searching and serving beside peers, in one run."""

from __future__ import annotations

import argparse
import os

from tests.benchmarks.builds import bench_builds
from tests.benchmarks.pages import bench_pages
from tests.benchmarks.search import PEERS, bench_search
from tests.benchmarks.serving import bench_serving

PARTS = ("pages", "search", "builds", "service")
BUILDS = [10_000, 100_000]
SERVED = [1_000, 100_000]
FULL = 1_000_000


def main() -> None:
    """Run the benchmarks and print their tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS)
    parser.add_argument("--documents", type=int, default=100_000, help="how many to search")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--builds", nargs="*", type=int, help="how many services to build from")
    parser.add_argument("--served", nargs="*", type=int, help="how many services to serve")
    options = parser.parse_args()
    if "pages" in options.parts:
        bench_pages()
    if "search" in options.parts:
        bench_search(options.documents, options.peers)
    if "builds" in options.parts:
        bench_builds(options.builds or [*BUILDS, *([FULL] if os.environ.get("FULL") else [])])
    if "service" in options.parts:
        for count in options.served or SERVED:
            bench_serving(count)


if __name__ == "__main__":
    main()
