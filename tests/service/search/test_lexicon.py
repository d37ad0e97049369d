"""Query expansion: completion, correction, exact names, scripts and stop words."""

from __future__ import annotations

import math
import tempfile
import tracemalloc
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, permutations, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance.OSA import distance as edit_distance

from indexer.index.lexicon import lexicon_arrays, name_arrays
from service.arrays.container import open_arrays, write_arrays
from service.conditions import Filters
from service.search import spelling
from service.search.analysis import query_words
from service.search.config import SEARCH_CONFIG
from service.search.postings import FULL_WEIGHT, Header
from service.search.query import Expansion, QueryParser
from service.search.spelling import COMPARED, letters_of
from service.snapshot.snapshot import Snapshot
from tests.support.running import examples
from tests.support.searching import (
    Document,
    catalogue,
    compiled,
    edits,
    identifier,
    positions,
    rank_all,
)

CATALOGUE = [
    ("Weather Forecasts", "Daily forecasts of the weather", "Data"),
    ("Crypto Prices", "Prices of crypto currencies", "Trading"),
    ("Image Generation", "Generates images from text", "Media"),
    ("Generator of Names", "Generator", "Media"),
    ("YouTube transcripts", "Captions of videos", "Media"),
    ("GPT4o", "A language model", "Inference"),
    ("Reporting", "report report", "Data"),
    ("天気予報", "東京の天気", "Data"),
    ("😀", "", ""),
    ("To be or not to be", "", ""),
    ("Zebra", "striped zbra", ""),
    ("get_exchange_rate", "", "Data"),
    ("Café Finder", "Restaurants in São Paulo", ""),
    ("환율 조회", "실시간 환율", "Data"),
    *[("Plain", "zebra", "")] * 50,
]
# Cyrillic letters, as words in them are not stemmed.
letters = st.text(alphabet="абвг", min_size=3, max_size=9)


def expander_of(
    folder: Path, of_documents: Sequence[int], of_services: Mapping[str, int], count: int
) -> QueryParser:
    """Write and open the expander of words that are their own terms, of so many documents."""
    documents, services = np.array(of_documents), np.array([*of_services.values()])
    terms = [word.encode() for word in of_services]
    entries = [b"%b %b" % (term, term) for term in terms]
    arrays = lexicon_arrays(entries, terms, documents, services) | name_arrays([])
    write_arrays(folder / "index.arrays", arrays)
    return QueryParser(
        open_arrays(folder / "index.arrays"), Header(count, 0, count, len(terms), SEARCH_CONFIG)
    )


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return catalogue(tmp_path_factory.mktemp("expansion"), CATALOGUE)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("cryp", 1),
        ("curren", 1),
        ("wether forcast", 0),
        ("weatehr", 0),
        ("generatoin image", 2),
        ("transcirpt", 4),
        ("youtube", 4),
        ("you tube", 4),
        ("YouTube", 4),
        ("YOUTUBE", 4),
        ("gpt-4o", 5),
        ("gpt 4o", 5),
        ("GPT4O", 5),
        ("gpt4o", 5),
        ("天気", 7),
        ("気予", 7),
        ("予", 7),
        ("東京", 7),
        ("조회", 13),
        ("the weather please", 0),
        ("WÉATHER", 0),
        ("exchange rate", 11),
        ("getExchangeRate", 11),
        ("get-exchange-rate", 11),
        ("sao paulo", 12),
        ("CAFE", 12),
        ("Sa\u0303o", 12),
        ("to be or not", 9),
        ("TO BE", 9),
    ],
)
def test_the_top_hit_of_a_query(snapshot: Snapshot, query: str, expected: int) -> None:
    assert positions(snapshot, query)[0] == expected


def test_a_name_without_letters_is_listed_and_not_searched(snapshot: Snapshot) -> None:
    assert identifier(8) in snapshot.list(200).ids
    assert snapshot.search("😀").total == 0


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    documents = [("weather", "forecasts", ""), ("zebra", "4021", ""), ("other", "403", "")]
    return catalogue(tmp_path_factory.mktemp("near"), documents)


