"""Compiled ranking compared with a brute-force BM25F, paging, and match=all."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.arrays.container import open_arrays
from service.conditions import Filters
from service.search.analysis import term_of
from service.search.config import SEARCH_CONFIG
from service.search.groups import Ranked
from service.search.postings import DenseList, PostingLists
from service.search.stopwords import STOP_WORDS
from service.search.top_k import count_bits, unpack
from service.snapshot.snapshot import Snapshot
from tests.support.running import Json, endpoint, examples, service
from tests.support.searching import (
    IDENTIFIERS,
    MATCHES,
    WORDS,
    BruteForceRanking,
    Document,
    Index,
    Service,
    catalogue,
    compiled,
    identifier,
    in_threads,
    positions,
    publish,
    rank,
    rank_all,
)

pieces = st.sampled_from(WORDS[:8] + IDENTIFIERS[:2])
texts = st.lists(pieces, max_size=6).map(" ".join)
small_corpora = st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=30)
priors = st.lists(st.sampled_from([0.0, 0.5, 0.9, 1.0]), min_size=30, max_size=30)
short_queries = st.lists(pieces, min_size=1, max_size=6)
queries = st.one_of(
    st.lists(st.sampled_from(WORDS + IDENTIFIERS), min_size=1, max_size=4),
    st.lists(st.sampled_from(WORDS[:12] + IDENTIFIERS), min_size=2, max_size=12),
    st.lists(st.sampled_from(WORDS[20:]), min_size=1, max_size=12),
    st.lists(st.sampled_from(WORDS), min_size=40, max_size=60),
)
shares = st.sampled_from([None, 0.0, 0.02, 0.5, 1.0])
limits = st.sampled_from([1, 2, 5, 24, 200])
offsets = st.sampled_from([0, 1, 3, 24, 300])


class Corpus(NamedTuple):
    """An index and a brute-force ranking of the same services."""

    searched: Index
    brute_force: BruteForceRanking


Corpora = Callable[[int, int], Corpus]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Corpora:
    """Corpora by size and length: term frequencies fall from a third to one document, with ties."""
    return cache(lambda size, most: make_corpus(tmp_path_factory.mktemp("corpus"), size, most))


@pytest.fixture(scope="module")
def many(corpora: Corpora) -> Corpus:
    return corpora(8000, 7)


def make_corpus(folder: Path, size: int, most: int) -> Corpus:
    """Draw documents of up to `most` words a field; if `most` is 2, of names only."""
    rng = np.random.default_rng(size)
    weights = 0.87 ** np.arange(len(WORDS))
    drawn = iter(rng.choice(WORDS, size * (most + 4), p=weights / weights.sum()).tolist())

    def texts(most: int) -> Iterator[str]:
        counts = rng.integers(1 if most == 1 else 0, most, size, endpoint=True).tolist()
        identifiers = rng.choice(IDENTIFIERS, size).tolist()
        for count, name, is_named in zip(counts, identifiers, rng.random(size) < 0.05, strict=True):
            yield " ".join([*islice(drawn, count), *([name] if is_named else [])])

    names, empty = texts(min(most, 2)), [""] * size
    others = (texts(most), texts(1)) if most > 2 else (empty, empty)
    drawn_documents = list(zip(names, *others, strict=True))
    prior = rng.choice([0.0, 0.0, 0.3, 1.0], size).tolist()
    return Corpus(
        compiled(folder, drawn_documents, prior), BruteForceRanking(drawn_documents, prior)
    )


def mask(documents: int, share: float | None) -> Any:
    return None if share is None else np.random.default_rng(3).random(documents) < share


def test_the_test_words_are_terms_without_expansions() -> None:
    assert [term_of(word) for word in WORDS] == WORDS
    assert not STOP_WORDS.intersection(WORDS)
    assert len({len(word) for word in WORDS}) == 1


@settings(max_examples=examples(60), deadline=None)
@given(small_corpora, priors, st.lists(short_queries, min_size=1, max_size=6), st.booleans())
def test_ranking_equals_brute_force_bm25f_on_small_corpora(
    drawn: list[Document], prior: list[float], searches: list[list[str]], match_all: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        index = compiled(Path(name), drawn, prior[: len(drawn)])
        brute_force = BruteForceRanking(drawn, prior)
        for words in searches:
            expected = brute_force.ranking(words, match_all=match_all)
            assert rank_all(index, " ".join(words), match_all=match_all) == expected


@pytest.mark.parametrize(("size", "most"), [(1, 7), (41, 7), (300, 7), (8000, 7), (50_000, 2)])
@settings(max_examples=examples(80), deadline=None)
@given(words=queries, share=shares, match_all=st.booleans(), limit=limits, offset=offsets)
def test_pages_equal_brute_force_bm25f(
    corpora: Corpora,
    size: int,
    most: int,
    words: list[str],
    share: float | None,
    match_all: bool,
    limit: int,
    offset: int,
) -> None:
    corpus, allowed = corpora(size, most), mask(size, share)
    expected = corpus.brute_force.ranking(words, allowed, match_all)
    top = rank(corpus.searched, " ".join(words), limit, offset, allowed, match_all)
    assert top.total == len(expected)
    assert top.documents.tolist() == expected[offset : offset + limit]


@pytest.mark.parametrize("share", [None, 0.02])
@pytest.mark.parametrize("words", [WORDS[:1], WORDS[:2], WORDS[:40]])
def test_all_matches_of_a_large_corpus_are_ranked_like_brute_force(
    corpora: Corpora, words: list[str], share: float | None
) -> None:
    corpus, allowed = corpora(50_000, 2), mask(50_000, share)
    order = rank_all(corpus.searched, " ".join(words), allowed)
    assert order == corpus.brute_force.ranking(words, allowed)


@pytest.mark.parametrize("size", [300, 8000])
def test_the_corpora_have_dense_and_rare_terms(corpora: Corpora, size: int) -> None:
    threshold = size * SEARCH_CONFIG.dense_share
    brute_force = corpora(size, 7).brute_force
    frequencies = [np.count_nonzero(brute_force.impacts(word)) for word in WORDS]
    assert sum(frequency > threshold for frequency in frequencies) > 10
    assert sum(0 < frequency <= threshold for frequency in frequencies) > 10


def test_sums_beyond_16_bits_are_exact(tmp_path: Path) -> None:
    """Index names whose words are half dense (in three of 81 documents), half in one document."""
    words = ["".join(letters) for letters in itertools.product("bcdfghjklmnprtvwxz", repeat=3)]
    shared, own = words[: 27 * 50], words[27 * 50 : 27 * 50 + 81 * 50]
    names = [(" ".join(shared[n // 3 * 50 :][:50] + own[n * 50 :][:50]), "", "") for n in range(81)]
    index, brute_force = compiled(tmp_path, names), BruteForceRanking(names)
    query = shared[:32] + own[50:82]
    assert brute_force.scores(query).max() > np.iinfo(np.uint16).max
    assert rank_all(index, " ".join(query)) == brute_force.ranking(query)
    assert rank(index, " ".join(query), 1).documents.tolist() == [1]


@settings(max_examples=examples(40), deadline=None)
@given(queries, st.integers(20, 900), shares, st.booleans())
def test_paging_returns_every_match_once_in_ranking_order(
    many: Corpus, words: list[str], limit: int, share: float | None, match_all: bool
) -> None:
    index, query, allowed = many.searched, " ".join(words), mask(8000, share)
    whole = rank(index, query, 8000, 0, allowed, match_all)
    pages = [
        rank(index, query, limit, offset, allowed, match_all)
        for offset in range(0, whole.total + limit, limit)
    ]
    assert [n for page in pages for n in page.documents.tolist()] == whole.documents.tolist()
    assert {page.total for page in pages} == {whole.total} == {len(set(whole.documents.tolist()))}


@settings(max_examples=examples(60), deadline=None)
@given(queries.flatmap(lambda words: st.tuples(st.just(words), st.permutations(words))))
def test_the_order_of_the_words_does_not_matter(
    many: Corpus, orders: tuple[list[str], list[str]]
) -> None:
    # `zzz` keeps the query from being the name of a service, which depends on the word order.
    one, other = (" ".join([*words, "zzz"]) for words in orders)
    for match_all in (False, True):
        assert rank_all(many.searched, one, match_all=match_all) == rank_all(
            many.searched, other, match_all=match_all
        )


@settings(max_examples=examples(60), deadline=None)
@given(queries)
def test_repeated_words_count_once(many: Corpus, words: list[str]) -> None:
    once = " ".join([*dict.fromkeys(words), "zzz"])
    twice = " ".join([*words, *words, "zzz"])
    assert rank_all(many.searched, twice) == rank_all(many.searched, once)


def test_terms_beyond_64_distinct_ones_are_ignored(many: Corpus) -> None:
    assert SEARCH_CONFIG.query_terms == 64
    searched, ignored = WORDS[:64], WORDS[64:]
    expected = many.brute_force.ranking(searched)
    assert rank_all(many.searched, " ".join(searched + ignored)) == expected
    assert rank_all(many.searched, " ".join(searched * 3 + ignored)) == expected


@settings(max_examples=examples(60), deadline=None)
@given(queries, shares, st.booleans())
def test_the_total_is_the_number_of_matches(
    many: Corpus, words: list[str], share: float | None, match_all: bool
) -> None:
    ranking = many.searched.ranking(" ".join(words), mask(8000, share), match_all=match_all)
    top = ranking.page(8000)
    assert len(top.documents) == top.total == count_bits(ranking.matches())
    matches = unpack(ranking.matches())
    assert sorted(top.documents.tolist()) == np.flatnonzero(matches).tolist()


def test_concurrent_searches_have_the_results_of_sequential_ones(many: Corpus) -> None:
    rng = np.random.default_rng(11)
    searches = [rng.choice(WORDS, rng.integers(1, 30)).tolist() for _ in range(60)]
    masks = [mask(8000, share) for share in (None, 0.5, 0.02)]
    tasks = [
        partial(rank, many.searched, " ".join(words), 30, 0, allowed, match_all)
        for words, allowed, match_all in itertools.product(searches, masks, (False, True))
    ]
    sequential = [plain(task()) for task in tasks]
    assert [plain(top) for top in in_threads(4, tasks * 5)] == sequential * 5


def plain(top: Ranked) -> tuple[int, list[int]]:
    return top.total, top.documents.tolist()


def test_concurrent_filtered_searches_have_the_results_of_sequential_ones(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    snapshot = priced(tmp_path_factory.mktemp("threads"), 400)
    all_filters = [
        Filters(category=(category,), max_price=price, facets=("category",), match=match)
        for category in ("Data", "Search")
        for price in (None, 0.02)
        for match in MATCHES
    ]
    tasks = [
        partial(snapshot.search, query, 20, 0, filters)
        for query in ("weather", "weather maps", "seas maps radar", "raadr wether")
        for filters in all_filters
    ]
    sequential = [(hits.total, hits.ids, hits.facets) for hits in (task() for task in tasks)]
    concurrent = [(hits.total, hits.ids, hits.facets) for hits in in_threads(4, tasks * 6)]
    assert concurrent == sequential * 6


def priced(folder: Path, count: int) -> Snapshot:
    rng = np.random.default_rng(count)

    def record(number: int) -> Json:
        name = " ".join(rng.choice(["weather", "maps", "seas", "radar", "news"], 3))
        category = str(rng.choice(["Data", "Search", "Media"]))
        price = str(rng.choice(["0.01", "0.02", "0.03"]))
        return service(
            identifier(number), name=name, category=category, endpoints=[endpoint(price)]
        )

    return publish(folder, [record(number) for number in range(count)])


def test_a_name_weighs_more_than_a_description(tmp_path: Path) -> None:
    documents = [("other", "seas", ""), ("seas", "other", ""), ("other", "other", "")]
    assert positions(catalogue(tmp_path, documents), "seas") == [1, 0]


def test_words_of_an_endpoint_weigh_by_the_member_that_has_them(
    tmp_path: Path,
) -> None:
    def described(name: str = "plain", description: str = "plain") -> list[Json]:
        return [{"name": name, "type": "string", "group": "query", "description": description}]

    plain = {"url": "https://a.example/plain", "description": "plain", "parameters": described()}
    weakest_first: list[Json] = [
        {"parameters": described(description="turbine")},
        {"parameters": described(name="turbine")},
        {"description": "turbine"},
        {"url": "https://a.example/turbine"},
        *({"url": f"https://a.example/{number}"} for number in range(9)),
    ]
    records = [
        service(identifier(number), endpoints=[endpoint() | plain | members])
        for number, members in enumerate(weakest_first)
    ]
    assert positions(publish(tmp_path, records, "--no-semantic"), "turbine") == [3, 2, 1, 0]


def test_the_category_is_searched(tmp_path: Path) -> None:
    assert positions(catalogue(tmp_path, [("one", "", ""), ("two", "", "Trading")]), "trading") == [
        1
    ]


def test_equal_scores_are_in_listing_order(tmp_path: Path) -> None:
    snapshot = catalogue(tmp_path, [("same", "thing", "")] * 150)
    assert positions(snapshot, "thing") == list(range(150))
    assert snapshot.search("thing", 10, 100).ids == [identifier(n) for n in range(100, 110)]


def test_match_all_requires_every_word(tmp_path: Path) -> None:
    documents = [
        ("weather", "", ""),
        ("weather", "seas", ""),
        ("seas", "", ""),
        ("x", "seas", "weather"),
    ]
    hits = catalogue(tmp_path, documents).search("weather seas", filters=Filters(match="all"))
    assert (hits.total, sorted(hits.ids)) == (2, [identifier(1), identifier(3)])


@pytest.mark.parametrize("query", ["weather qqqqqqqqqqqqq", "qqqqqqqqqqqqq"])
def test_match_all_has_no_matches_with_an_unknown_word(tmp_path: Path, query: str) -> None:
    snapshot = catalogue(tmp_path, [("weather", "", "")])
    assert snapshot.search(query, filters=Filters(match="all")).total == 0


NAMES = ["getWeatherData", "GPT4o", "a_b", "x-y", "R2D2", "天気予報", "3D"]


@pytest.fixture(scope="module", params=["", "of the seas"])
def named(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """Services with these names, all of one description."""
    documents = [(f"{name} tool", request.param, "") for name in NAMES]
    return catalogue(tmp_path_factory.mktemp("named"), documents)


@pytest.mark.parametrize("name", NAMES)
def test_match_all_matches_a_service_by_the_words_of_its_name(named: Snapshot, name: str) -> None:
    hits = named.search(name, filters=Filters(match="all"))
    assert hits.ids == [identifier(NAMES.index(name))]


def test_an_offset_past_the_end_is_empty(many: Corpus) -> None:
    for match_all in (False, True):
        top = rank(many.searched, "blt", 10, 10**30, match_all=match_all)
        assert (top.total > 0, top.documents.tolist()) == (True, [])


def test_an_empty_catalogue_has_no_matches(tmp_path: Path) -> None:
    index = compiled(tmp_path, [])
    assert plain(rank(index, "anything", 10)) == (0, [])
    assert plain(rank(index, "anything at all", 10, match_all=True)) == (0, [])


@pytest.mark.parametrize("names", [["😀", "!!"], [f"{word} x" for word in WORDS], WORDS])
def test_catalogues_without_terms_or_without_dense_terms(tmp_path: Path, names: list[str]) -> None:
    snapshot = catalogue(tmp_path, [(name, "", "") for name in names])
    expected = [number for number, name in enumerate(names) if "blt" in name]
    assert positions(snapshot, "blt") == expected
    assert snapshot.list().total == len(names)


def test_completions_of_frequent_words_are_not_turned_into_postings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frequent = [f"database{letter}" for letter in "bcdfg"]
    index = compiled(tmp_path, [Service(f"n{n}", frequent[n % 5]) for n in range(400)])
    lists = PostingLists(open_arrays(tmp_path / "index.arrays"))
    terms = index.parser.parse("databa").expansions[0].terms
    assert len(terms) == len(frequent)
    assert all(isinstance(each, DenseList) for each in lists.of_terms(terms))

    def fail(_: DenseList) -> NoReturn:
        raise AssertionError("a dense column was turned into postings")

    monkeypatch.setattr(DenseList, "ordinals", property(fail))
    assert rank(index, "databa", 24).total == 400
