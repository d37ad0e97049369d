"""One index: services are found by what their endpoints do."""

from __future__ import annotations

import asyncio
import json
from math import log
from pathlib import Path
from typing import Any

import pytest

from service.conditions import ENDPOINT_FACETS, EndpointFilters, Filters, ResourceFilters
from service.search.config import SEARCH_CONFIG
from service.snapshot import open_snapshot
from service.snapshot.snapshot import Snapshot
from tests.support.artifacts import overlays
from tests.support.running import Json, endpoint, service
from tests.support.searching import identifier, publish, rank_endpoints
from tests.support.sources.x402 import resource

FEED = "https://tides.example/high"


def described(path: str, description: str = "", **fields: Any) -> Json:
    return endpoint() | {"url": f"https://a.example/{path}", "description": description} | fields


RECORDS = [
    service(
        "lighthouse",
        name="Silverback",
        description="Beacons of the coast",
        category="Marine",
        domain="farsight.example",
        tags=["lamp"],
        endpoints=[
            described("moonphase", "Eclipses", tags=["lunar"]),
            described(
                "sunrise",
                "Twilight",
                parameters=[{"group": "query", "name": "latitude", "type": "number"}],
            ),
        ],
    ),
    service(
        "almanac",
        name="Almanac",
        description="A calendar",
        category="Books",
        domain="calendars.example",
        endpoints=[],
    ),
    service("other", name="Other", description="Nothing else", category="Marine"),
]


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return publish(tmp_path_factory.mktemp("services"), RECORDS, "--no-semantic", "--quiet")


@pytest.mark.parametrize(
    "query",
    [
        *("silverback", "beacons", "farsight", "moonphase", "eclipses", "sunrise", "twilight"),
        *("latitude", "lunar", "silverback eclipses", "coast twilight latitude", "farsight lunar"),
    ],
)
def test_a_service_matches_by_its_own_texts_and_by_those_of_its_endpoints(
    snapshot: Snapshot, query: str
) -> None:
    for match_all in (False, True):
        hits = snapshot.search(query, filters=Filters(match="all" if match_all else "any"))
        assert (hits.total, hits.ids) == (1, ["lighthouse"])


def test_a_service_matches_by_its_category(snapshot: Snapshot) -> None:
    assert sorted(snapshot.search("marine").ids) == ["lighthouse", "other"]


@pytest.mark.parametrize("query", ["almanac", "calendar", "books", "calendars"])
def test_a_service_without_endpoints_is_a_document(snapshot: Snapshot, query: str) -> None:
    assert snapshot.search(query).ids == ["almanac"]
    assert rank_endpoints(snapshot, query, 24, 0, EndpointFilters()).total == 0


def test_all_words_are_required_in_one_document(snapshot: Snapshot) -> None:
    every = Filters(match="all")
    assert snapshot.search("eclipses beacons", filters=every).total == 1
    assert snapshot.search("eclipses twilight", filters=every).total == 0
    assert snapshot.search("eclipses twilight").total == 1


@pytest.mark.parametrize("query", ["silverbak", "silverba", "farsigt"])
def test_endpoints_are_found_by_a_misspelt_word_of_their_service(
    snapshot: Snapshot, query: str
) -> None:
    """The index has one lexicon, with the words of all fields."""
    assert snapshot.search(query).ids == ["lighthouse"]
    hits = rank_endpoints(snapshot, query, 24, 0, EndpointFilters())
    assert hits.total == 2
    assert {snapshot.endpoints.service_of(each) for each in hits.ordinals} == {
        snapshot.id_table.find("lighthouse")
    }


def test_services_are_found_by_a_misspelt_word_of_an_endpoint(snapshot: Snapshot) -> None:
    for query in ("moonphas", "moonfase", "latitud"):
        assert snapshot.search(query).ids == ["lighthouse"]


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """A service that lists one endpoint, while a feed lists another resource of it."""
    folder = tmp_path_factory.mktemp("listed")
    records = [resource(FEED, description="Moon"), service("else", name="Else")]
    own = {"endpoints": [endpoint() | {"url": "https://tides.example/other"}]}
    options = overlays(folder, {"tides-example": own})
    return publish(folder, records, *options, "--no-semantic", "--quiet")


def test_a_listed_resource_that_is_no_endpoint_of_its_record_is_a_document(
    listed: Snapshot,
) -> None:
    for query, endpoints, resources in (("high", 0, 1), ("other", 1, 0), ("tides", 1, 1)):
        assert listed.search(query).ids == ["tides-example"]
        assert rank_endpoints(listed, query, 24, 0, EndpointFilters()).total == endpoints
        found = asyncio.run(listed.find_resources(query, 24, 0, ResourceFilters()))
        assert found.total == resources
    assert listed.search("tides").total == 1


def test_the_explanation_of_a_service_names_its_best_endpoint(
    snapshot: Snapshot, listed: Snapshot
) -> None:
    for query, url in (
        ("eclipses", "https://a.example/moonphase"),
        ("twilight beacons", "https://a.example/sunrise"),
        ("calendar", None),
    ):
        hits = snapshot.search(query, filters=Filters(explain=True))
        assert hits.explanations is not None
        assert [each.endpoint for each in hits.explanations] == [url]
    high = listed.search("high", filters=Filters(explain=True)).explanations
    assert high is not None
    assert [each.endpoint for each in high] == [None]  # a resource, which no endpoint names


