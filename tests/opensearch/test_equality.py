"""Both engines find the same: totals, facets, sorted pages; and rank about as well."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from indexer.__main__ import main
from indexer.relevance import discounted_gain
from service.conditions import (
    ENDPOINT_FACETS,
    SERVICE_FACETS,
    EndpointFilters,
    Filters,
    ResourceFilters,
)
from service.engines.engine import Answer, Search
from service.opensearch.engine import ClusterEngine, OpenSearch
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.opensearch.conftest import options_of
from tests.support.cluster.cluster import Cluster
from tests.support.running import SEEDS, SHARED, SOAK, Json, endpoint, service, write_lines
from tests.support.sources.x402 import accept, resource

RELEVANCE = SHARED / "relevance"
REQUESTS = 600 if SOAK else 80
WORDS = ["tides", "weather", "harbour", "reliable", "price", "gold", "data"]
LEAST = -0.03
"""The nDCG@10 of the cluster, less that of the embedded engine."""


class Pair(NamedTuple):
    """A snapshot, and the engine of its index in a cluster."""

    snapshot: Snapshot
    clustered: ClusterEngine
    connector: OpenSearch

    def run(self, compare: Callable[[], Awaitable[None]]) -> None:
        """Run a comparison on one event loop, and close the connections."""

        async def compare_and_close() -> None:
            try:
                await compare()
            finally:
                await self.connector.close()

        asyncio.run(compare_and_close())


def publish(cluster: Cluster, folder: Path, sources: list[str], prefix: str) -> Pair:
    """Build a catalogue, and load it into the cluster."""
    out, options = folder / "artifacts", options_of(cluster, prefix).build
    assert main(["build", *sources, "--no-downloads", "--out", str(out), *options]) == 0
    snapshot, connector = open_snapshot(out), OpenSearch({"hosts": cluster.urls}, 60, prefix)
    return Pair(snapshot, connector.connect(snapshot), connector)


@pytest.fixture(scope="module")
def pair(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("pair")
    sources = [str(SEEDS / "services.jsonl"), str(SEEDS / "resources.jsonl")]
    sources.append(write_lines(folder / "mixed.jsonl", mixed_records()))
    return publish(cluster, folder, sources, "equality")


def mixed_records() -> list[Json]:
    """Return services of up to 40 endpoints, many without any, and resources of feeds."""
    rng = random.Random(0)  # noqa: S311  # repeatable

    def text() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(1, 5)))

    records: list[Json] = []
    for number in range(80):
        own = [
            endpoint() | {"url": f"https://m{number}.example/{place}", "description": text()}
            for place in range(rng.choice([0, 0, 1, 3, 40]))
        ]
        name = f"{WORDS[number // 6 % 7]} {number // 6}"  # of six services
        records.append(service(f"m{number}", name=name, description=text(), endpoints=own))
    for number in range(30):
        url = f"https://m{number}.example/feed/{number}"
        records.append(resource(url, accept()) | {"description": text()})
    return records


def test_random_requests_find_the_same(pair: Pair) -> None:
    names, words = texts_of(pair.snapshot)
    embedded, clustered = pair.snapshot.engine, pair.clustered

    async def compare() -> None:
        for number in range(REQUESTS):
            rng = random.Random(number)  # noqa: S311  # repeatable
            limit, offset = rng.choice([1, 5, 24, 200]), rng.choice([0, 0, 0, 3, 24, 190, 1000])
            query = query_of(names, words, rng)
            services = Search(query, filters_of(rng), limit, offset)
            check(
                services,
                await embedded.search_services(services),
                await clustered.search_services(services),
            )
            endpoints = Search(query, endpoint_filters_of(rng), limit, offset)
            check(
                endpoints,
                await embedded.search_endpoints(endpoints),
                await clustered.search_endpoints(endpoints),
            )
            resources = Search(query, resource_filters_of(rng), limit, offset)
            check(
                resources,
                await embedded.search_resources(resources),
                await clustered.search_resources(resources),
            )

    pair.run(compare)


def check(search: Search[Any], expected: Answer, answer: Answer) -> None:
    """Compare all but the order by relevance."""
    assert counts_of(answer) == counts_of(expected), search
    sort = getattr(search.filters, "sort", "relevance")
    is_best = getattr(search.filters, "best_endpoints", False)
    if sort != "relevance":
        assert [*answer.ordinals] == [*expected.ordinals], search
    assert len(set(answer.ordinals)) == len(answer.ordinals) == len(expected.ordinals), search
    assert len(answer.best_endpoints) == len(answer.ordinals) * is_best
    assert answer.explanations is None


def counts_of(answer: Answer) -> list[object]:
    return [answer.total, answer.listed, answer.similar, answer.facets]


def test_pages_join_to_the_whole_ranking(pair: Pair) -> None:
    async def compare() -> None:
        for filters in (EndpointFilters(per_service=2), EndpointFilters(per_service=0)):
            whole = await pair.clustered.search_endpoints(Search("tides weather", filters, 1000))
            joined: list[int] = []
            for offset in range(0, whole.listed, 60):
                search = Search("tides weather", filters, 60, offset)
                joined += (await pair.clustered.search_endpoints(search)).ordinals
            assert joined == [*whole.ordinals]
            assert len(joined) == whole.listed
        query = " ".join(WORDS)
        services = await pair.clustered.search_services(Search(query, Filters(), 1000))
        assert services.total > pair.snapshot.embedded.index.config.reranked + 10
        for offset in range(0, services.total, 3):
            page = await pair.clustered.search_services(Search(query, Filters(), 7, offset))
            assert [*page.ordinals] == [*services.ordinals[offset : offset + 7]]

    pair.run(compare)


@pytest.mark.skipif(not RELEVANCE.exists(), reason="the judged queries are not available")
@pytest.mark.parametrize("corpus", ["stabletoolbench", "sealtools", "metatool"])
def test_judged_queries_are_answered_about_as_well(
    cluster: Cluster, tmp_path: Path, corpus: str
) -> None:
    documents = read_lines(RELEVANCE / corpus / "corpus.jsonl")
    records = [
        service(
            f"{number:06}",
            name=each["name"] or each["id"],
            description=each["description"],
            category=each["category"],
            endpoints=[],
        )
        for number, each in enumerate(documents)
    ]
    pair = publish(cluster, tmp_path, [write_lines(tmp_path / "corpus.jsonl", records)], corpus)
    judged = read_lines(RELEVANCE / corpus / "queries.jsonl")[:: 1 if SOAK else 10]
    gains: list[float] = []

    async def compare() -> None:
        for each in judged:
            search = Search(each["query"], Filters(), 10)
            for sign, engine in ((1, pair.clustered), (-1, pair.snapshot.engine)):
                answer = await engine.search_services(search)
                ids = [documents[number]["id"] for number in answer.ordinals]
                grades = [each["relevant"].get(name, 0) for name in ids]
                ideal = sorted(each["relevant"].values(), reverse=True)[:10]
                gains.append(sign * discounted_gain(grades) / discounted_gain(ideal))

    pair.run(compare)
    assert sum(gains) / len(judged) >= LEAST


def read_lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def texts_of(snapshot: Snapshot) -> tuple[list[str], list[str]]:
    """Return the names of services, and words of the texts of the first."""
    count = len(snapshot.services)
    records = [msgspec.json.decode(snapshot.summaries.text(n)) for n in range(count)]
    texts = [f"{each['name']} {each['description']}" for each in records[:100]]
    return [each["name"] for each in records], [word for text in texts for word in text.split()]


def query_of(names: list[str], words: list[str], rng: random.Random) -> str:
    """Return a name or its words as one, words as they are, cut off, or mixed with unknown ones."""
    if rng.random() < 0.15:
        return rng.choice(names).replace(" ", rng.choice([" ", ""]))
    chosen = rng.choices(words, k=rng.choice([1, 1, 2, 3, 5, 12]))
    if rng.random() < 0.15:
        chosen = [word[: max(3, len(word) - 2)] for word in chosen]
    return " ".join([*chosen, *(["zzqqxx"] if rng.random() < 0.1 else [])])


def filters_of(rng: random.Random) -> Filters:
    return Filters(
        category=("Data", "Search") if rng.random() < 0.3 else (),
        network=("base",) if rng.random() < 0.3 else (),
        provider=("Grille & Söhne GmbH", "") if rng.random() < 0.2 else (),
        enriched=rng.choice([None, None, True, False]),
        max_price=rng.choice([None, None, 0.01, 0.1]),
        min_payers=rng.choice([None, None, None, 2]),
        alive=rng.choice([None, None, None, True, False]),
        match="all" if rng.random() < 0.25 else "any",
        sort=rng.choice(["relevance", "relevance", "relevance", "popularity", "price", "name"]),
        facets=SERVICE_FACETS if rng.random() < 0.4 else (),
        explain=rng.random() < 0.3,
        best_endpoints=rng.random() < 0.3,
    )


def endpoint_filters_of(rng: random.Random) -> EndpointFilters:
    return EndpointFilters(
        network=("base",) if rng.random() < 0.3 else (),
        provider=("Grille & Söhne GmbH", "") if rng.random() < 0.2 else (),
        scheme=("exact",) if rng.random() < 0.2 else (),
        method=(rng.choice(["GET", "POST"]),) if rng.random() < 0.2 else (),
        service=("m3", "m5", "nobody") if rng.random() < 0.1 else (),
        enriched=rng.choice([None, None, True]),
        max_price=rng.choice([None, None, 0.01]),
        max_usd_price=rng.choice([None, None, 0.02]),
        registration=rng.choice([None, None, None, False]),
        match="all" if rng.random() < 0.25 else "any",
        sort=rng.choice(["relevance", "relevance", "relevance", "price", "popularity"]),
        per_service=rng.choice([3, 3, 1, 0, 2**63 - 1]),
        facets=ENDPOINT_FACETS if rng.random() < 0.4 else (),
        explain=rng.random() < 0.2,
    )


def resource_filters_of(rng: random.Random) -> ResourceFilters:
    return ResourceFilters(
        network=rng.choice([None, "base"]),
        url_substring=rng.choice([None, "api"]),
        max_usd_price=rng.choice([None, None, 0.02]),
    )
