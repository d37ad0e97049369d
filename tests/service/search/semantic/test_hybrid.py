"""Ranking by words and meaning: equal to lexical ranking plus a weighted cosine, by brute force."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from service.api.services import SearchServices, find, list_body
from service.conditions import EndpointFilters, Filters
from service.search.config import SEARCH_CONFIG
from service.search.ranking import Ranking
from service.snapshot.data import EndpointHits
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.running import Json, build_snapshot_alone, endpoint, service
from tests.support.searching import (
    Document,
    catalogue,
    identifier,
    index_of,
    publish,
    rank_all,
    rank_endpoints,
)

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
    category=st.sampled_from([(), ("Data",), ("Media", "Search")]),
    match=st.sampled_from(["any", "all"]),
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
            endpoints=[
                endpoint() | {"url": f"https://a.example/{text(subject, 2)}"}
                for _ in range(rng.choice((0, 1, 1, 2, 5)))
            ],
        )

    records = [record(number) for number in range(300)]
    hybrid, lexical = (
        open_snapshot(
            build_snapshot_alone(tmp_path_factory.mktemp(name), records, semantic=semantic)
        )
        for name, semantic in (("hybrid", True), ("lexical", False))
    )
    return Both(hybrid, lexical)


class Scores(NamedTuple):
    """The BM25F of every document, less the penalty of its service, and its cosine."""

    words: list[float]
    cosines: list[float]
    weight: float


def scores_of(snapshot: Snapshot, query: str, *, match_all: bool) -> Scores:
    index, unit = index_of(snapshot), SEARCH_CONFIG.impact_scale
    assert index.groups is not None
    every = np.arange(index.parser.header.documents)
    parsed = index.parser.parse(query)
    ranking = Ranking(index.searched, parsed, by_group=True, match_all=match_all)
    sums = ranking.impacts_at(every).sum(axis=0)
    words = ((sums - index.groups.penalties[index.services]) / unit).tolist()
    if parsed.vector is None:
        return Scores(words, [], 0)
    vectors = index.searched.vectors
    assert vectors is not None
    cosines = vectors.similarities(parsed.vector, every).tolist()
    return Scores(words, cosines, parsed.similarity_weight / unit)


def best_documents(snapshot: Snapshot, query: str, asked: Filters) -> list[int]:
    """Return the best document of each service that is found, best first."""
    mask = snapshot.filters.mask(asked.given())
    return rank_all(index_of(snapshot), query, mask, asked.match == "all")


@given(query=queries, asked=filters)
@example(query="rain stock hotel doctor grammar", asked=Filters())
def test_the_ranking_is_that_of_words_plus_a_weighted_cosine(
    both: Both, query: str, asked: Filters
) -> None:
    found, lexical = (best_documents(snapshot, query, asked) for snapshot in both)
    words, cosines, weight = scores_of(both.hybrid, query, match_all=asked.match == "all")
    services = index_of(both.hybrid).services.tolist()
    hits = both.hybrid.search(query, 300, 0, asked)
    assert list(hits.ordinals) == [services[document] for document in found]
    assert hits.total == len(found) == len(set(hits.ordinals))
    owners = {services[document] for document in lexical}
    added = [document for document in found if services[document] not in owners]
    assert owners <= {services[document] for document in found}
    if not cosines:
        assert found == lexical
        return
    matching = {services[document] for document in lexical}
    allowed = {*both.hybrid.list(300, 0, Filters(category=asked.category)).ordinals}
    nearest: dict[int, int] = {}
    for document in sorted(range(len(services)), key=lambda n: (-round(cosines[n] * 65536), n)):
        if services[document] in allowed and cosines[document] >= 0.25:
            nearest.setdefault(services[document], document)
    near = dict([*nearest.items()][:FILLED])
    if asked.match == "all" or asked.category or len(lexical) >= FILLED:
        assert added == []
    else:
        others = [document for owner, document in near.items() if owner not in matching]
        got = sorted((cosines[document] for document in added), reverse=True)
        expected = [cosines[document] for document in others][: FILLED - len(lexical)]
        assert got == pytest.approx(expected, abs=1e-3)
    assert weight in (
        pytest.approx(SEARCH_CONFIG.similarity_weight),
        pytest.approx(SEARCH_CONFIG.similarity_weight * SEARCH_CONFIG.specific_weight),
    )
    explained = both.hybrid.search(query, 300, 0, replace(asked, explain=True)).explanations
    assert explained is not None
    exact = sum(each.is_exact_name for each in explained)
    assert {services[document] for document in found[:exact]} <= matching
    by_words = sorted(lexical, key=lambda n: (-words[n], n))
    candidates = [*by_words[:DEPTH], *(near[own] for own in near if own in matching), *added]
    total = {document: words[document] + weight * cosines[document] for document in candidates}
    best: dict[int, float] = {}
    for document in candidates:
        own = services[document]
        best[own] = max(best.get(own, -9.0), total[document])
    ranked = [document for document in found[exact:] if services[document] in best]
    scores = [total[document] for document in ranked]
    assert scores == pytest.approx([best[services[document]] for document in ranked], abs=2e-3)
    assert scores == pytest.approx(sorted(scores, reverse=True), abs=2e-3)
    first = {services[document] for document in found[:exact]}
    rest = [n for n in by_words[DEPTH:] if services[n] not in best and services[n] not in first]
    assert found[exact:] == ranked + rest
    # Similarities are added to these candidates alone, however long the page is.
    assert not any(each.similarity_score for each in explained[exact + len(ranked) :])


@given(query=queries, asked=filters, limit=st.integers(1, 30), offset=st.integers(0, 320))
def test_a_page_is_a_slice_of_the_ranking(
    both: Both, query: str, asked: Filters, limit: int, offset: int
) -> None:
    whole = both.hybrid.search(query, 300, 0, asked)
    page = both.hybrid.search(query, limit, offset, asked)
    assert page.total == whole.total
    assert list(page.ordinals) == list(whole.ordinals[offset : offset + limit])


@given(query=queries, asked=filters)
def test_similar_services_are_counted_and_in_no_facet_and_no_other_order(
    both: Both, query: str, asked: Filters
) -> None:
    whole = both.hybrid.search(query, 300, 0, replace(asked, facets=("category",)))
    matches = sorted(both.lexical.search(query, 300, 0, asked).ordinals)
    assert whole.similar == whole.total - len(matches)
    assert whole.facets is not None
    assert sum(int(each["count"]) for each in whole.facets["category"]) == len(matches)
    by_name = both.hybrid.search(query, 300, 0, replace(asked, facets=("category",), sort="name"))
    assert (by_name.total, by_name.similar, by_name.facets) == (len(matches), 0, whole.facets)
    assert sorted(by_name.ordinals) == matches


@given(query=queries, asked=filters)
def test_a_count_of_a_facet_is_the_total_of_its_filter(
    both: Both, query: str, asked: Filters
) -> None:
    asked = replace(asked, category=(), facets=("category",))
    counts = both.hybrid.search(query, 1, 0, asked).facets
    assert counts is not None
    for each in counts["category"]:
        found = both.hybrid.search(query, 1, 0, replace(asked, category=(str(each["value"]),)))
        assert (found.total, found.similar) == (each["count"], 0)
    endpoints = rank_endpoints(both.hybrid, query, 1, 0, EndpointFilters(facets=("category",)))
    assert endpoints.facets is not None
    for each in endpoints.facets["category"]:
        only = EndpointFilters(category=(str(each["value"]),))
        assert rank_endpoints(both.hybrid, query, 1, 0, only).total == each["count"]


@given(query=queries, per_service=st.integers(0, 2), limit=st.integers(1, 40))
def test_endpoints_are_ranked_alike_and_counted(
    both: Both, query: str, per_service: int, limit: int
) -> None:
    def found(snapshot: Snapshot, limit: int = 1000, **fields: Any) -> EndpointHits:
        return rank_endpoints(snapshot, query, limit, 0, EndpointFilters(**fields))

    every = found(both.hybrid, per_service=0)
    lexical = found(both.lexical, per_service=0)
    assert set(lexical.ordinals) <= set(every.ordinals)
    assert every.total == every.listed == len(every.ordinals)
    assert every.total <= max(lexical.total, FILLED)
    owner_of = both.hybrid.endpoints.service_of
    seen: Counter[int] = Counter()
    listed = []
    for ordinal in every.ordinals:
        seen[owner_of(ordinal)] += 1
        if not per_service or seen[owner_of(ordinal)] <= per_service:
            listed.append(ordinal)
    page = found(both.hybrid, limit, per_service=per_service, explain=True)
    assert (page.total, page.listed) == (every.total, len(listed))
    assert list(page.ordinals) == listed[:limit]
    assert page.explanations is not None
    scores = [each.score for each in page.explanations if each.similarity_score]
    assert scores == sorted(scores, reverse=True)
    by_price = found(both.hybrid, per_service=0, sort="price")
    assert sorted(by_price.ordinals) == sorted(lexical.ordinals)
    assert every.similar == every.total - lexical.total


@pytest.fixture(scope="module")
def meaningless(tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Documents that have the queries without meaning, beside others."""
    documents = [("weather", "rain and wind", "Data"), ("2024 in review", "17 doctors", "Data")]
    for query in MEANINGLESS:
        documents.append((f"pays {query}", "the stock market", "Search"))
        documents.append(("天气", f"预报 {query} погода", "Media"))
    folders = (tmp_path_factory.mktemp(name) for name in ("hybrid", "lexical"))
    return Both(
        catalogue(next(folders), documents, semantic=True), catalogue(next(folders), documents)
    )


