"""Services ranked by the best of their documents, compared with brute force; exact names."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.conditions import Filters
from service.search.config import SEARCH_CONFIG
from service.search.groups import Ranked
from service.search.postings import Integers, Mask
from service.search.ranking import EXACT_NAMES
from service.search.top_k import Scorer, TopDocs, count_bits, unpack
from tests.support.running import endpoint, examples, service
from tests.support.searching import (
    ALL,
    IDENTIFIERS,
    WORDS,
    BruteForceRanking,
    Index,
    Service,
    compiled,
    identifier,
    publish,
    rank,
    rank_all,
)

pieces = st.sampled_from(WORDS[:8] + IDENTIFIERS[:2])
texts = st.lists(pieces, max_size=4).map(" ".join)
items = st.lists(st.tuples(texts, texts), max_size=4)
services = st.lists(st.builds(Service, texts, texts, texts, items, items), min_size=1, max_size=12)
priors = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=12, max_size=12)
queries = st.lists(
    st.one_of(
        st.lists(st.sampled_from(WORDS[:6]), min_size=1, max_size=3),
        st.lists(st.sampled_from(WORDS + IDENTIFIERS), min_size=1, max_size=12),
    ),
    min_size=1,
    max_size=4,
)
shares = st.sampled_from([None, 0.0, 0.3, 1.0])
MANY = 600


@pytest.fixture(scope="module", params=["endpoints", "endpoints and resources"])
def many(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Index, BruteForceRanking]:
    """Services of 0 to 200 endpoints: terms fall from a third of the documents to one."""
    rng = np.random.default_rng(5)
    weights = 0.87 ** np.arange(len(WORDS))
    words = iter(rng.choice(WORDS, 100 * MANY, p=weights / weights.sum()).tolist())

    def text(most: int) -> str:
        return " ".join(itertools.islice(words, int(rng.integers(0, most + 1))))

    def some(counts: Sequence[int]) -> list[tuple[str, str]]:
        return [(text(2), text(5)) for _ in range(rng.choice(counts))]

    others = [0, 0, 1, 3] if "resources" in request.param else [0]
    drawn = [
        Service(text(2), text(6), text(1), some([0, 1, 1, 2, 3, 8, 60]), some(others))
        for _ in range(MANY)
    ]
    drawn[7] = drawn[7]._replace(endpoints=[(text(2), text(5)) for _ in range(200)])
    prior = rng.choice([0.0, 0.0, 0.3, 1.0], MANY).tolist()
    index = compiled(tmp_path_factory.mktemp("many"), drawn, prior)
    assert index.groups is not None
    assert index.groups.is_split == ("resources" in request.param)
    return index, BruteForceRanking(drawn, prior)


def mask_of(units: int, share: float | None) -> Mask | None:
    return None if share is None else np.random.default_rng(3).random(units) < share


def services_of(index: Index, documents: Integers | Sequence[int]) -> list[int]:
    found: list[int] = index.services[np.array(documents, np.int64)].tolist()
    return found


@settings(max_examples=examples(80), deadline=None)
@given(services, priors, queries, shares, st.booleans())
def test_a_service_ranks_by_the_best_of_its_documents_less_its_penalty(
    drawn: list[Service],
    prior: list[float],
    searches: list[list[str]],
    share: float | None,
    match_all: bool,
) -> None:
    mask = mask_of(len(drawn), share)
    with tempfile.TemporaryDirectory() as name:
        index = compiled(Path(name), drawn, prior[: len(drawn)])
        brute_force = BruteForceRanking(drawn, prior)
        assert index.services.tolist() == brute_force.services
        for words in searches:
            expected = brute_force.ranking(words, mask, match_all)
            assert rank_all(index, " ".join(words), mask, match_all) == expected


@settings(max_examples=examples(80), deadline=None)
@given(services, priors, queries, shares, st.booleans())
def test_documents_alone_are_ranked_without_penalty_and_exact_names(
    drawn: list[Service],
    prior: list[float],
    searches: list[list[str]],
    share: float | None,
    match_all: bool,
) -> None:
    with tempfile.TemporaryDirectory() as name:
        index = compiled(Path(name), drawn, prior[: len(drawn)])
        brute_force = BruteForceRanking(drawn, prior)
        mask = mask_of(len(index.services), share)
        for words in searches:
            expected = brute_force.documents(words, mask, match_all)
            assert rank_all(index, " ".join(words), mask, match_all, by_group=False) == expected


@settings(max_examples=examples(100), deadline=None)
@given(queries, shares, st.booleans(), st.sampled_from([1, 2, 24, 200]), st.booleans())
def test_pages_totals_and_matches_of_many_services_are_exact(
    many: tuple[Index, BruteForceRanking],
    searches: list[list[str]],
    share: float | None,
    match_all: bool,
    limit: int,
    by_group: bool,
) -> None:
    index, brute_force = many
    mask = mask_of(MANY if by_group else len(index.services), share)
    for words in searches:
        ranked = brute_force.ranking if by_group else brute_force.documents
        expected = ranked(words, mask, match_all)
        ranking = index.ranking(" ".join(words), mask, by_group=by_group, match_all=match_all)
        for offset in (0, 1, limit, 5 * limit, len(expected), 10**30):
            page = ranking.page(limit, offset)
            assert page.total == len(expected)
            assert page.documents.tolist() == expected[offset : offset + limit]
        assert count_bits(ranking.matches()) == len(expected)
        found = services_of(index, expected) if by_group else expected
        matches = unpack(ranking.matches())
        assert np.flatnonzero(matches).tolist() == sorted(found)


def test_totals_of_a_frequent_word_and_a_rare_one_are_exact(
    many: tuple[Index, BruteForceRanking],
) -> None:
    """Random queries of many words seldom have a rare word that decides the total."""
    index, brute_force = many
    for words in itertools.product(WORDS[:4], WORDS[-12:]):
        for ranked, by_group in ((brute_force.ranking, True), (brute_force.documents, False)):
            page = index.ranking(" ".join(words), by_group=by_group).page(24, 0)
            assert page.total == len(ranked(list(words))), (words, by_group)


@settings(max_examples=examples(20), deadline=None)
@given(queries, st.integers(20, 300), shares, st.booleans())
def test_pages_one_after_another_are_the_whole_ranking(
    many: tuple[Index, BruteForceRanking],
    searches: list[list[str]],
    limit: int,
    share: float | None,
    match_all: bool,
) -> None:
    index, _ = many
    mask = mask_of(MANY, share)
    for words in searches:
        query = " ".join(words)
        whole = rank(index, query, ALL, 0, mask, match_all)
        pages = [
            rank(index, query, limit, offset, mask, match_all)
            for offset in range(0, whole.total + limit, limit)
        ]
        assert [n for page in pages for n in page.documents.tolist()] == whole.documents.tolist()
        assert {page.total for page in pages} == {len(set(services_of(index, whole.documents)))}


@settings(max_examples=examples(60), deadline=None)
@given(queries, st.sampled_from([1, 2, 3]), st.sampled_from([1, 5, 24]))
def test_a_listing_has_some_documents_of_each_service_and_counts_them(
    many: tuple[Index, BruteForceRanking], searches: list[list[str]], per_group: int, limit: int
) -> None:
    index, brute_force = many
    assert index.groups is not None
    header = index.parser.header
    is_endpoint = np.arange(header.documents) < header.endpoints
    for words in searches:
        matches = brute_force.documents(words, is_endpoint)
        seen: Counter[int] = Counter()
        expected = []
        for document in matches:
            owner = brute_force.services[document]
            seen[owner] += 1
            if seen[owner] <= per_group:
                expected.append(document)
        ranking = index.ranking(" ".join(words), is_endpoint, by_group=False)
        for offset in (0, 3, len(expected) - 1, len(expected), 2000):
            if offset < 0:
                continue
            listed = ranking.listing(index.groups, per_group, limit, offset)
            assert (listed.total, listed.listed) == (len(matches), len(expected))
            assert listed.documents.tolist() == expected[offset : offset + limit]


class Spy:
    """Notes how many of the best matches rankings ask for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ks: list[int] = []
        top = Scorer.top

        def spied(matches: Scorer, k: int) -> TopDocs:
            self.ks.append(k)
            return top(matches, k)

        monkeypatch.setattr(Scorer, "top", spied)