@pytest.mark.parametrize("sort", ["relevance", "name", "popularity"])
@pytest.mark.parametrize("semantic", [False, True])
def test_the_parts_of_an_explanation_add_up(tmp_path: Path, sort: Any, semantic: bool) -> None:
    records = [
        service(
            identifier(n),
            name=f"Thing {n}",
            endpoints=[described(f"tide/{m}", "sun" * (m % 2)) for m in range(n)],
        )
        for n in range(6)
    ]
    snapshot = publish(tmp_path, records, "--quiet", *(() if semantic else ("--no-semantic",)))
    filters = Filters(explain=True, sort=sort)
    hits = snapshot.search("tide sun thing", filters=filters)
    assert hits.total == len(hits.ids) == 6
    assert hits.explanations is not None
    for service_id, each in zip(hits.ids, hits.explanations, strict=True):
        words = sum(word.score for word in each.words)
        assert each.score == pytest.approx(words + each.similarity_score - each.size_penalty)
        count = max(1, int(service_id))
        unit = SEARCH_CONFIG.impact_scale
        assert each.size_penalty == pytest.approx(
            SEARCH_CONFIG.size_penalty * log(max(1, count / 60)), abs=1 / unit
        )
        assert (each.endpoint is None) == (count == 1 and service_id == identifier(0))
    if sort == "relevance":
        scores = [each.score for each in hits.explanations]
        assert scores == sorted(scores, reverse=True)


def test_filters_totals_and_facets_are_those_of_services(tmp_path: Path) -> None:
    records = [
        service(
            identifier(n),
            name=f"Thing {n}",
            category="abc"[n % 3],
            enriched=n % 2 == 0,
            endpoints=[
                described(f"x/{m}", "tides" if (n + m) % 4 else "sun") for m in range(n % 5)
            ],
        )
        for n in range(60)
    ]
    snapshot = publish(tmp_path, records, "--no-semantic", "--quiet")
    matches = {
        "tides": {n for n in range(60) if any((n + m) % 4 for m in range(n % 5))},
        "sun": {n for n in range(60) if any(not (n + m) % 4 for m in range(n % 5))},
        "thing": {*range(60)},
    }
    for query, found in matches.items():
        for enriched in (None, True, False):
            filters = Filters(enriched=enriched, facets=("category",))
            expected = {n for n in found if enriched is None or (n % 2 == 0) == enriched}
            hits = snapshot.search(query, 200, 0, filters)
            assert (hits.total, {int(each) for each in hits.ids}) == (len(expected), expected)
            assert hits.facets is not None
            counts = {each["value"]: each["count"] for each in hits.facets["category"]}
            assert counts == {
                name: count
                for at, name in enumerate("abc")
                if (count := sum(n % 3 == at for n in expected))
            }


def test_each_service_is_reranked_and_added_once(tmp_path: Path) -> None:
    """Depths count services, whatever the number of their endpoints."""
    crowd = service(
        "crowd", name="Crowd", endpoints=[described(str(n), "rain") for n in range(300)]
    )
    others = [
        service(f"o{n:02}", name=f"Other {n}", endpoints=[described("x", "storms of rain")])
        for n in range(40)
    ]
    snapshot = publish(tmp_path, [crowd, *others], "--quiet")
    by_words = snapshot.search("rain", 200, 0, Filters(explain=True))
    assert by_words.total == len(by_words.ids) == 41
    assert by_words.explanations is not None
    assert all(each.similarity_score for each in by_words.explanations)
    added = snapshot.search("thunder forecast", 200, 0, Filters(explain=True))
    assert added.total == len(added.ids) == len(set(added.ids)) == SEARCH_CONFIG.filled_up_to
    assert added.explanations is not None
    assert not any(each.words for each in added.explanations)


def test_the_search_of_an_open_snapshot_has_a_total_and_ids(sample: Path) -> None:
    hits = open_snapshot(str(sample)).search("weather forecast", limit=24, offset=0)
    assert hits.total >= len(hits.ids) == min(hits.total, 24) > 0
    stored = open_snapshot(sample).find(hits.ids[0])
    assert stored is not None
    assert "weather" in json.loads(stored)["description"].lower()


def test_endpoints_are_listed_beside_many_services_without_any(tmp_path: Path) -> None:
    """The other documents of the index take several words of bits."""
    own = [endpoint() | {"url": f"https://a.example/{n}"} for n in range(70)]
    records = [service("a", endpoints=own)]
    records += [service(f"b{n:03}", name="Nothing", endpoints=[]) for n in range(300)]
    snapshot = publish(tmp_path, records, "--quiet", "--no-semantic")
    for query in (None, "one"):
        for per_service, listed in ((0, 70), (3, 3)):
            hits = rank_endpoints(
                snapshot, query, 100, 0, EndpointFilters(per_service=per_service, max_price=1)
            )
            assert (hits.total, hits.listed) == (70, listed)
            assert list(hits.ordinals) == [*range(listed)]
        everything = EndpointFilters(facets=ENDPOINT_FACETS, sort="price")
        assert rank_endpoints(snapshot, query, 24, 0, everything).listed == 3
    assert snapshot.search("nothing").total == 300
    assert snapshot.search("one").ids == ["a"]
