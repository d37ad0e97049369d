"""The compiled ranking beside a slow, obvious one, and the promises of a page."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.snapshot.postings import compile_postings
from indexer.snapshot.whoosh_index import index_part
from service.search.analysis import term_of
from service.search.config import SEARCH_CONFIG
from service.search.filters import Filters
from service.search.postings import DENSE_SHARE
from service.search.searcher import Searcher
from service.search.stopwords import STOP_WORDS
from service.search.top_k import TopK
from service.snapshot.snapshot import Snapshot
from tests.support.running import Json, endpoint, service
from tests.support.searching import (
    IDENTIFIERS,
    WORDS,
    Document,
    ObviousRanking,
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
documents = st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=30)
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
    """A searcher, and the obvious ranking of the same documents."""

    searcher: Searcher
    obvious: ObviousRanking


Corpora = Callable[[int, int], Corpus]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Corpora:
    """Documents of words whose frequencies fall from a third of all to one, with many ties."""
    return cache(lambda size, most: make_corpus(tmp_path_factory.mktemp("corpus"), size, most))


@pytest.fixture(scope="module")
def many(corpora: Corpora) -> Corpus:
    return corpora(8000, 7)


def make_corpus(folder: Path, size: int, most: int) -> Corpus:
    """Documents of up to `most` words: with a description, or of a name alone if `most` is 2."""
    chance = np.random.default_rng(size)
    weights = 0.87 ** np.arange(len(WORDS))
    drawn = iter(chance.choice(WORDS, size * (most + 4), p=weights / weights.sum()).tolist())

    def texts(most: int) -> Iterator[str]:
        for count in chance.integers(1 if most == 1 else 0, most, size, endpoint=True).tolist():
            identifier = [chance.choice(IDENTIFIERS)] * int(chance.random() < 0.05)
            yield " ".join([*islice(drawn, count), *identifier])

    names, empty = texts(min(most, 2)), [""] * size
    others = (texts(most), texts(1)) if most > 2 else (empty, empty)
    known = list(zip(names, *others, strict=True))
    prior = chance.choice([0.0, 0.0, 0.3, 1.0], size).tolist()
    return Corpus(compiled(folder, known, prior), ObviousRanking(folder, known, prior))


def mask(documents: int, share: float | None) -> Any:
    return None if share is None else np.random.default_rng(3).random(documents) < share


def test_the_words_of_these_tests_are_terms_that_no_other_word_expands_to() -> None:
    assert [term_of(word) for word in WORDS] == WORDS
    assert not STOP_WORDS.intersection(WORDS)
    assert len({len(word) for word in WORDS}) == 1


@settings(max_examples=60, deadline=None)
@given(documents, priors, st.lists(short_queries, min_size=1, max_size=6), st.booleans())
def test_ranking_equals_obvious_bm25f_on_any_small_corpus(
    known: list[Document], prior: list[float], searches: list[list[str]], match_all: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        searcher = compiled(folder, known, prior[: len(known)])
        obvious = ObviousRanking(folder, known, prior)
        for words in searches:
            expected = obvious.ranking(words, match_all=match_all)
            assert rank_all(searcher, " ".join(words), match_all=match_all) == expected


@pytest.mark.parametrize(("size", "most"), [(1, 7), (41, 7), (300, 7), (8000, 7), (50_000, 2)])
@settings(max_examples=80, deadline=None)
@given(words=queries, share=shares, match_all=st.booleans(), limit=limits, offset=offsets)
def test_ranking_equals_obvious_bm25f_page_by_page(
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
    expected = corpus.obvious.ranking(words, allowed, match_all)
    top = rank(corpus.searcher, " ".join(words), limit, offset, allowed, match_all)
    assert top.total == len(expected)
    assert top.ordinals.tolist() == expected[offset : offset + limit]


@pytest.mark.parametrize("share", [None, 0.02])
@pytest.mark.parametrize("words", [WORDS[:1], WORDS[:2], WORDS[:40]])
def test_all_matches_of_a_large_corpus_are_ranked(
    corpora: Corpora, words: list[str], share: float | None
) -> None:
    corpus, allowed = corpora(50_000, 2), mask(50_000, share)
    order = rank_all(corpus.searcher, " ".join(words), allowed)
    assert order == corpus.obvious.ranking(words, allowed)


@pytest.mark.parametrize("size", [300, 8000])
def test_the_corpora_mix_dense_terms_and_rare_ones(corpora: Corpora, size: int) -> None:
    least = size * DENSE_SHARE
    frequencies = [len(corpora(size, 7).obvious.impacts(word)) for word in WORDS]
    assert sum(frequency > least for frequency in frequencies) > 10
    assert sum(0 < frequency <= least for frequency in frequencies) > 10


def test_sums_beyond_16_bits_are_exact(tmp_path: Path) -> None:
    """Half of the words of a name are in three of 81 documents, and dense; the others in one."""
    words = ["".join(letters) for letters in itertools.product("bcdfghjklmnprtvwxz", repeat=3)]
    shared, own = words[: 27 * 50], words[27 * 50 : 27 * 50 + 81 * 50]
    known = [(" ".join(shared[n // 3 * 50 :][:50] + own[n * 50 :][:50]), "", "") for n in range(81)]
    searcher, obvious = compiled(tmp_path, known), ObviousRanking(tmp_path, known, [0.0] * 81)
    query = shared[:32] + own[50:82]
    assert max(obvious.scores(query).values()) > np.iinfo(np.uint16).max
    assert rank_all(searcher, " ".join(query)) == obvious.ranking(query)
    assert rank(searcher, " ".join(query), 1).ordinals.tolist() == [1]


@settings(max_examples=40, deadline=None)
@given(queries, st.integers(20, 900), shares, st.booleans())
def test_pages_visit_every_match_once_and_in_one_order(
    many: Corpus, words: list[str], limit: int, share: float | None, match_all: bool
) -> None:
    searcher, query, allowed = many.searcher, " ".join(words), mask(8000, share)
    whole = rank(searcher, query, 8000, 0, allowed, match_all)
    pages = [
        rank(searcher, query, limit, offset, allowed, match_all)
        for offset in range(0, whole.total + limit, limit)
    ]
    assert [n for page in pages for n in page.ordinals.tolist()] == whole.ordinals.tolist()
    assert {page.total for page in pages} == {whole.total} == {len(set(whole.ordinals.tolist()))}


@settings(max_examples=60, deadline=None)
@given(queries.flatmap(lambda words: st.tuples(st.just(words), st.permutations(words))))
def test_the_order_of_the_words_does_not_matter(
    many: Corpus, orders: tuple[list[str], list[str]]
) -> None:
    # Not the name of a service, which is the query as a whole and depends on its order.
    one, other = (" ".join([*words, "zzz"]) for words in orders)
    for match_all in (False, True):
        assert rank_all(many.searcher, one, match_all=match_all) == rank_all(
            many.searcher, other, match_all=match_all
        )


@settings(max_examples=60, deadline=None)
@given(queries)
def test_repeated_words_count_once(many: Corpus, words: list[str]) -> None:
    once = " ".join([*dict.fromkeys(words), "zzz"])
    twice = " ".join([*words, *words, "zzz"])
    assert rank_all(many.searcher, twice) == rank_all(many.searcher, once)


def test_the_first_64_distinct_terms_count(many: Corpus) -> None:
    assert SEARCH_CONFIG.query_terms == 64
    searched, ignored = WORDS[:64], WORDS[64:]
    expected = many.obvious.ranking(searched)
    assert rank_all(many.searcher, " ".join(searched + ignored)) == expected
    assert rank_all(many.searcher, " ".join(searched * 3 + ignored)) == expected


@settings(max_examples=60, deadline=None)
@given(queries, shares, st.booleans())
def test_matches_are_what_the_total_counts(
    many: Corpus, words: list[str], share: float | None, match_all: bool
) -> None:
    plan = many.searcher.plan(" ".join(words), mask(8000, share), match_all=match_all)
    top = plan.rank(8000)
    assert len(top.ordinals) == top.total
    assert sorted(top.ordinals.tolist()) == np.flatnonzero(plan.matches()).tolist()


def test_threads_get_the_results_of_a_single_thread(many: Corpus) -> None:
    chance = np.random.default_rng(11)
    searches = [chance.choice(WORDS, chance.integers(1, 30)).tolist() for _ in range(60)]
    masks = [mask(8000, share) for share in (None, 0.5, 0.02)]
    tasks = [
        partial(rank, many.searcher, " ".join(words), 30, 0, allowed, match_all)
        for words, allowed, match_all in itertools.product(searches, masks, (False, True))
    ]
    alone = [plain(task()) for task in tasks]
    assert [plain(top) for top in in_threads(4, tasks * 5)] == alone * 5


def plain(top: TopK) -> tuple[int, list[int]]:
    return top.total, top.ordinals.tolist()


def test_threads_that_filter_get_the_results_of_a_single_thread(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    snapshot = priced(tmp_path_factory.mktemp("threads"), 400)
    all_filters = [
        Filters(
            {"category": [category]}, max_price=price, counted=("category",), match_all=every_word
        )
        for category in ("Data", "Search")
        for price in (None, 0.02)
        for every_word in (False, True)
    ]
    tasks = [
        partial(snapshot.search, query, 20, 0, filters)
        for query in ("weather", "weather maps", "seas maps radar", "raadr wether")
        for filters in all_filters
    ]
    alone = [(hits.total, hits.ids, hits.facets) for hits in (task() for task in tasks)]
    together = [(hits.total, hits.ids, hits.facets) for hits in in_threads(4, tasks * 6)]
    assert together == alone * 6


def priced(folder: Path, count: int) -> Snapshot:
    chance = np.random.default_rng(count)

    def record(number: int) -> Json:
        name = " ".join(chance.choice(["weather", "maps", "seas", "radar", "news"], 3))
        category = str(chance.choice(["Data", "Search", "Media"]))
        price = str(chance.choice(["0.01", "0.02", "0.03"]))
        return service(
            identifier(number), name=name, category=category, endpoints=[endpoint(price)]
        )

    return publish(folder, [record(number) for number in range(count)])


@settings(max_examples=40, deadline=None)
@given(documents, priors, st.lists(short_queries, min_size=1, max_size=4))
def test_a_prior_adds_at_most_its_bound_and_no_match(
    known: list[Document], prior: list[float], searches: list[list[str]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        searcher = compiled(Path(name), known, prior[: len(known)])
        unknown = ObviousRanking(Path(name), known, [0.0] * len(known))
        for words in searches:
            # Not the name of a service, which would be first whatever its score.
            query = " ".join([*words, "zzz"])
            relevance = unknown.scores(words)
            order = rank_all(searcher, query)
            assert set(order) == set(relevance)
            for before, after in itertools.combinations(order, 2):
                most = relevance[before] * (1 + SEARCH_CONFIG.prior_bound) + rounding(words)
                assert relevance[after] <= most


def rounding(words: Sequence[str]) -> int:
    """Impacts are integers: up to three per word, each rounded by up to a half, twice."""
    return 3 * len(words)


def known_and_unknown(
    folder: Path, famous: Document, obscure: Document, others: int = 9
) -> Snapshot:
    """A much-used and curated service, one without use, and others about something else."""
    quality = {"l30DaysTotalCalls": str(10**12), "l30DaysUniquePayers": "9"}
    records = [
        service(identifier(number), name=name, description=description, category=category, **fields)
        for number, (name, description, category), fields in [
            (0, famous, {"enriched": True, "endpoints": [endpoint() | {"quality": quality}]}),
            (1, obscure, {}),
            *((2 + n, ("other", "thing", ""), {}) for n in range(others)),
        ]
    ]
    return publish(folder, records)


def test_the_bound_of_the_prior_is_a_twentieth() -> None:
    assert SEARCH_CONFIG.prior_bound == 0.05


def test_the_more_popular_of_equal_matches_is_first(tmp_path: Path) -> None:
    snapshot = known_and_unknown(tmp_path, ("maps of seas", "", ""), ("maps of land", "", ""))
    assert positions(snapshot, "maps") == [0, 1]


@pytest.mark.parametrize(
    ("famous", "obscure"),
    [
        (("weather", "", ""), ("weather seas", "", "")),
        (("news", "weather at times", ""), ("weather", "", "")),
        (("weather weather weather", "", ""), ("seas", "the weather", "")),
    ],
)
def test_the_most_popular_service_never_passes_a_clearly_better_match(
    tmp_path: Path, famous: Document, obscure: Document
) -> None:
    snapshot = known_and_unknown(tmp_path, famous, obscure)
    assert positions(snapshot, "weather seas please")[0] == 1


def test_the_most_popular_service_does_not_match_words_that_it_lacks(tmp_path: Path) -> None:
    snapshot = known_and_unknown(tmp_path, ("maps", "of land", "Data"), ("seas", "", ""))
    assert positions(snapshot, "seas") == [1]


def test_a_name_weighs_more_than_a_description(tmp_path: Path) -> None:
    known = [("other", "seas", ""), ("seas", "other", ""), ("other", "other", "")]
    assert positions(catalogue(tmp_path, known), "seas") == [1, 0]


def test_a_category_is_searched_as_well(tmp_path: Path) -> None:
    assert positions(catalogue(tmp_path, [("one", "", ""), ("two", "", "Trading")]), "trading") == [
        1
    ]


def test_equal_scores_are_in_listing_order(tmp_path: Path) -> None:
    snapshot = catalogue(tmp_path, [("same", "thing", "")] * 150)
    assert positions(snapshot, "thing") == list(range(150))
    assert snapshot.search("thing", 10, 100).ids == [identifier(n) for n in range(100, 110)]


def test_match_all_requires_every_word(tmp_path: Path) -> None:
    known = [
        ("weather", "", ""),
        ("weather", "seas", ""),
        ("seas", "", ""),
        ("x", "seas", "weather"),
    ]
    hits = catalogue(tmp_path, known).search("weather seas", filters=Filters(match_all=True))
    assert (hits.total, sorted(hits.ids)) == (2, [identifier(1), identifier(3)])


@pytest.mark.parametrize("query", ["weather qqqqqqqqqqqqq", "qqqqqqqqqqqqq"])
def test_match_all_finds_nothing_when_no_service_has_a_word(tmp_path: Path, query: str) -> None:
    snapshot = catalogue(tmp_path, [("weather", "", "")])
    assert snapshot.search(query, filters=Filters(match_all=True)).total == 0


@pytest.mark.parametrize(
    "name", ["getWeatherData", "GPT4o", "a_b", "x-y", "R2D2", "天気予報", "3D"]
)
@pytest.mark.parametrize("description", ["", "of the seas"])
def test_match_all_finds_a_service_by_its_own_words(
    tmp_path: Path, name: str, description: str
) -> None:
    snapshot = catalogue(tmp_path, [(f"{name} tool", description, ""), ("other", "", "")])
    assert snapshot.search(name, filters=Filters(match_all=True)).ids == [identifier(0)]


def test_an_offset_past_the_end_is_empty(many: Corpus) -> None:
    for match_all in (False, True):
        top = rank(many.searcher, "blt", 10, 10**30, match_all=match_all)
        assert (top.total > 0, top.ordinals.tolist()) == (True, [])


def test_an_empty_catalogue_has_no_matches(tmp_path: Path) -> None:
    searcher = compiled(tmp_path, [])
    assert plain(rank(searcher, "anything", 10)) == (0, [])
    assert plain(rank(searcher, "anything at all", 10, match_all=True)) == (0, [])


@pytest.mark.parametrize("names", [["😀", "!!"], [f"{word} x" for word in WORDS], WORDS])
def test_a_catalogue_needs_neither_dense_terms_nor_any(tmp_path: Path, names: list[str]) -> None:
    snapshot = catalogue(tmp_path, [(name, "", "") for name in names])
    expected = [number for number, name in enumerate(names) if "blt" in name]
    assert positions(snapshot, "blt") == expected
    assert snapshot.list().total == len(names)


@pytest.mark.parametrize("sizes", [(60,), (1, 59), (20, 0, 30, 10)])
def test_an_index_in_any_number_of_parts_compiles_to_the_same_bytes(
    tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    known = [("weather maps", "of the seas", "Data"), ("seas", "weather", "")] * 30
    compiled(tmp_path, known)
    again, parts, first = tmp_path / "again", [], 0
    for number, size in enumerate(sizes):
        some = known[first : first + size]
        parts.append(index_part(tmp_path / str(number), some, first))
        first += size
    compile_postings(parts, [name for name, _, _ in known], np.zeros(len(known)), again)
    for path in (tmp_path / "postings").iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes(), path.name
