"""Search times compared with other engines, over the same documents and queries."""

from __future__ import annotations

import gc
import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from indexer.build import build_snapshot
from indexer.options import BuildOptions, EncoderKind, Ranking
from service.filtering.filters import Filters
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.benchmarks.corpus import Document, Query, make_documents, make_queries
from tests.benchmarks.searching import peers
from tests.benchmarks.searching.peers import Search

PEERS: dict[str, Callable[[list[Document], Path], Search]] = {
    "Tantivy": peers.open_tantivy,
    "bm25s": peers.open_bm25s,
    "SQLite": peers.open_sqlite,
    "Whoosh": peers.open_whoosh,
}
QUERIES = 300
# Whoosh takes tenths of a second for a query: run every fifth query only.
STEPS = {"Whoosh": 5}
OURS = "Ratecard"


def bench_search(count: int, names: list[str]) -> None:
    """Print the times of each engine, and the ratio of ours to each."""
    documents = make_documents(count)
    with tempfile.TemporaryDirectory(prefix="ratecard-") as folder:
        artifacts = Path(folder) / "artifacts"
        source = Path(folder) / "services.jsonl"
        build_catalogue(documents, source, artifacts)
        lexical = Path(folder) / "lexical"
        build_snapshot(
            BuildOptions(sources=(str(source),), out=lexical, ranking=Ranking(EncoderKind.NONE))
        )
        started = time.perf_counter()
        snapshot = open_snapshot(artifacts)
        opened = time.perf_counter() - started
        snapshot_folder = artifacts / "snapshots" / snapshot.id
        size = sum(path.stat().st_size for path in (snapshot_folder / "postings").iterdir())
        print(f"\n{count:,} documents: open in {opened:.3f} s, postings {size / 1e6:.0f} MB")

        def search_of(snapshot: Snapshot) -> Search:
            def search(query: Query) -> int:
                filters = Filters({"category": [query.category]} if query.category else {})
                return snapshot.search(query.words, peers.PAGE, 0, filters).total

            return search

        engines = {OURS: search_of(snapshot), "by words": search_of(open_snapshot(lexical))}
        for name in names:
            engine_folder = Path(folder) / name
            engine_folder.mkdir()
            engines[name] = PEERS[name](documents, engine_folder)
        report({name: measure(name, engines[name], documents) for name in engines})


def build_catalogue(documents: list[Document], source: Path, artifacts: Path) -> None:
    """Build a catalogue with a service for each document, in order."""
    with source.open("w") as file:
        for number, document in enumerate(documents):
            record = {
                "id": f"{number:09}",
                "name": document.name,
                "description": document.description,
                "category": document.category,
                "endpoints": [],
            }
            file.write(json.dumps(record) + "\n")
    build_snapshot(BuildOptions(sources=(str(source),), out=artifacts))


def measure(name: str, search: Search, documents: list[Document]) -> dict[int, float]:
    """Return the seconds of each query by its number, after a warm-up with other queries."""
    step = STEPS.get(name, 1)
    for query in make_queries(documents, QUERIES // 2, seed=99)[:: step**2]:
        search(query)
    gc.collect()
    times = {}
    for number, query in list(enumerate(make_queries(documents, QUERIES, seed=7)))[::step]:
        started = time.perf_counter()
        search(query)
        times[number] = time.perf_counter() - started
    return times


def report(times: dict[str, dict[int, float]]) -> None:
    """Print a table: percentiles in microseconds, and the ratio of our time to each peer's."""
    print("              p50 µs    p99 µs   ours / theirs: mean   worst   p99")
    ours = times[OURS]
    for name, seconds in times.items():
        line = f"{name:10} {_percentile(seconds, 50):9.0f} {_percentile(seconds, 99):9.0f}"
        if name != OURS:
            ratios = [ours[number] / theirs for number, theirs in seconds.items()]
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            tails = _percentile(ours, 99) / _percentile(seconds, 99)
            line += f"   {mean:18.4f} {max(ratios):7.2f} {tails:6.2f}"
        print(line)


def _percentile(seconds: dict[int, float], percent: int) -> float:
    """Return a percentile in microseconds."""
    ordered = sorted(seconds.values())
    return ordered[min(len(ordered) * percent // 100, len(ordered) - 1)] * 1e6
