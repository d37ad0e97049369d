"""Every search over HTTP says how well its first row fits, and warns where nothing does."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import msgspec
import pytest

from indexer.__main__ import main
from service.engines.engine import NOTHING_FITS
from service.schema.discovery import FoundResources
from service.schema.responses import EndpointList, ServiceList
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.running import SEEDS, open_app

MISSING, THERE, FEW = "find me a lawyer in berlin", "weather forecast", "knitting patterns"
SERVICES, ENDPOINTS = "/v1/search/services", "/v1/search/endpoints"
DISCOVERY = "/discovery/search"


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    artifacts = tmp_path_factory.mktemp("fit") / "artifacts"
    sources = [str(SEEDS / "services.jsonl"), str(SEEDS / "resources.jsonl")]
    assert main(["build", *sources, "--out", str(artifacts), "--no-downloads"]) == 0
    return open_snapshot(artifacts)


@pytest.fixture(scope="module")
def client(snapshot: Snapshot) -> Iterator[httpx.Client]:
    with open_app(snapshot.folder.parents[1]) as client:
        yield client


@pytest.mark.parametrize("query", [MISSING, THERE])
def test_services_have_it_as_a_header_and_as_members_beside_additions(
    snapshot: Snapshot, client: httpx.Client, query: str
) -> None:
    hits = snapshot.search(query)
    response = client.get(SERVICES, params={"q": query})
    assert response.headers["ratecard-fit"] == str(hits.fit)
    assert set(response.json()) == {"services", "total", "limit", "offset"}
    explained = client.get(SERVICES, params={"q": query, "explain": "true"})
    added = explained.json()
    assert (added["fit"], added.get("warning")) == (hits.fit, hits.warning)
    assert hits.warning == (NOTHING_FITS if query == MISSING else None)
    msgspec.json.decode(explained.content, type=ServiceList)


@pytest.mark.parametrize("query", [MISSING, THERE])
def test_endpoints_and_resources_have_it_as_members(
    snapshot: Snapshot, client: httpx.Client, query: str
) -> None:
    hits = snapshot.search_endpoints(query)
    response = client.get(ENDPOINTS, params={"q": query})
    found = response.json()
    assert (found["fit"], found.get("warning")) == (hits.fit, hits.warning)
    msgspec.json.decode(response.content, type=EndpointList)
    response = client.get(DISCOVERY, params={"query": query})
    resources = response.json()
    assert resources["ratecard"]["fit"] >= 0
    assert ("warning" in resources["ratecard"]) == (resources["ratecard"]["fit"] < 1)
    msgspec.json.decode(response.content, type=FoundResources)


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        (SERVICES, {"q": THERE, "offset": "1"}),
        (SERVICES, {"q": THERE, "sort": "price"}),
        ("/v1/services", {}),
        (ENDPOINTS, {"category": "Weather"}),
        (ENDPOINTS, {"q": THERE, "sort": "price"}),
        (DISCOVERY, {"network": "base"}),
    ],
)
def test_other_pages_have_none(client: httpx.Client, path: str, parameters: dict[str, str]) -> None:
    response = client.get(path, params=parameters)
    assert response.status_code == 200
    assert "ratecard-fit" not in response.headers
    assert {"fit", "warning"}.isdisjoint(response.json())
    assert "ratecard" not in response.json()


def test_another_order_than_that_of_relevance_has_no_similar_rows(client: httpx.Client) -> None:
    orders = ("relevance", "price", "popularity")
    found = (client.get(SERVICES, params={"q": FEW, "sort": order}) for order in orders)
    by_relevance, *others = (response.headers["ratecard-similar"] for response in found)
    assert (int(by_relevance) > 0, others) == (True, ["0", "0"])


def test_the_page_warns_and_draws_lines_between_matches_and_similar_rows(
    snapshot: Snapshot, client: httpx.Client
) -> None:
    line = "Similar, without a word of the search"
    assert NOTHING_FITS[1:] in client.get("/", params={"q": MISSING}).text
    assert NOTHING_FITS[1:] not in client.get("/", params={"q": THERE}).text
    for path, hits in (
        ("/", snapshot.search(FEW)),
        ("/endpoints", snapshot.search_endpoints(FEW)),
    ):
        assert 0 < hits.similar < hits.total
        text = client.get(path, params={"q": FEW}).text
        borders = text.count('<li class="border">')
        similar = [row in hits.similar_rows for row in range(len(hits.ordinals))]
        assert sum(similar) == hits.similar
        assert borders == sum(a != b for a, b in zip([False, *similar], similar, strict=False))
        within = client.get(path, params={"q": FEW, "offset": str(hits.total - 2)}).text
        assert line in within
        assert line not in client.get(path, params={"q": "price"}).text