@pytest.mark.parametrize(
    ("query", "matches"),
    [
        ("wether", True),  # one edit
        ("waether", True),  # a transposition is one edit
        ("weateh", False),  # two edits in six letters
        ("forcsats", True),  # two edits in eight letters
        ("firecstas", False),  # three
        ("zera", True),  # one edit in four letters
        ("zeb", True),  # a prefix of three letters
        ("ze", False),
        ("zba", False),  # one edit in three letters
        ("402", False),  # numbers are neither completed nor corrected
    ],
)
def test_a_word_is_completed_or_corrected_within_limits(
    near: Snapshot, query: str, matches: bool
) -> None:
    assert (near.search(query).total > 0) is matches


@st.composite
def misspellings(draw: st.DrawFn) -> tuple[list[str], str]:
    """Draw some words, and one of them after a few edits."""
    words = draw(st.lists(letters, min_size=1, max_size=12, unique=True))
    text = list(words[0])
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(text)))
        edit = draw(st.sampled_from(["insert", "delete", "substitute", "swap", "cut"]))
        if edit == "insert":
            text.insert(place, draw(st.sampled_from("абвг")))
        elif edit == "substitute":
            text[place : place + 1] = draw(st.sampled_from("абвг"))
        elif edit == "swap":
            text[place : place + 2] = reversed(text[place : place + 2])
        elif edit == "delete":
            del text[place : place + 1]
        else:
            del text[max(place, 1) :]
    return words, "".join(text)


@settings(max_examples=examples(150), deadline=None)
@given(misspellings())
def test_a_misspelt_word_matches_its_completions_and_corrections(
    case: tuple[list[str], str],
) -> None:
    words, query = case
    with tempfile.TemporaryDirectory() as name:
        searcher = compiled(Path(name), [(word, "", "") for word in words])
        assert sorted(rank_all(searcher, query)) == [
            number for number, word in enumerate(words) if word in expansion(query, words)
        ]


def expansion(query: str, words: list[str]) -> set[str]:
    """Return a known word, or the completions of an unknown one and its nearest corrections."""
    if query in words:
        return {query}
    completed = {word for word in words if query and word.startswith(query)}
    for most in range(1, 1 + (len(query) >= 4) + (len(query) >= 8)):
        corrected = {word for word in words if edits(query, word) <= most}
        if corrected:
            return completed | corrected
    return completed


def test_edit_distance_of_all_short_words_equals_its_textbook_definition() -> None:
    words = ["".join(word) for size in range(5) for word in product("abc", repeat=size)]
    for left, right in product(words, repeat=2):
        distance = edits(left, right)
        for most in (1, 2):
            assert edit_distance(left, right, score_cutoff=most) == min(distance, most + 1), (
                left,
                right,
                most,
            )


@given(st.text("abc", max_size=9), st.text("abc", max_size=9), st.sampled_from([1, 2]))
def test_edit_distance_equals_its_textbook_definition(left: str, right: str, most: int) -> None:
    assert edit_distance(left, right, score_cutoff=most) == min(edits(left, right), most + 1)


@given(st.text("abcdefghäß", max_size=9), st.text("abcdefghäß", max_size=9))
def test_an_edit_changes_at_most_two_letters_of_a_set(left: str, right: str) -> None:
    different = (letters_of(left) ^ letters_of(right)).bit_count()
    assert different <= 2 * edits(left, right) - abs(len(left) - len(right))


def with_two_edits(query: str) -> set[str]:
    """Return words that two substitutions lead to: they share remainders with the query."""
    return {
        query[:i] + left + query[i + 1 : j] + right + query[j + 1 :]
        for i, j in combinations(range(len(query)), 2)
        for left, right in product("äöüß", repeat=2)
    }


@pytest.mark.parametrize(
    ("query", "correction", "hostile"),
    [
        ("weatherforecasstz", "weatherforecasts", with_two_edits("weatherforecasstz")),
        ("abcdefghijklmnopqrst", "abcdefghijklmnopqruv", with_two_edits("abcdefghijklmnopqrst")),
    ],
)
def test_many_words_near_a_misspelt_one_neither_hide_its_correction_nor_take_time(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    correction: str,
    hostile: set[str],
) -> None:
    frequencies = {word: 1 + 8 * (word == correction) for word in sorted([*hostile, correction])}
    compared = []

    def count(left: str, right: str, *, score_cutoff: int) -> int:
        compared.append(right)
        return edit_distance(left, right, score_cutoff=score_cutoff)

    monkeypatch.setattr(spelling, "edit_distance", count)
    expander = expander_of(tmp_path, [*frequencies.values()], frequencies, 10_000)
    (expansion,) = expander.expand(query_words(query))
    assert len(hostile) > 1000
    assert expansion.alternative == correction
    assert len(compared) <= 2 * COMPARED


