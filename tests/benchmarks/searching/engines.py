"""The same catalogue on both engines: loading, size, and searches one after another and at once."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from msgspec import Struct
from service.snapshot.engine import Engine

from indexer.build import build_snapshot
from indexer.catalogue_file import name_source
from indexer.options import BuildOptions, ClusterOptions
from indexer.report import Report
from service.conditions import EndpointFilters
from service.opensearch.connection import ClusterAddress
from service.opensearch.postings import OpenSearch
from service.snapshot.publication import SNAPSHOTS, read_current
from service.snapshot.snapshot import Snapshot, open_folder, open_snapshot
from tests.benchmarks.corpus import make_documents, make_queries
from tests.benchmarks.services import write_services
from tests.support.cluster.cluster import missing, run_cluster

SEARCHES = 400
AT_ONCE = (1, 8)
FIRST = 10
Ask = Callable[[Engine, str], Awaitable[Sequence[int]]]


class Times(Struct):
    """Searches a second, and the median and the 99th percentile of their times (ms)."""

    rate: float
    p50: float
    p99: float


def bench_engines(count: int) -> None:
    """Print what loading and searching cost on both engines, and whether the results agree."""
    if reason := missing():
        print(f"engines: not measured, this {reason}")
        return
    documents = make_documents(count)
    queries = [each.words for each in make_queries(documents, SEARCHES, seed=1)]
    with tempfile.TemporaryDirectory(prefix="ratecard-") as name, run_cluster() as cluster:
        folder = Path(name)
        source = folder / "services.jsonl"
        write_services(source, documents)
        address = ClusterAddress(cluster.url, timeout=60)
        options = BuildOptions(
            sources=(name_source(str(source)),), out=folder / "own", downloads=False
        )
        own = build_snapshot(options)
        clustered = BuildOptions(
            sources=(name_source(str(source)),),
            out=folder / "cluster",
            downloads=False,
            cluster=ClusterOptions(address),
        )
        loaded = build_snapshot(clustered)
        _print_builds(own, loaded, folder)
        asyncio.run(_bench_searches(folder, address, queries))


def _print_builds(own: Report, loaded: Report, folder: Path) -> None:
    size = sum(path.stat().st_size for path in (folder / "own").glob("**/postings/*"))
    load = loaded.stages["load the cluster"] + loaded.stages["copy the shards"]
    print("\n| engine | build (s) | of it loading (s) | postings (MB) |\n|---|---|---|---|")
    print(f"| embedded | {own.seconds:.1f} | | {size / 1e6:.0f} |")
    print(f"| opensearch | {loaded.seconds:.1f} | {load:.1f} | {loaded.loaded / 1e6:.0f} |")


async def _bench_searches(folder: Path, address: ClusterAddress, queries: Sequence[str]) -> None:
    connector = OpenSearch(address)
    snapshots = {"embedded": open_snapshot(folder / "own"), "opensearch": _open(folder, connector)}
    print("\n| search for | engine | at once | a second | p50 (ms) | p99 (ms) | first ten agree |")
    print("|---|---|---|---|---|---|---|")
    for kind, ask in (("services", _ask_services), ("endpoints", _ask_endpoints)):
        firsts: list[list[list[int]]] = []
        for name, snapshot in snapshots.items():
            pages = [[*await ask(snapshot.engine, query)][:FIRST] for query in queries]
            firsts.append(pages)
            equal = sum(a == b for a, b in zip(firsts[0], pages, strict=True))
            for at_once in AT_ONCE:
                times = await _measure(snapshot.engine, ask, queries, at_once)
                figures = f"{times.rate:,.0f} | {times.p50:.2f} | {times.p99:.2f}"
                print(f"| {kind} | {name} | {at_once} | {figures} | {equal / len(queries):.1%} |")
    await connector.close()


def _open(folder: Path, connector: OpenSearch) -> Snapshot:
    current = read_current(folder / "cluster")
    path = folder / "cluster" / SNAPSHOTS / current.id
    return open_folder(path, current.checked_at, connector)


async def _measure(engine: Engine, ask: Ask, queries: Sequence[str], at_once: int) -> Times:
    times: list[float] = []

    async def search(first: int) -> None:
        for query in queries[first::at_once]:
            started = time.perf_counter()
            await ask(engine, query)
            times.append((time.perf_counter() - started) * 1e3)

    started = time.perf_counter()
    await asyncio.gather(*(search(first) for first in range(at_once)))
    seconds = time.perf_counter() - started
    cuts = statistics.quantiles(times, n=100)
    return Times(len(times) / seconds, cuts[49], cuts[98])


async def _ask_services(engine: Engine, query: str) -> Sequence[int]:
    return (await engine.search(query, 24)).ordinals


async def _ask_endpoints(engine: Engine, query: str) -> Sequence[int]:
    return (await engine.search_endpoints(query, 24, 0, EndpointFilters())).ordinals
