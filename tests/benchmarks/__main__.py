"""`make bench`: this engine beside its peers, in one run."""

from __future__ import annotations

import argparse

from tests.benchmarks.pages import bench_pages
from tests.benchmarks.search import PEERS, bench_search


def main() -> None:
    """Run the benchmarks and print their tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--documents", type=int, default=100_000, help="how many to search")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    options = parser.parse_args()
    bench_pages()
    bench_search(options.documents, options.peers)


if __name__ == "__main__":
    main()