def test_a_word_that_exists_is_not_expanded(tmp_path: Path) -> None:
    documents = [("form", "", "")] * 3 + [("farm", "", "")] * 150 + [("formal", "", "")]
    assert positions(catalogue(tmp_path, documents), "form") == [0, 1, 2]


WORDY = [
    *[("Weather", "maps of the sea with wind for your boat", "")] * 3,
    *[("Other", "made for you with your own data", "")] * 60,
    ("Withings", "scales", ""),
    ("AED", "finder of defibrillators", ""),
    ("ToS", "reader", ""),
    ("Wight", "island", ""),
    ("Forrester", "reports", ""),
]


@pytest.fixture(scope="module")
def wordy(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return catalogue(tmp_path_factory.mktemp("wordy"), WORDY)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("withings", [63]),
        ("aed", [64]),
        ("tos", [65]),
        ("wit", [63]),  # not "with"
        ("weather wiht maps", [0, 1, 2, 66]),
        ("weather yuor", [0, 1, 2]),
        ("weather forr", [0, 1, 2, 67]),
        ("wiht", [66]),
        ("yuor", []),
    ],
)
def test_content_words_are_not_taken_for_stop_words(
    wordy: Snapshot, query: str, expected: list[int]
) -> None:
    assert sorted(positions(wordy, query)) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("weather wiht maps", [0, 1, 2]),  # with, rather than Wight
        ("weather yuor", [0, 1, 2]),  # your
        ("weather yuors", []),  # yours, which no service has
        ("weather forr", []),  # Forrester, unfinished
        ("weather wight", []),
        ("wiht", [66]),
        ("yuor", []),
    ],
)
def test_a_misspelt_stop_word_is_no_required_word(
    wordy: Snapshot, query: str, expected: list[int]
) -> None:
    hits = wordy.search(query, filters=Filters(match="all"))
    assert sorted(map(int, hits.ids)) == expected


def test_rare_and_likely_words_are_those_of_few_and_of_many_services(tmp_path: Path) -> None:
    documents = {"forecaster": 90, "forecasts": 40, "weathar": 90, "weather": 90, "zebra": 2}
    services = {"forecaster": 2, "forecasts": 40, "weathar": 2, "weather": 90, "zebra": 2}
    expander = expander_of(tmp_path, [*documents.values()], services, 1000)

    def expand(word: str) -> Expansion:
        (expansion,) = expander.expand(query_words(word))
        return expansion

    unfinished = expand("foreca")
    assert unfinished.alternative == "forecasts"
    assert [expander.terms[term] for term, _ in unfinished.terms] == ["forecasts", "forecaster"]
    for word, is_specific in [("weathar", True), ("zebra", True), ("weather", False)]:
        assert expander.is_specific([expand(word)]) is is_specific


def test_of_two_equally_rare_completions_the_one_of_more_services_weighs_more(
    tmp_path: Path,
) -> None:
    expander = expander_of(tmp_path, [40, 40], {"forecaster": 3, "forecasts": 15}, 1000)
    (expansion,) = expander.expand(query_words("foreca"))
    (one, more), (other, less) = expansion.terms
    assert [expander.terms[one], expander.terms[other]] == ["forecasts", "forecaster"]
    assert more / less == pytest.approx(2, rel=0.01)  # log(1 + 15) / log(1 + 3)


def test_a_rare_completion_scores_no_more_than_a_frequent_one(tmp_path: Path) -> None:
    expander = expander_of(tmp_path, [400, 4], {"forecaster": 4, "forecasts": 4}, 1000)
    (expansion,) = expander.expand(query_words("foreca"))
    weights = {expander.terms[term]: weight for term, weight in expansion.terms}
    idfs = [math.log(1 + (1000 - n + 0.5) / (n + 0.5)) for n in (400, 4)]
    assert weights["forecaster"] / weights["forecasts"] == pytest.approx(
        idfs[1] / idfs[0], rel=0.01
    )


