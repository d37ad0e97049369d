"""Both engines give the same answers: totals, order, facets and explanations of random requests."""

from __future__ import annotations

import asyncio
import json
import random
from itertools import product
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from service.snapshot.embedded import EmbeddedPostings
from service.snapshot.engine import EndpointHits

from indexer.__main__ import main
from service.conditions import (
    ENDPOINT_FACETS,
    SERVICE_FACETS,
    EndpointFilters,
    Filters,
    ResourceFilters,
)
from service.opensearch.connection import ClusterAddress
from service.opensearch.postings import OpenSearch
from service.schema.responses import Explanation
from service.search.postings import FULL_WEIGHT
from service.snapshot.data import Hits
from service.snapshot.publication import read_current
from service.snapshot.resources import ResourcePage
from service.snapshot.snapshot import Snapshot, open_folder, open_snapshot
from tests.opensearch.conftest import options_of
from tests.support.cluster.cluster import Cluster
from tests.support.running import SEEDS, SHARED, SOAK, Json, endpoint, service, write_lines
from tests.support.sources.x402 import accept, resource

RELEVANCE = SHARED / "relevance"
REQUESTS = 600 if SOAK else 60


class Pair(NamedTuple):
    """The same catalogue on both engines, and words of it."""

    embedded: Snapshot
    clustered: Snapshot
    connector: OpenSearch
    words: list[str]
    names: list[str]