@pytest.mark.parametrize("query", MEANINGLESS)
def test_a_query_without_meaning_ranks_as_without_vectors(meaningless: Both, query: str) -> None:
    hybrid, lexical = (snapshot.search(query, 24, 0) for snapshot in meaningless)
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
    parse = few.embedded.parser.parse
    unfinished, finished = parse("transla").vector, parse("translation").vector
    assert unfinished is not None
    assert finished is not None
    assert (unfinished.components == finished.components).all()
    assert parse("thisisnowordatall").vector is None


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
        words = sum(word.score for word in each.words)
        assert each.score == pytest.approx(words + each.similarity_score - each.size_penalty)
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
    monkeypatch.setattr("indexer.derive.deriving.SMALLEST_PART", 20)
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
        contents.append(
            [(built / each).read_bytes() for each in ("vectors.arrays", "encoder.arrays")]
        )
    assert contents[0] == contents[1]


def test_explanations_are_additions_to_the_json_on_request(few: Snapshot) -> None:
    plain, explained = (
        json.loads(bytes(list_body(few, each, asyncio.run(find(few, each)))))
        for each in (SearchServices(q="market"), SearchServices(q="market", explain=True))
    )
    explanations = explained.pop("explanations")
    assert explained.pop("similar") == 0
    explained.pop("fit", None)
    assert explained == plain
    assert set(explanations[0]) == {
        *("score", "words", "similarity", "similarityScore", "isExactName"),
        *("sizePenalty", "endpoint"),
    }
    assert np.isfinite(explanations[0]["score"])