def test_a_correction_of_one_edit_weighs_more_than_one_of_two(tmp_path: Path) -> None:
    expander = expander_of(tmp_path, [40], {"weathered": 9}, 1000)
    weights = [
        weight
        for word in ("weathered", "waethered", "waetherid")
        for expansion in expander.expand(query_words(word))
        for _, weight in expansion.terms
    ]
    shares = (1, SEARCH_CONFIG.one_edit_weight, SEARCH_CONFIG.two_edits_weight)
    assert weights == [round(share * FULL_WEIGHT) for share in shares]
    assert shares[1] > shares[2]


def test_a_word_with_many_completions_is_required(tmp_path: Path) -> None:
    names = [f"forecast{letter}" for letter in "bcdfghjklmnpqrstvwxz"]
    documents = [*((f"{name} of weather", "", "") for name in names), ("weather", "", "")]
    snapshot = catalogue(tmp_path, documents)
    every, all_words = (
        {
            *map(
                int,
                snapshot.search(
                    "foreca weather", filters=Filters(match="all" if match_all else "any")
                ).ids,
            )
        }
        for match_all in (False, True)
    )
    assert len(documents) - 1 in every - all_words
    assert len(all_words) == SEARCH_CONFIG.candidates


def test_long_unknown_words_do_not_fill_memory(tmp_path: Path) -> None:
    snapshot = catalogue(tmp_path, [("weather", "", "")])
    queries = ["x" * 1990 + "".join(letters) for letters in product("abcdefghij", repeat=3)]
    snapshot.search(queries[0])
    tracemalloc.start()
    for query in queries:
        snapshot.search(query)
    bytes_in_use, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert bytes_in_use < 100_000


def test_an_exact_term_outweighs_a_correction_and_a_completion(tmp_path: Path) -> None:
    others = [("other", "", "")] * 20
    for documents, query in [
        ([("seas", "", ""), ("weather", "", "")], "wether seas"),
        ([("seas", "", ""), ("weather", "", "")], "weath seas"),
        ([("seas", "", ""), ("forecast", "", "")], "foercsat seas"),
    ]:
        folder = tmp_path / query.replace(" ", "")
        folder.mkdir()
        assert positions(catalogue(folder, [*documents[::-1], *others]), query) == [1, 0]


def test_at_most_four_words_are_expanded(tmp_path: Path) -> None:
    words = ["weather", "forecasts", "satellite", "pictures", "temperature", "pressures"]
    misspelt_words = ["weathar", "forecazts", "satelite", "picturse", "temperture", "presures"]
    snapshot = catalogue(tmp_path, [(word, "", "") for word in words])
    for number, word in enumerate(misspelt_words):
        assert positions(snapshot, word) == [number]
    assert snapshot.search(" ".join(misspelt_words[:4])).total == 4
    assert snapshot.search(" ".join(misspelt_words)).total == 4


def test_a_word_expands_to_the_16_most_frequent_candidates(
    tmp_path: Path,
) -> None:
    words = [f"абв{first}{second}" for first in "абвгд" for second in "абвгд"]
    documents = [(word, "", "") for number, word in enumerate(words) for _ in range(1 + number % 3)]
    frequencies = Counter(name for name, _, _ in documents)
    names = [documents[number][0] for number in positions(catalogue(tmp_path, documents), "абв")]
    assert len(set(names)) == SEARCH_CONFIG.candidates == 16
    assert set(names) >= {word for word in words if frequencies[word] == 3}
    assert {word for word in words if frequencies[word] == 1}.isdisjoint(names)
    assert Counter(names) == {name: frequencies[name] for name in set(names)}


