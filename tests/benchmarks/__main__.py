"""Benchmarks of search, builds and serving, each compared with other systems."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from tests.benchmarks.builds import bench_builds
from tests.benchmarks.searching.services import bench_endpoints, bench_search
from tests.benchmarks.serving.service import bench_serving

PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "search": lambda options: bench_search(options.documents),
    "endpoints": lambda options: bench_endpoints(options.documents),
    "builds": lambda options: bench_builds(options.builds, options.options.split()),
    "service": lambda options: bench_serving(options.served),
}


def main() -> None:
    """Run the benchmarks and print their tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--documents", type=int, default=100_000, help="documents to search")
    parser.add_argument("--builds", nargs="*", type=int, default=[40_000], help="services to build")
    parser.add_argument("--options", default="--no-semantic", help='of builds, as "--memory 700M"')
    parser.add_argument(
        "--served", nargs="*", type=int, default=[1_000, 100_000], help="catalogue sizes to serve"
    )
    options = parser.parse_args()
    for part, bench in PARTS.items():
        if part in options.parts:
            bench(options)


if __name__ == "__main__":
    main()
