"""The requests of the engine to a cluster."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from service.conditions import EndpointFilters, Filters
from service.engines.engine import Answer, Search
from service.opensearch import client_arguments
from service.opensearch.engine import OpenSearch
from service.search.ranking import DEEP_OFFSET
from service.snapshot import Snapshot, open_snapshot
from tests.support.cluster.stub import run_stub
from tests.support.running import Json

MATCHES = 5000


@pytest.fixture(scope="module")
def snapshot(sample: Path) -> Snapshot:
    return open_snapshot(sample)


def ask(
    snapshot: Snapshot, offset: int, filters: Filters | EndpointFilters
) -> tuple[Answer, list[int]]:
    """Return the answer of a search to which a cluster has no hits, and the sizes it is asked for.

    The sizes that count the rows that a limit for each service leaves are left out.
    """
    counts = {"matches": {"doc_count": MATCHES}, "value": MATCHES}
    whole = {"timed_out": False, "_shards": {"total": 1, "successful": 1}, "hits": {"hits": []}}

    async def search() -> Answer:
        cluster = OpenSearch(client_arguments(stub.url), 5, "shop")
        try:
            engine = cluster.connect(snapshot)
            if isinstance(filters, Filters):
                return await engine.search_services(Search("tide", filters, 24, offset))
            return await engine.search_endpoints(Search("tide", filters, 24, offset))
        finally:
            await cluster.close()

    with run_stub(lambda _: (200, whole | {"aggregations": {"matches": counts}})) as stub:
        answer = asyncio.run(search())
    bodies: list[Json] = [json.loads(body) for _, _, body in stub.requests]
    return answer, [each["size"] for each in bodies if "sort" in each]


@pytest.mark.parametrize("filters", [Filters(), EndpointFilters(), EndpointFilters(per_service=0)])
def test_a_cluster_is_asked_for_no_page_beyond_the_matches(
    snapshot: Snapshot, filters: Filters | EndpointFilters
) -> None:
    documents = len(snapshot.endpoints.groups.of_document)
    assert documents < MATCHES
    for offset, sizes in (
        (DEEP_OFFSET - 1, [DEEP_OFFSET + 23]),
        (DEEP_OFFSET, [0, DEEP_OFFSET + 24]),
        (MATCHES - 1, [0, documents]),
        (MATCHES, [0]),
        (2**31, [0]),
        (10**18, [0]),
    ):
        answer, asked = ask(snapshot, offset, filters)
        assert asked == sizes
        assert (answer.total, answer.listed, answer.ordinals) == (MATCHES, MATCHES, [])