@pytest.fixture(scope="module")
def misspelt(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    documents: list[Document] = [
        ("forecast", "", ""),
        ("fortcasts", "maps", ""),
        ("forecasts of pictures", "satellite", ""),
        ("tube you", "", ""),
        ("YouTube", "", ""),
        ("youtubes", "temperature", ""),
        ("zbra", "zbras", ""),
        ("weather maps", "ab", ""),
        ("a_b", "", ""),
        ("a b", "", ""),
        *[("zebra", "", "")] * 60,
    ]
    return catalogue(tmp_path_factory.mktemp("misspelt"), documents)


@pytest.mark.parametrize(
    "words",
    [
        ["forcast", "forcasts", "maps"],
        ["YouTub", "youtub"],
        ["YouTube", "youtube"],
        ["wether", "forcast", "pictrues", "sattelite", "temprature"],
        ["zbra", "zbras", "zebras"],
        ["a_b", "ab", "a"],
    ],
)
@pytest.mark.parametrize("match_all", [False, True])
def test_the_order_of_misspelt_words_and_identifiers_does_not_matter(
    misspelt: Snapshot, words: list[str], match_all: bool
) -> None:
    filters = Filters(match="all" if match_all else "any")
    results = set()
    for order in permutations(words):
        hits = misspelt.search(" ".join([*order, "a"]), 200, 0, filters)
        results.add((hits.total, tuple(hits.ids)))
    assert len(results) == 1


@pytest.mark.parametrize("match_all", [False, True])
@pytest.mark.parametrize(
    "query",
    ["zbra", "zeb", "generatoin", "plian", "crypt wether", "天", "youtub", "to be", "plain zeb"],
)
def test_totals_of_expanded_queries_are_exact(
    snapshot: Snapshot, query: str, match_all: bool
) -> None:
    by_relevance = snapshot.search(query, 200, 0, Filters(match="all" if match_all else "any"))
    by_name = snapshot.search(
        query, 200, 0, Filters(match="all" if match_all else "any", sort="name")
    )
    assert by_relevance.total == by_name.total == len(by_relevance.ids)
    assert sorted(by_relevance.ids) == sorted(by_name.ids)


NAMES = [
    *("Weather", "Weather Station", "Weather Station API", "Station Weather", "Crème Brûlée API"),
    *("GPT4o", "gpt 4o mini", "YouTube", "You", "x402", "The The", "天気予報", "C++", "a_b", "3D"),
]
STUFFED = ("Weather weather station station api api", "weather station api", "station weather")


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """A catalogue whose named services come after services that repeat the same words."""
    documents: list[Document] = [STUFFED] * 5 + [(f"{name} {name} x", name, name) for name in NAMES]
    return catalogue(
        tmp_path_factory.mktemp("named"), documents + [(name, "", "") for name in NAMES]
    )


@settings(max_examples=examples(150), deadline=None)
@given(
    st.integers(0, len(NAMES) - 1),
    st.sampled_from([str, str.upper, str.lower, str.title, str.swapcase]),
    st.sampled_from(["", " ", "-", "_", ".", "  ", " / "]),
    st.sampled_from(["", "!", " ", "?", '"']),
)
def test_a_service_whose_name_is_the_query_is_first(
    named: Snapshot, number: int, case: type[str], separator: str, punctuation: str
) -> None:
    query = punctuation + case(separator.join(NAMES[number].split())) + punctuation
    assert positions(named, query, 1) == [5 + len(NAMES) + number]


def test_an_exact_name_without_a_matching_term_counts_in_the_total(tmp_path: Path) -> None:
    snapshot = catalogue(tmp_path, [("Air Bnb", "rooms", ""), ("other", "", "")])
    for sort in ("relevance", "name"):
        for match_all in (False, True):
            hits = snapshot.search(
                "airbnb", filters=Filters(match="all" if match_all else "any", sort=sort)
            )
            assert (hits.total, hits.ids) == (1, [identifier(0)])


def test_an_exact_name_is_first_only_if_the_filters_allow_it(tmp_path: Path) -> None:
    documents = [("Weather", "", "Data"), ("Weather maps", "", "Search")]
    filters = Filters(category=("Search",))
    assert catalogue(tmp_path, documents).search("weather", filters=filters).ids == [identifier(1)]


def test_three_services_with_the_exact_name_come_first_across_pages(tmp_path: Path) -> None:
    documents = [("maps maps of seas", "maps", "")] * 9 + [("Maps", "", "")] * 30
    snapshot = catalogue(tmp_path, documents)
    pages = [snapshot.search("maps", 7, offset).ids for offset in range(0, 42, 7)]
    order = [int(service_id) for page in pages for service_id in page]
    assert order == [9, 10, 11, *range(9), *range(12, 39)]
