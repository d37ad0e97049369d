"""Times of searches for services without endpoints, beside other engines over the same texts."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import asdict

from indexer.build import build_snapshot
from indexer.catalogue_file import name_source
from indexer.options import BuildOptions, RankingOptions
from service.snapshot.snapshot import open_snapshot
from tests.benchmarks.corpus import Document, make_documents
from tests.benchmarks.searching import peers
from tests.benchmarks.searching.peers import Search
from tests.benchmarks.searching.report import report
from tests.benchmarks.searching.worker import Engine, make_workload, measure, measure_in_turns

TANTIVY = "Tantivy"
IN_PROCESS: dict[str, Callable[[list[Document], Path], Search]] = {
    "bm25s": peers.open_bm25s,
    "SQLite": peers.open_sqlite,
    "Whoosh": peers.open_whoosh,
}
"""Peers that are measured once, in this process."""
PEERS = (TANTIVY, *IN_PROCESS)
STEPS = {"Whoosh": 7}
"""Whoosh takes tenths of a second for a query: ask it every seventh, some of each kind."""
BOOSTS = {"name": 2.0, "description": 1.0, "category": 1.0}


def bench_search(count: int, names: Sequence[str]) -> None:
    """Print the times of searches with vectors and by words, beside these peers."""
    documents = make_documents(count)
    workload = make_workload(documents)
    with tempfile.TemporaryDirectory(prefix="ratecard-") as name:
        folder = Path(name)
        source = folder / "services.jsonl"
        write_catalogue(documents, source)
        engines = {}
        for label, is_semantic in (("Ratecard", True), ("by words", False)):
            ranking = RankingOptions(is_semantic)
            options = BuildOptions(
                sources=(name_source(str(source)),), out=folder / label, ranking=ranking
            )
            build_snapshot(options)
            engines[label] = Engine("services", folder / label)
        if TANTIVY in names:
            peers.write_tantivy(map(asdict, documents), BOOSTS, folder / TANTIVY)
            engines[TANTIVY] = Engine(TANTIVY, folder / TANTIVY)
        started = time.perf_counter()
        snapshot = open_snapshot(folder / "Ratecard")
        opened = time.perf_counter() - started
        postings = (snapshot.folder / "index.arrays").stat().st_size
        print(f"\n{count:,} services: open in {opened:.3f} s, index {postings / 1e6:.0f} MB")
        times = measure_in_turns(engines, workload)
        for peer in (peer for peer in names if peer in IN_PROCESS):
            (folder / peer).mkdir()
            search = IN_PROCESS[peer](documents, folder / peer)
            times[peer] = measure(search, workload, STEPS.get(peer, 1))
    report(f"{count:,} services without endpoints", times, workload.measured, names[:1])


def write_catalogue(documents: list[Document], source: Path) -> None:
    """Write a service for each document, in order."""
    with source.open("w") as file:
        for number, document in enumerate(documents):
            record = {"id": f"{number:09}", "endpoints": []} | asdict(document)
            file.write(json.dumps(record) + "\n")
