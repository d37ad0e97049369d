"""Analysis of text into words and terms."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.search import analysis
from service.search.analysis import (
    LONGEST_NORMALISED,
    SORTED_FROM,
    Word,
    is_encodable,
    name_key,
    query_words,
    split_identifiers,
    term_of,
    words_of,
)
from service.search.stopwords import STOP_WORDS

HAN_KANA_HANGUL = "東京天気予報検索々カタログータひらがな가격비교검색"
MARKS = "\u0301\u0327\u0344\u3099\u309a\u093c\u093e\u0f71\u0f72\u0f73\u0f7a\u0f81\uff9e\uff9f·"
runs_of_marks = st.text(MARKS, min_size=SORTED_FROM, max_size=SORTED_FROM + 20)
unspaced = st.text(HAN_KANA_HANGUL, min_size=2, max_size=8)
PUNCTUATION = " .,;:!?-_/()[]{}<>'\"`*~^|&+=@#$%\n\t"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("getWeatherData", ["get", "weather", "data", "getweatherdata"]),
        ("get_weather_data", ["get", "weather", "data", "getweatherdata"]),
        ("GPT4o", ["gpt", "4", "gpt4o"]),
        ("getURLs", ["get", "urls", "geturls"]),
        ("x402", ["402", "x402"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("YouTube", ["you", "tube", "youtube"]),
        ("WEATHER", ["weather"]),
        ("a_b", ["ab"]),
        ("R", ["r"]),
        ("7", ["7"]),
        ("Crème brûlée, groß", ["creme", "brulee", "gross"]),
        ("Łódź Ørsted İstanbul ısı", ["lodz", "orsted", "istanbul", "isi"]),
        ("\uff21\uff30\uff29 \ufb01le", ["api", "file"]),
        ("東京タワー", ["東京", "京タ", "タワ", "ワー"]),
        ("한국어", ["한국", "국어"]),
        ("ｶﾞｽ", ["ガス"]),
        ("AI翻訳", ["ai", "翻訳"]),
        ("が", ["が"]),
        ("हिन्दी", ["हिन्दी"]),
        ("Погода Λύκος", ["погода", "λυκοσ"]),
        ("שָׁלוֹם مَرْحَبًا", ["שלום", "مرحبا"]),
        (
            "C# (F#), C++20 and .NET/ASP.NET",
            [
                "csharp",
                "fsharp",
                "cplusplus",
                "20",
                "cplusplus20",
                "and",
                "dotnet",
                "asp",
                "dotnet",
            ],
        ),
        ("csharp CSharp", ["csharp", "sharp", "csharp"]),
        ("issue#5 example.net a+b #1", ["issue", "5", "example", "net", "a", "b", "1"]),
        ("😀 !!", []),
        ("", []),
    ],
)
def test_the_words_of_a_text(text: str, words: list[str]) -> None:
    assert [word.text for word in words_of(text)] == words


@pytest.mark.parametrize(
    ("words", "term"),
    [
        (["forecast", "forecasts", "forecasting"], "forecast"),
        (["погодами"], "погодами"),
        (["gpt4s"], "gpt4s"),
        (["caféses"], "caféses"),
        (["予報s"], "予報s"),
    ],
)
def test_only_words_in_english_letters_are_stemmed(words: list[str], term: str) -> None:
    assert {term_of(word) for word in words} == {term}


@pytest.mark.parametrize("word", ["aed", "tos", "withings", "ons", "wa", "doe", "ani", "ha"])
def test_a_word_has_the_term_of_no_stop_word(word: str) -> None:
    assert word not in STOP_WORDS
    assert term_of(word) not in map(term_of, STOP_WORDS)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("I need, can you find weather please", ["weather"]),
        ("Please help me find an API for the weather", ["api", "weather"]),
        ("can you find", ["can", "you", "find"]),
        ("The THE the", ["the"]),
    ],
)
def test_stop_words_are_dropped_unless_all_words_are_stop_words(
    query: str, words: list[str]
) -> None:
    assert [word.text for word in query_words(query)] == words


def test_stop_words_are_listed_in_their_folded_form() -> None:
    assert [word for word in sorted(STOP_WORDS) if [w.text for w in words_of(word)] != [word]] == []


@settings(deadline=None)
@given(st.text(alphabet=st.characters(codec="ascii"), max_size=30))
def test_the_fast_path_for_plain_words_agrees_with_the_slow_one(text: str) -> None:
    for piece in text.split():
        assert words_of(piece) == [*split_identifiers(piece)]


@settings(deadline=None)
@given(
    unspaced, st.sampled_from(["", "API ", "x-", "2024"]), st.sampled_from(["", " 3", "の", "."])
)
def test_unspaced_scripts_are_analysed_into_bigrams(text: str, before: str, after: str) -> None:
    words = {word.text for word in words_of(before + text + after)}
    for left, right in pairwise(text):
        assert left + right in words


@settings(deadline=None)
@given(st.text(max_size=40))
@example("x_y")
@example("Tシャツ")
@example("٣ ½ ² Ⅷ 〇")
@example("A#À")
def test_no_letter_or_digit_is_dropped(text: str) -> None:
    together = "".join(word.text for word in words_of(text))
    assert set(name_key(text)) <= set(together)


@settings(deadline=None)
@given(st.lists(runs_of_marks, min_size=1, max_size=3), st.sampled_from("xéガ-क"))
def test_the_order_of_combining_marks_is_that_of_unicode(runs: list[str], base: str) -> None:
    text = base + base.join(runs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analysis, "SORTED_FROM", len(text) + 1)
        expected = (words_of(text), query_words(text), name_key(text))
    assert (words_of(text), query_words(text), name_key(text)) == expected


@pytest.mark.parametrize("marks", ["\u0301\u0327", "\u0f73", "\uff9e\u093c", "-\u0301\u0327"])
def test_any_number_of_combining_marks_is_analysed(marks: str) -> None:
    """Analyse so many that a time that grows with their square would be minutes."""
    text = "x" + marks * 100_000
    assert words_of(text)
    assert query_words(text)
    assert name_key(text)


@settings(deadline=None)
@given(st.text(max_size=40), st.sampled_from(PUNCTUATION), st.text(max_size=40))
def test_the_words_of_a_text_are_those_of_its_parts(left: str, between: str, right: str) -> None:
    if between == "_":
        return  # an underscore is part of an identifier
    assert words_of(f"{left} {between} {right}") == words_of(left) + words_of(right)


@settings(deadline=None)
@given(st.text(st.characters(codec="latin-1"), max_size=20))
def test_words_are_already_folded(text: str) -> None:
    for word in words_of(text):
        assert [again.text for again in words_of(word.text)][-1:] == [word.text]


@pytest.mark.parametrize(
    "name",
    ["Weather API", "weather-api", "weatherAPI", "WEATHER_API!", "Wéather  Api", "(weather)api"],
)
def test_the_key_of_a_name_is_its_letters_and_digits(name: str) -> None:
    assert name_key(name) == "weatherapi"


@pytest.mark.parametrize("name", ["😀", "!!", "", " ", "_"])
def test_a_name_without_letters_and_digits_has_no_key(name: str) -> None:
    assert name_key(name) == ""


@settings(deadline=None)
@given(st.text(max_size=40))
@example("ﷺﷺ ﬁle")
@example("Hǿjgaard")
def test_queries_are_cut_into_the_words_of_documents(text: str) -> None:
    words = {word.text for word in words_of(text)}
    assert {word.text for word in query_words(text)} == (words - STOP_WORDS or words)


@pytest.mark.parametrize(
    "query", ["\ufdfa" * 2000, "x\ufdfa" * 1000, "\ufdfa " * 1000, "가힣" * 1000]
)
def test_a_query_is_analysed_up_to_its_normalised_length(
    monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    analysed = []

    cut = analysis.words_of_token

    def count(token: str) -> Iterator[Word]:
        analysed.append(len(token))
        yield from cut(token)

    monkeypatch.setattr(analysis, "words_of_token", count)
    assert query_words(query)
    assert sum(analysed) <= LONGEST_NORMALISED
    assert len(name_key(query)) <= LONGEST_NORMALISED


@pytest.mark.parametrize("separator", ["", "a", "_"])
def test_hostile_queries_do_not_fill_memory(separator: str) -> None:
    """Analyse long queries without white space, whose analysis has many words."""
    queries = [separator.join(HAN_KANA_HANGUL[n:] * 80)[:2000] for n in range(20)]
    queries += [chr(0x4E00 + n) * 2000 for n in range(30)]
    query_words(queries[0])
    tracemalloc.start()
    for query in queries:
        query_words(query)
    bytes_in_use, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert bytes_in_use < 100_000


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("weather", True),
        ("ai", True),
        ("a", False),
        ("the", False),
        ("please", False),
        ("wetterübersicht", False),
        ("天气", False),
        ("погода", False),
        ("2024", False),
        ("3d", False),
        ("w" * 25, False),
    ],
)
def test_english_words_that_are_no_stop_words_have_vectors(word: str, expected: bool) -> None:
    assert is_encodable(word) == expected


def test_names_with_signs_have_keys_of_their_own() -> None:
    assert len({name_key(name) for name in ("C", "C#", "C++")}) == 3
    assert name_key("C#") == name_key("C Sharp")
