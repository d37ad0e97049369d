"""Ranking by words and meaning: equal to lexical ranking plus a weighted cosine, by brute force."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api.listing import find, list_body
from service.api.parameters import parse_search
from service.filtering.endpoint_filters import EndpointFilters
from service.filtering.filters import Filters
from service.search.config import SEARCH_CONFIG
from service.snapshot.endpoints import searcher_of
from service.snapshot.snapshot import Snapshot
from tests.support.running import Json, endpoint, service
from tests.support.searching import Document, catalogue, identifier, publish

SUBJECTS = {
    "weather": "rain wind storm sunny temperature humidity forecast snow",
    "finance": "stock bond portfolio dividend market investor equity fund",
    "travel": "flight hotel airport passenger luggage itinerary tourist ticket",
    "health": "doctor patient symptom medicine hospital disease nurse clinic",
    "language": "translate grammar dictionary vocabulary pronunciation speech dialect text",
}
CATEGORIES = ("Data", "Search", "Media")
FILLED, DEPTH = SEARCH_CONFIG.filled_up_to, SEARCH_CONFIG.reranked
MEANINGLESS = (
    "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
    "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGkZwyTDt1v",
    "123e4567-e89b-12d3-a456-426614174000",
    "天气预报",
    "погода завтра",
    "the of and",
    "2024 17",
    "!!!",
)

words = st.sampled_from([word for text in SUBJECTS.values() for word in text.split()])
unknown = st.sampled_from(["rainfall", "physician", "banking", "zzxq", "0xabcdef", "预报", "the"])
queries = st.lists(st.one_of(words, unknown), min_size=1, max_size=6).map(" ".join)
filters = st.builds(
    Filters,
    facets=st.sampled_from([{}, {"category": ["Data"]}, {"category": ["Media", "Search"]}]),
    match_all=st.booleans(),
)


class Both(NamedTuple):
    """One catalogue, searched by words and meaning, and by words alone."""

    hybrid: Snapshot
    lexical: Snapshot


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    rng = random.Random(4)  # noqa: S311  # the same catalogue in every run

    def text(subject: str, most: int) -> str:
        return " ".join(rng.choices(SUBJECTS[subject].split(), k=rng.randint(1, most)))

    def record(number: int) -> Json:
        subject = rng.choice([*SUBJECTS])
        return service(
            identifier(number),
            name=text(subject, 2),
            description=text(subject, 6),
            category=rng.choice(CATEGORIES),
            endpoints=[endpoint() | {"url": f"https://a.example/{text(subject, 2)}"}],
        )

    records = [record(number) for number in range(300)]
    folders = (tmp_path_factory.mktemp(name) for name in ("hybrid", "lexical"))
    hybrid, lexical = folders
    return Both(publish(hybrid, records), publish(lexical, records, "--no-semantic"))


def parts(snapshot: Snapshot, query: str, asked: Filters) -> tuple[list[float], list[float]]:
    """Return the BM25F score and the cosine of every service, no cosines without a vector."""
    searcher = searcher_of(snapshot._searcher)  # noqa: SLF001  # those of services that are no results
    plan = searcher.plan(query, None, match_all=asked.match_all)
    every = np.arange(len(snapshot.services))
    words = [sum(word.score for word in each.words) for each in searcher.explain(plan, every)]
    if plan.meaning is None:
        return words, []
    return words, plan.meaning.semantics.vectors.similarities(plan.meaning.query, every).tolist()


@given(query=queries, asked=filters)
def test_the_ranking_is_that_of_words_plus_a_weighted_cosine(
    both: Both, query: str, asked: Filters
) -> None:
    lexical = both.lexical.search(query, 300, 0, asked)
    hits = both.hybrid.search(query, 300, 0, asked)
    scores, cosines = parts(both.hybrid, query, asked)
    added = [ordinal for ordinal in hits.ordinals if ordinal not in set(lexical.ordinals)]
    assert set(lexical.ordinals) <= set(hits.ordinals)
    assert hits.total == len(hits.ordinals) == lexical.total + len(added)
    if not cosines:
        assert list(hits.ordinals) == list(lexical.ordinals)
        return
    allowed = both.hybrid.list(300, 0, Filters(facets=asked.facets)).ordinals
    others = [ordinal for ordinal in allowed if ordinal not in set(lexical.ordinals)]
    if asked.match_all or lexical.total >= FILLED:
        assert added == []
    else:
        near = sorted((cosines[n] for n in others if cosines[n] >= 0.25), reverse=True)
        expected = near[: FILLED - lexical.total]
        got = sorted((cosines[ordinal] for ordinal in added), reverse=True)
        assert got == pytest.approx(expected, abs=1e-3)
    searcher = searcher_of(both.hybrid._searcher)  # noqa: SLF001  # the weight of this very query
    meaning = searcher.plan(query).meaning
    assert meaning is not None
    weight = meaning.weight / SEARCH_CONFIG.impact_scale
    assert weight in (
        pytest.approx(SEARCH_CONFIG.similarity_weight),
        pytest.approx(SEARCH_CONFIG.similarity_weight * SEARCH_CONFIG.specific_weight),
    )
    exact = len(searcher.plan(query).exact)
    best = [*lexical.ordinals[:DEPTH], *added]
    ranked = hits.ordinals[exact : len(best)]
    total = [scores[ordinal] + weight * cosines[ordinal] for ordinal in ranked]
    assert total == pytest.approx(sorted(total, reverse=True), abs=2e-3)
    assert list(hits.ordinals[len(best) :]) == list(lexical.ordinals[DEPTH:])


@given(query=queries, asked=filters, limit=st.integers(1, 30), offset=st.integers(0, 320))
def test_a_page_is_a_slice_of_the_ranking(
    both: Both, query: str, asked: Filters, limit: int, offset: int
) -> None:
    whole = both.hybrid.search(query, 300, 0, asked)
    page = both.hybrid.search(query, limit, offset, asked)
    assert page.total == whole.total
    assert list(page.ordinals) == list(whole.ordinals[offset : offset + limit])


@given(query=queries, asked=filters)
def test_totals_facets_and_other_orders_have_the_same_matches(
    both: Both, query: str, asked: Filters
) -> None:
    whole = both.hybrid.search(query, 300, 0, asked)
    counted = Filters(
        facets=asked.facets, match_all=asked.match_all, counted=("category",), sort="name"
    )
    by_name = both.hybrid.search(query, 300, 0, counted)
    assert sorted(by_name.ordinals) == sorted(whole.ordinals)
    assert by_name.facets is not None
    assert sum(int(each["count"]) for each in by_name.facets["category"]) == whole.total


@given(query=queries, per_service=st.integers(0, 2), limit=st.integers(1, 40))
def test_endpoints_are_ranked_alike_and_counted(
    both: Both, query: str, per_service: int, limit: int
) -> None:
    endpoints = both.hybrid.endpoints
    every = endpoints.search(query, 600, 0, EndpointFilters(per_service=0))
    lexical = both.lexical.endpoints.search(query, 600, 0, EndpointFilters(per_service=0))
    assert set(lexical.ordinals) <= set(every.ordinals)
    assert every.total == every.listed == len(every.ordinals)
    assert every.total <= max(lexical.total, FILLED)
    page = endpoints.search(query, limit, 0, EndpointFilters(per_service=per_service, explain=True))
    assert page.total == every.total
    if per_service != 1:  # each service has one endpoint
        assert list(page.ordinals) == list(every.ordinals[:limit])
    assert page.listed == every.total
    assert page.explanations is not None
    scores = [each.score for each in page.explanations[:DEPTH]]
    assert scores == sorted(scores, reverse=True)
    by_price = endpoints.search(query, 600, 0, EndpointFilters(per_service=0, sort="price"))
    assert sorted(by_price.ordinals) == sorted(every.ordinals)


@pytest.mark.parametrize("query", MEANINGLESS)
def test_a_query_without_meaning_ranks_as_without_vectors(tmp_path: Path, query: str) -> None:
    documents = [
        ("weather", "rain and wind", "Data"),
        (f"pays {query}", "the stock market", "Search"),
        ("天气", f"预报 {query} погода", "Media"),
        ("2024 in review", "17 doctors", "Data"),
    ]
    snapshots = []
    for name in ("hybrid", "lexical"):
        (tmp_path / name).mkdir()
        snapshots.append(catalogue(tmp_path / name, documents, semantic=name == "hybrid"))
    hybrid, lexical = (snapshot.search(query, 24, 0) for snapshot in snapshots)
    assert (hybrid.total, hybrid.ids) == (lexical.total, lexical.ids)


MEANT: list[Document] = [
    ("Clearance", "AML screening of blockchain addresses", ""),
    ("Raincoat", "Forecast of storms", ""),
    ("Tally", "Market prices of stocks", ""),
    ("Polyglot", "Translation between languages", ""),
]


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return catalogue(tmp_path_factory.mktemp("few"), MEANT, semantic=True)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("is this cryptocurrency wallet sanctioned", 0),
        ("will there be thunder tomorrow", 1),
        ("investing in equities", 2),
        ("Spanish interpreter", 3),
        ("translaton of langages", 3),
        ("stroms", 1),
    ],
)
def test_services_without_a_word_of_the_query_are_found_by_its_meaning(
    few: Snapshot, query: str, first: int
) -> None:
    hits = few.search(query)
    assert hits.ids[0] == identifier(first)
    assert hits.total == len(hits.ids)


def test_an_unfinished_word_means_what_it_is_completed_to(few: Snapshot) -> None:
    plans = searcher_of(few._searcher).plan  # noqa: SLF001  # the vector of a query is nowhere else
    unfinished, finished = plans("transla").meaning, plans("translation").meaning
    assert unfinished is not None
    assert finished is not None
    assert (unfinished.query.components == finished.query.components).all()
    assert plans("thisisnowordatall").meaning is None


def test_a_service_whose_name_is_the_query_stays_first(few: Snapshot) -> None:
    for number, (name, _, _) in enumerate(MEANT):
        for query in (name, name.upper()):
            hits = few.search(query, 24, 0, Filters(explain=True))
            assert hits.ids[0] == identifier(number)
            assert hits.explanations is not None
            assert hits.explanations[0].is_exact_name


def test_an_explanation_adds_up(few: Snapshot) -> None:
    hits = few.search("stock prices and wheather", 24, 0, Filters(explain=True))
    assert hits.explanations is not None
    assert len(hits.explanations) == len(hits.ids)
    for each in hits.explanations:
        total = sum(word.score for word in each.words) + each.similarity_score
        assert each.score == pytest.approx(total)
        assert each.similarity is not None
    tally = hits.explanations[hits.ids.index(identifier(2))]
    assert {(word.word, word.term) for word in tally.words} == {
        ("stock", "stock"),
        ("prices", "price"),
    }


def test_without_vectors_an_explanation_has_words_alone(tmp_path: Path) -> None:
    snapshot = catalogue(tmp_path, MEANT)
    explanations = snapshot.search("market", 24, 0, Filters(explain=True)).explanations
    assert explanations is not None
    (each,) = explanations
    assert (each.similarity, each.similarity_score) == (None, 0)
    assert each.score == each.words[0].score > 0


def test_the_same_catalogue_has_the_same_vectors_with_any_number_of_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.segments.indexing.SMALLEST_PART", 20)
    records = [
        service(identifier(n), name=f"weather {n}", endpoints=[endpoint()] * (n % 3 + 1))
        for n in range(60)
    ]
    contents = []
    for jobs in ("1", "3"):
        folder = tmp_path / jobs
        folder.mkdir()
        snapshot = publish(folder, records, "--jobs", jobs)
        built = folder / "artifacts" / "snapshots" / snapshot.id
        paths = [path for path in built.rglob("*") if {"vectors", "encoder"} & {path.parent.name}]
        contents.append({path.relative_to(built): path.read_bytes() for path in paths})
    assert len(contents[0]) == 6 + 7 + 3
    assert contents[0] == contents[1]


def test_explanations_are_additions_to_the_json_on_request(few: Snapshot) -> None:
    plain, explained = (
        json.loads(list_body(few, each, asyncio.run(find(few, each))))
        for each in map(parse_search, (b"q=market", b"q=market&explain=true"))
    )
    explanations = explained.pop("explanations")
    assert explained == plain
    assert set(explanations[0]) == {
        *("score", "words", "similarity", "similarityScore", "isExactName"),
    }
    assert np.isfinite(explanations[0]["score"])


def test_a_service_with_many_similar_endpoints_leaves_room_for_others(tmp_path: Path) -> None:
    def described(count: int) -> list[Json]:
        return [endpoint() | {"description": "rain and storms", "method": "GET"}] * count

    crowd = service(identifier(0), name="Crowd", endpoints=described(60))
    others = [
        service(identifier(n), name=f"Other {n}", endpoints=described(1)) for n in range(1, 9)
    ]
    endpoints = publish(tmp_path, [crowd, *others]).endpoints
    for per_service, listed in ((0, 11), (1, 9), (3, 11)):
        filters = EndpointFilters(per_service=per_service, counted=("service",))
        hits = endpoints.search("thunder forecast", 24, 0, filters)
        assert (hits.total, hits.listed, len(hits.ordinals)) == (11, listed, listed)
        assert hits.facets is not None
        assert len(hits.facets["service"]) == 9


@pytest.mark.parametrize("reranked", [0, 5, 200])
def test_pages_agree_whatever_is_reranked(tmp_path: Path, reranked: int) -> None:
    documents = [("rain", f"storm {'and wind ' * (n % 9)}", "") for n in range(20)]
    documents += [("snow", "weather", "")] * 40
    source = [service(identifier(n), name=d[0], description=d[1]) for n, d in enumerate(documents)]
    snapshot = publish(tmp_path, source, "--set", f"reranked={reranked}")
    whole = snapshot.search("storm", 200, 0)
    assert whole.total == len(set(whole.ids)) == FILLED
    pages = [snapshot.search("storm", 4, offset) for offset in range(0, 28, 4)]
    assert [name for page in pages for name in page.ids] == whole.ids
    assert {page.total for page in pages} == {FILLED}
