"""Search times in a fresh process.

Run as `python -m tests.benchmarks.searching.worker ENGINE FOLDER QUERIES`: opens what was built in
a folder, and prints the seconds of each query as JSON.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from service.conditions import EndpointFilters, Filters
from service.snapshot.snapshot import open_snapshot
from tests.benchmarks.corpus import Document, Query, make_queries
from tests.benchmarks.searching.peers import PAGE, Search, open_tantivy
from tests.benchmarks.searching.report import Times

QUERIES = 600
ROUNDS = 4
FACETS = ("category", "network")


class Workload(Struct):
    """The queries that are measured, and others that are asked before them."""

    measured: list[Query]
    warm_up: list[Query]


class Engine(NamedTuple):
    """An engine of ENGINES, and the folder that it opens."""

    name: str
    folder: Path


def make_workload(documents: list[Document]) -> Workload:
    """Return the queries of a benchmark, the same in every run."""
    return Workload(
        make_queries(documents, QUERIES, seed=7), make_queries(documents, QUERIES // 4, seed=99)
    )


def measure_in_turns(engines: dict[str, Engine], workload: Workload) -> dict[str, Times]:
    """Return the seconds of each query on each engine: the minimum over ROUNDS fresh processes."""
    folder = next(iter(engines.values())).folder.parent
    queries = folder / "queries.json"
    queries.write_bytes(msgspec.json.encode(workload))
    rounds: dict[str, list[Times]] = {name: [] for name in engines}
    for _ in range(ROUNDS):
        for name, engine in engines.items():
            arguments = [engine.name, str(engine.folder), str(queries)]
            command = [sys.executable, "-m", __spec__.name, *arguments]
            output = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
            rounds[name].append(msgspec.json.decode(output, type=Times))
    return {
        name: {number: min(each[number] for each in seconds) for number in seconds[0]}
        for name, seconds in rounds.items()
    }


def measure(search: Search, workload: Workload) -> Times:
    """Return the seconds of each query."""
    for query in workload.warm_up:
        search(query)
    gc.collect()
    return {number: _time(search, query) for number, query in enumerate(workload.measured)}


def _time(search: Search, query: Query) -> float:
    started = time.perf_counter()
    search(query)
    return time.perf_counter() - started


def open_services(artifacts: Path, counted: Sequence[str] = ()) -> Search:
    """Open the search for services of a snapshot, with exact totals."""
    snapshot = open_snapshot(artifacts)

    def search(query: Query) -> int:
        category = (query.category,) if query.category else ()
        filters = Filters(category=category, facets=tuple(counted))
        return snapshot.search(query.words, PAGE, 0, filters).total

    return search


def open_endpoints(artifacts: Path) -> Search:
    """Open the search for endpoints of a snapshot, with exact totals."""
    snapshot = open_snapshot(artifacts)

    def search(query: Query) -> int:
        filters = EndpointFilters(category=(query.category,) if query.category else ())
        return snapshot.search_endpoints(query.words, PAGE, 0, filters).total

    return search


ENGINES: dict[str, Callable[[Path], Search]] = {
    "services": open_services,
    "services with facets": lambda folder: open_services(folder, FACETS),
    "endpoints": open_endpoints,
    "Tantivy": open_tantivy,
}


def main() -> None:
    """Measure one engine, and print the seconds."""
    _, name, folder, queries = sys.argv
    workload = msgspec.json.decode(Path(queries).read_bytes(), type=Workload)
    seconds = measure(ENGINES[name](Path(folder)), workload)
    sys.stdout.buffer.write(msgspec.json.encode(seconds))


if __name__ == "__main__":
    main()
