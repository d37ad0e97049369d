"""The fit of a first row, and when an answer warns that nothing matches well."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.conditions import EndpointFilters, Filters, ResourceFilters
from service.engines.engine import NOTHING_FITS, Search
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.running import build_snapshot_alone, endpoint, service
from tests.support.searching import MATCHES, catalogue, publish

WORDS = (
    *("weather", "forecast", "ocr", "geocoding", "tide", "harbour", "bitcoin", "price", "token"),
    *("translate", "cheese", "zebra", "the", "of", "Gas Weather", "Inkreader OCR", "wethr"),
)
EXAMPLES = {
    "weather": "skyquilt-example",
    "weather forecast": "skyquilt-example",
    "hourly forecast": "skyquilt-example",
    "text from image": "inkreader-example",
    "text from an image": "inkreader-example",
    "current bitcoin price": "pricewell-example",
    "tide harbour": "tidewatch-example",
    "tide table": "tidewatch-example",
    "tide tables": "tidewatch-example",
    "convert a PDF to text": "pdfbindery-example",
}
"""The queries of the README, the pages and /llms.txt, and the service that each is about."""
NAMES = ["maps", "tides", "rain", "news", "stocks", "music", "trains", "hotels", "wine", "cards"]
MISSING = ("find me a lawyer in berlin", "dna sequencing", "asdf qwer")


@pytest.fixture(scope="module")
def snapshot(sample: Path) -> Snapshot:
    return open_snapshot(sample)


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join), st.data())
def test_the_fit_is_that_of_scoring_the_first_row_again(
    snapshot: Snapshot, query: str, data: st.DataObject
) -> None:
    engine, threshold = snapshot.embedded, snapshot.manifest.threshold
    assert threshold is not None
    match, limit = data.draw(st.sampled_from(MATCHES)), data.draw(st.integers(1, 30))
    parsed = engine.parser.parse(query)
    filters = Filters(best_endpoints=True, match=match)
    answers = [(a := engine.rank_services(Search(query, filters, limit)), a.best_endpoints)]
    for per_service in (0, 3):
        terms = EndpointFilters(per_service=per_service, match=match)
        answer = engine.rank_endpoints(Search(query, terms, limit))
        answers.append((answer, answer.ordinals))
    for answer, documents in answers:
        if not documents:
            assert answer.fit == 0
        elif parsed.vector is None:
            assert answer.fit is None
        elif documents[0] is not None:
            score = engine.index.score(parsed, documents[0])
            assert answer.fit == pytest.approx(score / parsed.reach / threshold, abs=0.006)
        assert answer.warning == (NOTHING_FITS if (answer.fit or 0) < 1 else None) or (
            answer.fit is None
        )


@pytest.mark.parametrize(("query", "wanted"), EXAMPLES.items())
def test_the_first_row_of_an_example_is_what_it_asks_for(
    snapshot: Snapshot, query: str, wanted: str
) -> None:
    hits, endpoints = snapshot.search(query), snapshot.search_endpoints(query)
    assert hits.ids[0] == endpoints.endpoints[0]["service"]["id"] == wanted
    assert hits.warning is endpoints.warning is None


@pytest.mark.parametrize("query", MISSING)
def test_a_query_for_something_that_is_not_there_is_warned_of(
    snapshot: Snapshot, query: str
) -> None:
    answers = snapshot.search(query), snapshot.search_endpoints(query)
    assert [each.warning for each in answers] == [NOTHING_FITS] * 2


def test_no_query_is_to_blame_where_no_resources_are_listed(snapshot: Snapshot) -> None:
    assert not len(snapshot.resources)
    answer = snapshot.embedded.rank_resources(Search(MISSING[0], ResourceFilters()))
    assert (answer.total, answer.fit) == (0, None)


def test_only_the_first_page_of_a_ranking_by_relevance_has_a_fit(snapshot: Snapshot) -> None:
    assert snapshot.search("weather").fit is not None
    assert snapshot.search("weather", offset=1).fit is None
    assert snapshot.search("weather", sort="price").fit is None
    assert snapshot.search_endpoints("weather", sort="price").fit is None
    assert snapshot.list().fit is None


def test_a_query_without_meaning_for_the_encoder_has_no_fit(snapshot: Snapshot) -> None:
    hits = snapshot.search("天気予報")
    assert hits.total
    assert (hits.fit, hits.warning) == (None, None)


def test_a_small_catalogue_warns_of_nothing(tmp_path: Path) -> None:
    small = catalogue(tmp_path, [("Maps", "maps of all the seas", "")] * 3, semantic=True)
    assert small.manifest.threshold is None
    assert small.search("zebra crossing").warning is None
    assert small.search("zzzz").fit is None


def test_services_without_endpoints_are_asked_by_their_own_texts(tmp_path: Path) -> None:
    records = [
        service(f"id-{n}", name=name, description=f"All about {name} in {place}", endpoints=[])
        for n, (name, place) in enumerate((a, b) for a in NAMES for b in ("Rome", "Oslo", "Lima"))
    ]
    assert publish(tmp_path, records).manifest.threshold is not None


@given(st.integers(1, 70))
def test_the_matches_of_longer_queries_must_score_more(snapshot: Snapshot, words: int) -> None:
    parse = snapshot.embedded.parser.parse
    shorter, longer = (parse(" ".join(f"q{n}" for n in range(words + each))) for each in (0, 1))
    assert 0.4 <= shorter.reach <= longer.reach < 1


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_threshold_depends_on_the_records_alone(tmp_path: Path, jobs: int) -> None:
    folders = tmp_path / "a", tmp_path / "b"
    for folder in folders:
        folder.mkdir()
    records = [
        service(
            f"id-{n}",
            name=f"{a} {b}",
            endpoints=[endpoint() | {"description": f"Finds {a} and {b} for {c}, by day"}],
        )
        for n, (a, b, c) in enumerate(
            zip(NAMES * 3, sorted(NAMES) * 3, NAMES[::-1] * 3, strict=True)
        )
    ]
    built = (
        build_snapshot_alone(folder, own, semantic=True, jobs=jobs)
        for folder, own in (
            (folders[0], records),
            (folders[1], records[::-1]),
            (folders[1], [*records, service("other", name="other")]),
            (folders[1], records),
        )
    )
    forth, back, again, reused = map(open_snapshot, built)
    assert forth.manifest.threshold is not None
    assert again.id != forth.id
    for each in (back, reused):
        assert (each.id, each.manifest.threshold) == (forth.id, forth.manifest.threshold)
