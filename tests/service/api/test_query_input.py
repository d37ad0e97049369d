"""Queries that mean no good: an ordinary answer or a 400, never an error of ours."""

from __future__ import annotations

import http.client
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_plus

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.api.parameters import parse_search
from service.search.analysis import query_words, term_of, words_of
from service.search.filters import Filters
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.running import Json

PATHS = ("/v1/search/services", "/v1/services/search")
OPERATORS = [
    *("*", "?", "weath*", "wea*er", "?eather", "*eather", "**", "weather*data", "[a-z]*"),
    *('"weather data"', '"weather', '"', '""', "'weather'", '"weather data"~3', "weather~", "a~2"),
    *("NOT weather", "NOT", "weather AND NOT data", "AND", "OR OR OR", "weather ANDMAYBE data"),
    *("weather ANDNOT data", "weather REQUIRE data", "weather OR data", "-weather", "+weather"),
    *("name:weather", "name:", ":", "description:(weather data)", "ordinal:1", "nosuch:x"),
    *("[a TO b]", "[TO]", "[a TO", "{a TO b}", "name:[a TO]", "[TO z]", "weather^2", "^", "x^y"),
    *("(weather", "weather)", "()", "((((((((", "(a OR (b AND (c", "<>", "<weather 5>", "~"),
    *("\\", "\\\\", "weather\\", "r/wea.*/", "/weather/", "#", "%", "&&", "||", "!", "!weather"),
    *("a" * 100 + "*", "?" * 100, "weather" + "*" * 100, "~9999999999", "x^99999999999999999999"),
]
CONTROLS = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0))))
MARKS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u061c\u200b\u2060\ufeff"


@pytest.fixture(scope="module")
def snapshot(sample: Path) -> Snapshot:
    return open_snapshot(sample)


@pytest.fixture(scope="module")
def connection(client: httpx.Client) -> Iterator[http.client.HTTPConnection]:
    """A connection that sends what it is given, where httpx would mend it."""
    connection = http.client.HTTPConnection(client.base_url.host, client.base_url.port, timeout=30)
    yield connection
    connection.close()


def answer(client: httpx.Client, query: str, **params: str) -> Json:
    """The answer to a query, which both paths give, sent as UTF-8."""
    bodies = []
    for path in PATHS:
        response = client.get(path, params={"q": query, "limit": "200"} | params)
        assert response.status_code == 200, response.text
        bodies.append(response.json())
    assert bodies[0] == bodies[1]
    body: Json = bodies[0]
    assert set(body) == {"services", "total", "limit", "offset"}
    assert len(body["services"]) == body["total"]
    return body


def ids(body: Json) -> list[str]:
    return [record["id"] for record in body["services"]]


def most_frequent(seeds: list[Json], count: int) -> list[str]:
    """Words of as many different terms, the most frequent first."""
    frequencies: Counter[str] = Counter()
    words = {}
    for record in seeds:
        text = " ".join([record["name"], record["description"], record.get("category", "")])
        known = {term_of(word.text): word.text for word in query_words(text) if not word.redundant}
        frequencies.update(known.keys())
        words.update(known)
    return [words[term] for term, _ in frequencies.most_common(count)]


