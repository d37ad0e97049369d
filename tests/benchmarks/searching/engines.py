"""The same catalogue on both engines: loading, size, and searches one after another and at once."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from msgspec import Struct

from indexer.build import build_snapshot
from indexer.catalogue_file import name_source
from indexer.options import BuildOptions, ClusterOptions
from service.conditions import EndpointFilters, Filters
from service.engines.engine import Engine, Search
from service.opensearch.engine import OpenSearch
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.benchmarks.corpus import make_documents, make_queries
from tests.benchmarks.services import write_services
from tests.support.cluster.cluster import missing, run_cluster

SEARCHES = 400
AT_ONCE = (1, 8)
FIRST = 10
LOADING = "load the cluster"
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
        source, out = Path(name) / "services.jsonl", Path(name) / "artifacts"
        write_services(source, documents)
        options = BuildOptions(
            sources=(name_source(str(source)),),
            out=out,
            downloads=False,
            cluster=ClusterOptions({"hosts": cluster.urls}),
        )
        built = build_snapshot(options)
        print(f"\nbuilt in {built.seconds:.1f} s, loaded in {built.stages[LOADING]:.1f} s")
        connector = OpenSearch({"hosts": cluster.urls}, 60, ClusterOptions({}).prefix)
        asyncio.run(_bench_searches(open_snapshot(out), connector, queries))


async def _bench_searches(
    snapshot: Snapshot, connector: OpenSearch, queries: Sequence[str]
) -> None:
    engines: dict[str, Engine] = {
        "embedded": snapshot.embedded,
        "opensearch": connector.connect(snapshot),
    }
    print("\n| search for | engine | at once | a second | p50 (ms) | p99 (ms) | of first ten |")
    print("|---|---|---|---|---|---|---|")
    for kind, ask in (("services", _ask_services), ("endpoints", _ask_endpoints)):
        expected: list[set[int]] = []
        for name, engine in engines.items():
            pages = [{*(await ask(engine, query))[:FIRST]} for query in queries]
            expected = expected or pages
            both = sum(len(a & b) for a, b in zip(expected, pages, strict=True))
            share = both / max(1, sum(map(len, expected)))
            for at_once in AT_ONCE:
                times = await _measure(engine, ask, queries, at_once)
                figures = f"{times.rate:,.0f} | {times.p50:.2f} | {times.p99:.2f}"
                print(f"| {kind} | {name} | {at_once} | {figures} | {share:.1%} |")
    await connector.close()


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
    return (await engine.search_services(Search(query, Filters()))).ordinals


async def _ask_endpoints(engine: Engine, query: str) -> Sequence[int]:
    return (await engine.search_endpoints(Search(query, EndpointFilters()))).ordinals