def test_a_service_with_many_similar_endpoints_leaves_room_for_others(tmp_path: Path) -> None:
    def described(count: int) -> list[Json]:
        return [endpoint() | {"description": "rain and storms", "method": "GET"}] * count

    crowd = service(identifier(0), name="Crowd", endpoints=described(60))
    others = [
        service(identifier(n), name=f"Other {n}", endpoints=described(1)) for n in range(1, 9)
    ]
    snapshot = publish(tmp_path, [crowd, *others])
    for per_service, listed in ((0, 11), (1, 9), (3, 11)):
        filters = EndpointFilters(per_service=per_service, facets=("service",))
        hits = rank_endpoints(snapshot, "thunder forecast", 24, 0, filters)
        assert (hits.total, hits.listed, len(hits.ordinals)) == (11, listed, listed)
        assert hits.facets is not None
        assert (hits.similar, hits.facets["service"]) == (11, [])


@pytest.mark.parametrize(
    ("reranked", "filled"), [(0, FILLED), (5, FILLED), (200, FILLED), (0, 0), (200, 0)]
)
def test_pages_agree_whatever_is_reranked(tmp_path: Path, reranked: int, filled: int) -> None:
    documents = [("rain", f"storm {'and wind ' * (n % 9)}", "") for n in range(20)]
    documents += [("snow", "weather", "")] * 40
    source = [service(identifier(n), name=d[0], description=d[1]) for n, d in enumerate(documents)]
    options = ("--set", f"reranked={reranked}", "--set", f"filled_up_to={filled}")
    snapshot = publish(tmp_path, source, *options)
    whole = snapshot.search("storm", 200, 0)
    assert whole.total == len(set(whole.ids)) == (filled or 20)
    pages = [snapshot.search("storm", 4, offset) for offset in range(0, 28, 4)]
    assert [name for page in pages for name in page.ids] == whole.ids
    assert {page.total for page in pages} == {whole.total}


@pytest.mark.parametrize(
    "query", ["weather forecast", "data api for weather", "current bitcoin price", "image", "json"]
)
def test_the_first_rows_are_the_same_whatever_the_limit(sample: Path, query: str) -> None:
    snapshot = open_snapshot(sample)
    services, endpoints = snapshot.search(query, 200), snapshot.search_endpoints(query, 200)
    for limit in (1, 2, 5, 24):
        assert snapshot.search(query, limit).ids == services.ids[:limit]
        few = snapshot.search_endpoints(query, limit).ordinals
        assert [*few] == [*endpoints.ordinals[:limit]]