@pytest.fixture(scope="module")
def pair(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("pair")
    sources = [str(SEEDS / "services.jsonl"), str(SEEDS / "resources.jsonl")]
    sources.append(write_lines(folder / "mixed.jsonl", mixed_records()))
    return publish(cluster, folder, sources, "equality")


def mixed_records() -> list[Json]:
    """Return services of up to 40 endpoints, many without any, and resources of feeds."""
    rng = random.Random(0)  # noqa: S311  # repeatable
    words = ["tides", "weather", "harbour", "reliable", "price", "gold", "data"]

    def text() -> str:
        return " ".join(rng.choices(words, k=rng.randint(1, 5)))

    records: list[Json] = []
    for number in range(80):
        own = [
            endpoint() | {"url": f"https://m{number}.example/{place}", "description": text()}
            for place in range(rng.choice([0, 0, 1, 3, 40]))
        ]
        name = f"{text()} {number // 2}"  # some names are those of two services
        records.append(service(f"m{number}", name=name, description=text(), endpoints=own))
    for number in range(30):
        url = f"https://m{number}.example/feed/{number}"
        records.append(resource(url, accept()) | {"description": text()})
    return records


def read_lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def publish(cluster: Cluster, folder: Path, sources: list[str], prefix: str) -> Pair:
    """Build a catalogue for both engines."""
    own, other = folder / "embedded", folder / "opensearch"
    assert main(["build", *sources, "--no-downloads", "--out", str(own)]) == 0
    options = options_of(cluster, prefix).build
    assert main(["build", *sources, "--no-downloads", "--out", str(other), *options]) == 0
    connector = OpenSearch(ClusterAddress(cluster.url, timeout=30))
    current = read_current(other)
    clustered = open_folder(other / "snapshots" / current.id, current.checked_at, connector)
    embedded = open_snapshot(own)
    records = [msgspec.json.decode(embedded.summaries.view(n)) for n in range(100)]
    texts = [f"{each['name']} {each['description']}" for each in records]
    words = [word for text in texts for word in text.split()]
    return Pair(embedded, clustered, connector, words, [each["name"] for each in records])


def test_random_requests_have_the_same_answers(pair: Pair) -> None:
    async def compare() -> None:
        try:
            for number in range(REQUESTS):
                await compare_answers(pair, random.Random(number))  # noqa: S311  # repeatable
        finally:
            await pair.connector.close()

    asyncio.run(compare())


def test_pages_of_few_hits_make_the_same_ranking(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.opensearch.scorer.MAX_HITS", 7)
    monkeypatch.setattr("service.opensearch.scorer.MAX_IMPACTS", 5)
    monkeypatch.setattr("service.opensearch.scorer.THREAD_FROM", 1)

    async def compare() -> None:
        try:
            for number in range(10):
                await compare_answers(pair, random.Random(-number))  # noqa: S311  # repeatable
        finally:
            await pair.connector.close()

    asyncio.run(compare())


@pytest.mark.skipif(not RELEVANCE.exists(), reason="the judged queries are not available")
@pytest.mark.parametrize("corpus", ["stabletoolbench", "sealtools", "metatool"])
def test_judged_queries_have_the_same_first_ten(
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
    judged = [each["query"] for each in read_lines(RELEVANCE / corpus / "queries.jsonl")]
    queries = judged[:: 1 if SOAK else 20]
    pair = publish(cluster, tmp_path, [write_lines(tmp_path / "corpus.jsonl", records)], corpus)

    async def count_equal() -> int:
        try:
            answers = [await pair.clustered.engine.search(query, 10) for query in queries]
        finally:
            await pair.connector.close()
        return sum(
            answer.ids == pair.embedded.search(query, 10).ids
            for query, answer in zip(queries, answers, strict=True)
        )

    assert asyncio.run(count_equal()) == len(queries)


def test_a_term_of_two_words_counts_twice(pair: Pair) -> None:
    query = pair.embedded.parser.parse("weathar wheather")
    ((first, weight),), ((second, _),) = (each.terms[:1] for each in query.expansions)
    assert first == second
    assert weight % FULL_WEIGHT  # so that the sum of two impacts is not their rounded sum

    postings = EmbeddedPostings(pair.embedded), pair.connector.connect(pair.clustered)

    async def compare(*, by_group: bool, match_all: bool) -> None:
        scorers = [
            each.scorer(query, None, by_group=by_group, match_all=match_all) for each in postings
        ]
        expected, top = [await each.top(50) for each in scorers]
        assert top.total == expected.total > 0
        assert top.keys.tolist() == expected.keys.tolist()
        impacts = [await each.impacts_at(top.ordinals) for each in scorers]
        assert impacts[0].tolist() == impacts[1].tolist()

    async def compare_all() -> None:
        try:
            for by_group, match_all in product((True, False), repeat=2):
                await compare(by_group=by_group, match_all=match_all)
        finally:
            await pair.connector.close()

    asyncio.run(compare_all())


async def compare_answers(pair: Pair, rng: random.Random) -> None:
    """Compare the answers of both engines to one random query of each kind."""
    query, limit = query_of(pair, rng), rng.choice([1, 5, 24, 200])
    offset = rng.choice([0, 0, 0, 3, 24, 190, 230, 1000])
    embedded, engine = pair.embedded, pair.clustered.engine
    filters = filters_of(rng)
    own = embedded.engine
    expected = await own.search(query, limit, offset, filters)
    given = await engine.search(query, limit, offset, filters)
    assert facts(given) == facts(expected), (query, limit, offset, filters)
    conditions = endpoint_filters_of(rng)
    listed = await own.search_endpoints(query, limit, offset, conditions)
    answer = await engine.search_endpoints(query, limit, offset, conditions)
    assert facts(answer) == facts(listed), (query, limit, offset, conditions)
    chosen = ResourceFilters(
        network=rng.choice([None, "base"]), url_substring=rng.choice([None, "api"])
    )
    page = await own.search_resources(query, limit, offset, chosen)
    assert texts(await engine.search_resources(query, limit, offset, chosen)) == texts(page)


def query_of(pair: Pair, rng: random.Random) -> str:
    """Return a name, words as they are, cut off, or mixed with words that no service has."""
    if rng.random() < 0.15:
        return rng.choice(pair.names)
    words = rng.choices(pair.words, k=rng.choice([1, 1, 2, 3, 5, 12]))
    if rng.random() < 0.15:
        words = [word[: max(3, len(word) - 2)] for word in words]
    return " ".join([*words, *(["zzqqxx"] if rng.random() < 0.1 else [])])


def filters_of(rng: random.Random) -> Filters:
    return Filters(
        category=("Data", "Search") if rng.random() < 0.3 else (),
        network=("base",) if rng.random() < 0.3 else (),
        provider=("Grille & Söhne GmbH", "") if rng.random() < 0.2 else (),
        enriched=rng.choice([None, None, True, False]),
        max_price=rng.choice([None, None, 0.01, 0.1]),
        match="all" if rng.random() < 0.25 else "any",
        sort=rng.choice(["relevance", "relevance", "relevance", "popularity", "price", "name"]),
        facets=SERVICE_FACETS if rng.random() < 0.4 else (),
        explain=rng.random() < 0.3,
    )


def endpoint_filters_of(rng: random.Random) -> EndpointFilters:
    return EndpointFilters(
        network=("base",) if rng.random() < 0.3 else (),
        provider=("Grille & Söhne GmbH", "") if rng.random() < 0.2 else (),
        scheme=("exact",) if rng.random() < 0.2 else (),
        method=(rng.choice(["GET", "POST"]),) if rng.random() < 0.2 else (),
        enriched=rng.choice([None, None, True]),
        max_price=rng.choice([None, None, 0.01]),
        max_usd_price=rng.choice([None, None, 0.02]),
        match="all" if rng.random() < 0.25 else "any",
        sort=rng.choice(["relevance", "relevance", "relevance", "price", "popularity"]),
        per_service=rng.choice([3, 3, 1, 0]),
        facets=ENDPOINT_FACETS if rng.random() < 0.4 else (),
        explain=rng.random() < 0.2,
    )


def facts(hits: Hits | EndpointHits) -> list[object]:
    """Return what two pages must have in common."""
    listed = [hits.listed, [*hits.offers]] if isinstance(hits, EndpointHits) else []
    explanations = [rounded(each) for each in hits.explanations or []]
    return [hits.total, [*hits.ordinals], *listed, hits.facets, explanations]


def rounded(each: Explanation) -> tuple[object, ...]:
    words = [(word.word, word.term, round(word.score, 6)) for word in each.words]
    scores = (round(each.score, 6), round(each.similarity_score, 6))
    return words, scores, each.similarity, each.is_exact_name, each.endpoint


def texts(page: ResourcePage) -> tuple[int, list[bytes]]:
    return page.total, [bytes(text) for text in page.texts]
