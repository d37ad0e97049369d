"""The requests of the engine to a cluster."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from service.conditions import EndpointFilters, Filters, ResourceFilters
from service.engines import embedded
from service.engines.engine import Answer, Search
from service.opensearch import client_arguments
from service.opensearch.engine import OpenSearch
from service.search.config import SEARCH_CONFIG
from service.search.postings import Mask
from service.search.ranking import DEEP_OFFSET, EXACT_NAMES
from service.snapshot import Snapshot, open_snapshot
from service.snapshot.data import ResourceDocuments
from tests.support.cluster.stub import run_stub
from tests.support.running import Json, service
from tests.support.searching import identifier, publish
from tests.support.sources.x402 import accept, resource

MATCHES = 5000


@pytest.fixture(scope="module")
def snapshot(sample: Path) -> Snapshot:
    return open_snapshot(sample)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """Services of one name, and listed resources."""
    records = [
        service(
            identifier(n),
            name="WeatherAPI" if n in (5, 6) else "Weather API",
            category="Search" if n in (4, 6) else "Data",
        )
        for n in range(7)
    ]
    records += [resource(f"https://feed.example/{n}", accept()) for n in range(3)]
    return publish(tmp_path_factory.mktemp("shop"), records, "--no-semantic", "--quiet")


def ask(snapshot: Snapshot, search: Search[Any]) -> tuple[Answer, list[Json]]:
    """Return the answer of a search to which a cluster has no hits, and what it is asked."""
    counts = {"matches": {"doc_count": MATCHES}, "value": MATCHES}
    whole = {"timed_out": False, "_shards": {"total": 1, "successful": 1}, "hits": {"hits": []}}

    async def run() -> Answer:
        cluster = OpenSearch(client_arguments(stub.url), 5, "shop")
        try:
            engine = cluster.connect(snapshot)
            if isinstance(search.filters, Filters):
                return await engine.search_services(search)
            if isinstance(search.filters, ResourceFilters):
                return await engine.search_resources(search)
            return await engine.search_endpoints(search)
        finally:
            await cluster.close()

    with run_stub(lambda _: (200, whole | {"aggregations": {"matches": counts}})) as stub:
        answer = asyncio.run(run())
    return answer, [json.loads(body) for _, _, body in stub.requests]


def pages_of(bodies: list[Json]) -> list[Json]:
    """Return the requests for rows; others count those that a limit for each service leaves."""
    return [each for each in bodies if "sort" in each]


def nested_of(page: Json) -> Json:
    """Return the clause of the nested documents in a request for rows."""
    (own,) = (each["nested"] for each in page["query"]["bool"]["should"] if "nested" in each)
    return dict(own)


@pytest.mark.parametrize("offset", [0, 24, 99, 100, 101, DEEP_OFFSET - 1, DEEP_OFFSET, MATCHES - 1])
@pytest.mark.parametrize("filters", [Filters(), Filters(sort="name")])
def test_a_cluster_is_asked_for_no_services_before_a_page_that_is_not_reranked(
    snapshot: Snapshot, filters: Filters, offset: int
) -> None:
    answer, asked = ask(snapshot, Search("tide", filters, 24, offset))
    rows = [(each["from"], each["size"]) for each in pages_of(asked) if each["size"]]
    reranked = SEARCH_CONFIG.reranked
    assert rows == [(offset, 24) if offset >= reranked else (0, max(offset + 24, reranked))]
    assert (answer.total, answer.ordinals) == (MATCHES, [])


@pytest.mark.parametrize("filters", [Filters(), EndpointFilters(), EndpointFilters(per_service=0)])
def test_a_cluster_is_asked_for_no_page_beyond_the_matches(
    snapshot: Snapshot, filters: Filters | EndpointFilters
) -> None:
    documents = len(snapshot.endpoints.groups.of_document)
    assert documents < MATCHES
    most = 24 if isinstance(filters, Filters) else MATCHES  # services: without those before
    for offset, sizes in (
        (DEEP_OFFSET - 1, [DEEP_OFFSET + 23]),
        (DEEP_OFFSET, [0, DEEP_OFFSET + 24]),
        (MATCHES - 1, [0, documents]),
        (MATCHES, [0]),
        (2**31, [0]),
        (10**18, [0]),
    ):
        answer, asked = ask(snapshot, Search("tide", filters, 24, offset))
        assert [each["size"] for each in pages_of(asked)] == [min(size, most) for size in sizes]
        assert (answer.total, answer.listed, answer.ordinals) == (MATCHES, MATCHES, [])


@pytest.mark.parametrize("per_service", [1, 10**9, 2**63 - 1])
def test_a_cluster_is_asked_for_no_more_endpoints_of_a_service_than_of_all(
    snapshot: Snapshot, per_service: int
) -> None:
    _, asked = ask(snapshot, Search("tide", EndpointFilters(per_service=per_service), 24))
    (page,) = pages_of(asked)
    assert nested_of(page)["inner_hits"]["size"] == min(per_service, page["size"])
    (count,) = (each["aggs"]["matches"] for each in asked if each is not page)
    script = count["sum"]["script"]  # which a cluster compiles anew for each other text
    assert str(per_service) not in script["source"]
    assert script["params"] == {"most": per_service}


def test_resources_are_filtered_in_the_thread_where_that_takes_long(
    shop: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    filtered = ResourceDocuments.documents

    def note(resources: ResourceDocuments, filters: ResourceFilters) -> Mask:
        threads.append(threading.current_thread().name)
        return filtered(resources, filters)

    filters = ResourceFilters(url_substring="feed.example/1")
    cost = shop.resources.cost(filters)
    every = ResourceDocuments(shop.resources, shop.endpoints)
    expected = np.flatnonzero(every.documents(filters)).tolist()
    assert expected
    monkeypatch.setattr(ResourceDocuments, "documents", note)
    for threshold in (cost, cost + 1):
        monkeypatch.setattr(embedded, "THREAD_FROM", threshold)
        answer, asked = ask(shop, Search("tide", filters, 24))
        assert answer.total == MATCHES
        (page,) = pages_of(asked)
        (wanted,) = nested_of(page)["query"]["bool"]["filter"]
        assert wanted["terms"]["documents.ordinal"] == expected
    assert [name.startswith("search") for name in threads] == [True, False]


@pytest.mark.parametrize("query", ["weatherapi", "Weather API", "data"])
@pytest.mark.parametrize("category", [(), ("Search",), ("Data",), ("Nothing",)])
@pytest.mark.parametrize("match", ["any", "all"])
def test_the_services_named_like_a_query_are_those_of_the_embedded_engine(
    shop: Snapshot, query: str, category: tuple[str, ...], match: Literal["any", "all"]
) -> None:
    filters = Filters(category=category, match=match, explain=True)
    found = shop.search(query, 24, 0, filters)
    assert found.explanations is not None
    exact = [
        ordinal
        for ordinal, each in zip(found.ordinals, found.explanations, strict=True)
        if each.is_exact_name
    ]
    allowed = shop.list(24, 0, Filters(category=category)).total
    assert len(exact) == (min(allowed, EXACT_NAMES) if query != "data" else 0)
    _, (page,) = ask(shop, Search(query, filters, 24))
    (named,) = (
        each["constant_score"]["filter"]
        for each in page["query"]["bool"]["should"]
        if "constant_score" in each
    )
    assert named["terms"]["ordinal"] == exact