@pytest.mark.parametrize("letter", ["a", "é", "あ", "𝐚", "ㅏ", "🦊", "*", '"', "ﷺ", "a\u0301"])
def test_2000_of_one_character_have_an_ordinary_answer(client: httpx.Client, letter: str) -> None:
    answer(client, letter * (2000 // len(letter)))


@pytest.mark.parametrize("query", ["a" * 2001, "a " * 1001, "あ" * 2001, "*" * 5000])
def test_more_than_2000_characters_are_400(client: httpx.Client, query: str) -> None:
    for path in PATHS:
        response = client.get(path, params={"q": query})
        assert response.status_code == 400
        assert response.json()["error"]["parameter"] == "q"


def test_300_different_terms_have_an_ordinary_answer(client: httpx.Client) -> None:
    terms = " ".join(f"q{number}" for number in range(300))
    assert len(words_of(terms)) > 300
    answer(client, terms)
    answer(client, terms, match="all")


def test_300_different_misspelt_terms_have_an_ordinary_answer(client: httpx.Client) -> None:
    answer(client, " ".join("weather"[: n % 5 + 2] + chr(97 + n % 26) for n in range(300)))


def test_the_64_most_frequent_terms_find_what_any_of_them_does(
    client: httpx.Client, seeds: list[Json]
) -> None:
    words = most_frequent(seeds, 64)
    together = answer(client, " ".join(words))
    alone = {service_id for word in words for service_id in ids(answer(client, word))}
    assert set(ids(together)) == alone
    assert together["total"] == len(alone)
    answer(client, " ".join(words), match="all")


def test_terms_beyond_the_64th_find_nothing_more(client: httpx.Client, seeds: list[Json]) -> None:
    words = most_frequent(seeds, 80)
    rarest_first = list(reversed(words))
    first = answer(client, " ".join(rarest_first[:64]))
    assert ids(answer(client, " ".join(rarest_first))) == ids(first)


@pytest.mark.parametrize("query", OPERATORS)
def test_operators_are_plain_text(client: httpx.Client, query: str) -> None:
    words = " ".join(word.text for word in words_of(query))
    expected = ids(answer(client, words)) if words else []
    assert sorted(ids(answer(client, query))) == sorted(expected)
    for params in ({"match": "all"}, {"sort": "name"}, {"enriched": "true"}):
        answer(client, query, **params)


@pytest.mark.parametrize("mark", MARKS, ids=[f"{ord(mark):04x}" for mark in MARKS])
def test_invisible_marks_around_words_change_nothing(client: httpx.Client, mark: str) -> None:
    plain = ids(answer(client, "weather data"))
    assert ids(answer(client, f"{mark}weather{mark} data{mark}")) == plain
    answer(client, f"wea{mark}ther")
    assert answer(client, f"x{mark * 1500}")["limit"] == 200


@pytest.mark.parametrize("control", CONTROLS, ids=[f"{ord(control):02x}" for control in CONTROLS])
def test_control_characters_separate_words(client: httpx.Client, control: str) -> None:
    plain = ids(answer(client, "weather data"))
    assert ids(answer(client, f"weather{control}data")) == plain
    assert ids(answer(client, f"{control}weather{control * 50}data{control}")) == plain


def test_control_characters_alone_are_blank_or_find_nothing(client: httpx.Client) -> None:
    for control in CONTROLS:
        response = client.get(PATHS[0], params={"q": control})
        assert response.status_code == (400 if control.isspace() else 200)
        if response.status_code == 200:
            assert response.json()["total"] == 0


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "raw",
    [
        *("%ED%A0%80", "%ED%BF%BF", "weather%ED%A0%80data", "%ED%A0%BD%ED%B8%80"),  # surrogates
        *("%FF", "%FF%FE", "%C0%AF", "%C1", "%80", "%E2%82", "weather%F0%9F", "%F4%90%80%80"),
        *("%", "%%", "%z", "%zz", "weather%", "weather%2", "%2", "%u0041", "100%", "%25", "%0"),
        *("%00", "%00weather", "weather%00data%0d%0a", "%0d%0aX-Injected:%201", "%1b[31m"),
        *("+", "+weather+", "weather%2Bdata", "a&b", "weather;data", "=", "==", "a=b", "%26q=x"),
    ],
)
def test_any_percent_encoding_has_an_ordinary_answer_or_a_400(
    connection: http.client.HTTPConnection, path: str, raw: str
) -> None:
    connection.request("GET", f"{path}?q={raw}")
    response = connection.getresponse()
    body = json.loads(response.read())
    assert response.status in {200, 400}
    assert response.getheader("content-type") == "application/json"
    assert response.getheader("x-injected") is None
    if response.status == 200:
        assert set(body) == {"services", "total", "limit", "offset"}
    else:
        assert body["error"]["parameter"] == "q"


@given(
    st.lists(st.sampled_from([*"%+2014BEé", "%20", "%2", "%25", "%2B", "%E4%B8", "a"])).map("".join)
)
def test_a_query_is_unquoted_as_any_form_is(raw: str) -> None:
    listing = parse_search(f"q=x{raw}".encode())
    assert listing.query == unquote_plus(f"x{raw}")


@pytest.mark.parametrize("raw", ["%ED%A0%80", "%FF", "%00", "%E2%82", "%F4%90%80%80"])
def test_what_is_not_text_separates_words(
    connection: http.client.HTTPConnection, client: httpx.Client, raw: str
) -> None:
    connection.request("GET", f"{PATHS[0]}?limit=200&q=weather{raw}data")
    body = json.loads(connection.getresponse().read())
    assert ids(body) == ids(answer(client, "weather data"))


def test_every_query_is_answered_after_all_of_these(
    connection: http.client.HTTPConnection, client: httpx.Client
) -> None:
    """A connection that bad input had come through, and one more ordinary request."""
    connection.request("GET", f"{PATHS[0]}?q={quote(CONTROLS + MARKS)}")
    assert connection.getresponse().read()
    assert answer(client, "weather")["total"] > 0


VOCABULARY = [
    "weather",
    "data",
    "api",
    "getWeatherData",
    "wether",
    "GPT4o",
    "the",
    "cryp",
    "天気予報",
    "x",
]
characters = st.characters()
"""Any code point, lone surrogates and controls included."""
hostile = st.one_of(
    st.text(characters, max_size=80),
    st.lists(
        st.one_of(
            st.sampled_from(VOCABULARY),
            st.sampled_from(OPERATORS),
            st.text(characters, max_size=5),
            st.text("ab_-XY12あいア漢가ึ", max_size=8),
        ),
        max_size=20,
    ).map(" ".join),
    st.builds(
        lambda text, times: text * times, st.text(characters, max_size=6), st.integers(1, 300)
    ),
)


@settings(max_examples=400, deadline=None)
@given(
    hostile,
    st.integers(1, 200),
    st.sampled_from([0, 1, 23, 500, 10**30]),
    st.booleans(),
    st.sampled_from([None, True]),
)
def test_any_text_has_an_exact_answer(
    snapshot: Snapshot, query: str, limit: int, offset: int, match_all: bool, enriched: bool | None
) -> None:
    def narrowing(sort: Any) -> Filters:
        return Filters(enriched=enriched, match_all=match_all, sort=sort, counted=("category",))

    hits = snapshot.search(query, limit, offset, narrowing("relevance"))
    whole = snapshot.search(query, 1000, 0, narrowing("relevance"))
    by_name = snapshot.search(query, 1000, 0, narrowing("name"))
    assert hits.total == whole.total == by_name.total == len(whole.ids) == len(set(whole.ids))
    assert sorted(whole.ids) == sorted(by_name.ids)
    assert hits.ids == whole.ids[offset : offset + limit]
    assert hits.facets == by_name.facets


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60).filter(str.strip))
def test_any_text_is_answered_over_http(client: httpx.Client, query: str) -> None:
    response = client.get(PATHS[0], params={"q": query})
    assert response.status_code == 200, response.text