@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize("offset", [1000, 10**9, 10**30])
def test_an_offset_past_the_end_ranks_nothing(
    many: tuple[Index, BruteForceRanking],
    by_group: bool,
    offset: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index, brute_force = many
    words = WORDS[30:32]
    expected = brute_force.ranking(words) if by_group else brute_force.documents(words)
    spy = Spy(monkeypatch)
    ranking = index.ranking(" ".join(words), by_group=by_group)
    page = ranking.page(24, offset)
    assert (page.total, page.documents.tolist()) == (len(expected), [])
    assert 0 < page.total < 1000
    assert max(spy.ks, default=0) <= SEARCH_CONFIG.reranked


def named_alike(folder: Path, count: int, popular: int) -> Index:
    """Compile services of one name, of which one is well known, and others."""
    alike = [Service("Weather", "rain", "", [("now", "the rain")])] * count
    prior = [0.0] * count
    prior[popular] = 1.0
    matches = [Service(f"Thing {n}", "weather", "", [("x", "weather")]) for n in range(50)]
    others = [Service(f"Thing {n}", "seas", "", [("x", "land")]) for n in range(count)]
    return compiled(folder, [*alike, *matches, *others], prior + [0.0] * (50 + count))


def test_the_well_known_one_of_2000_services_named_alike_is_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = named_alike(tmp_path, 2000, 1777)
    looked_up: list[int] = []
    impacts_at = Scorer.impacts_at

    def spied(matches: Scorer, documents: Integers) -> Integers:
        looked_up.append(len(documents))
        return impacts_at(matches, documents)

    monkeypatch.setattr(Scorer, "impacts_at", spied)
    spy = Spy(monkeypatch)
    page = rank(index, "weather", 24)
    assert page.total == 2050
    assert services_of(index, page.documents)[0] == 1777
    assert len(set(services_of(index, page.documents))) == 24
    assert max(spy.ks) <= SEARCH_CONFIG.reranked
    assert sum(looked_up) <= 2 * EXACT_NAMES
    whole = rank_all(index, "weather")
    assert sorted(services_of(index, whole)) == [*range(2050)]


@pytest.mark.parametrize("named", [1, 2, EXACT_NAMES, EXACT_NAMES + 1, 30])
def test_at_most_three_services_with_the_exact_name_come_first_across_pages(
    tmp_path: Path, named: int
) -> None:
    assert EXACT_NAMES == 3
    better = [Service("maps maps of seas", "maps")] * 9
    index = compiled(tmp_path, [*better, *[Service("Maps")] * named])
    pages = [rank(index, "maps", 7, offset) for offset in range(0, 42, 7)]
    order = [n for page in pages for n in page.documents.tolist()]
    exact = min(named, EXACT_NAMES)
    assert order == [*range(9, 9 + exact), *range(9), *range(9 + exact, 9 + named)]


def test_exact_names_are_in_order_of_their_scores(tmp_path: Path) -> None:
    texts = ["of land", "maps", "maps maps", "of seas and of land"]
    index = compiled(tmp_path, [Service("Maps", text) for text in texts])
    assert rank_all(index, "maps")[:3] == [2, 1, 0]


def test_an_exact_name_that_the_mask_excludes_does_not_match(tmp_path: Path) -> None:
    index = compiled(tmp_path, [Service("Maps"), Service("other", "maps")])
    assert rank_all(index, "maps", np.array([False, True])) == [1]


def test_exact_names_are_among_services_alone(tmp_path: Path) -> None:
    """An endpoint does not come first for the name of its service."""
    drawn = [Service("Maps", "", "", [("land", "")]), Service("x", "", "", [("maps maps", "maps")])]
    index = compiled(tmp_path, drawn)
    assert rank_all(index, "maps") == [0, 1]
    assert rank_all(index, "maps", by_group=False) == [1, 0]


def test_an_exact_name_without_a_word_of_the_query_is_counted_once(tmp_path: Path) -> None:
    """The name is found by its key, whatever terms it has."""
    index = compiled(tmp_path, [Service("blt mnr"), Service("other", "bltmnr"), Service("x")])
    page = rank(index, "bltmnr", 10)
    assert page == Ranked(2, page.documents)
    assert page.documents.tolist() == [0, 1]
    matches = unpack(index.ranking("bltmnr").matches())
    assert np.flatnonzero(matches).tolist() == [0, 1]


@pytest.mark.parametrize("count", [1, 60, 61, 1000])
def test_a_service_of_many_endpoints_ranks_lower_by_the_logarithm_of_their_number(
    tmp_path: Path, count: int
) -> None:
    large = Service("Large", "", "", [("news", "of the seas")] * count)
    index = compiled(tmp_path, [large, Service("Small", "", "", [("news", "of the seas")])])
    unit = SEARCH_CONFIG.impact_scale
    penalty = index.ranking("seas").explain(np.array([0, count]), index.parser.term)
    assert [round(each.size_penalty * unit) for each in penalty] == [
        round(SEARCH_CONFIG.size_penalty * unit * float(np.log(max(1, count / 60)))),
        0,
    ]
    large_is_first = count <= 60
    assert services_of(index, rank_all(index, "seas")) == ([0, 1] if large_is_first else [1, 0])


def test_facets_of_services_add_up_to_the_total(tmp_path: Path) -> None:
    records = [
        service(
            identifier(n),
            name=f"Thing {n}",
            category="abc"[n % 3],
            endpoints=[
                endpoint() | {"description": "tides" if (n + m) % 4 else "sun"}
                for m in range(n % 5)
            ],
        )
        for n in range(60)
    ]
    snapshot = publish(tmp_path, records, "--no-semantic", "--quiet")
    for query in ("tides", "sun", "tides sun", "thing"):
        hits = snapshot.search(query, 200, 0, Filters(facets=("category",)))
        assert hits.facets is not None
        assert hits.total == len(set(hits.ids))
        counts = {each["value"]: int(each["count"]) for each in hits.facets["category"]}
        assert counts == {
            name: sum("abc"[int(each) % 3] == name for each in hits.ids) for name in counts
        }
        assert sum(counts.values()) == hits.total
