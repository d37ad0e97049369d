"""Hostile queries: a search result or a 400, never a server error."""

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

from service.api.query_string import parse
from service.api.services import SearchServices
from service.conditions import Filters
from service.search.analysis import query_words, term_of, words_of
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.processes import IDENTITY
from tests.support.running import Json, examples

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
    """A connection that sends any target unchanged, where httpx would encode it."""
    connection = http.client.HTTPConnection(client.base_url.host, client.base_url.port, timeout=30)
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def plain(client: httpx.Client) -> list[str]:
    """Return the ids of the services that a query without hostile characters finds."""
    return ids(search(client, "weather data"))


def search(client: httpx.Client, query: str, **params: str) -> Json:
    """Return the body of a search, after checking that both paths respond with it."""
    params = {"q": query, "limit": "200", "endpoints": "none"} | params
    responses = [client.get(path, params=params, headers=IDENTITY) for path in PATHS]
    assert [each.status_code for each in responses] == [200, 200], responses[0].text
    assert responses[0].content == responses[1].content
    body: Json = responses[0].json()
    assert set(body) == {"services", "total", "limit", "offset"}
    assert len(body["services"]) == body["total"]
    return body


def ids(body: Json) -> list[str]:
    return [record["id"] for record in body["services"]]


def frequent_words(seeds: list[Json], count: int) -> list[str]:
    """Return words of the most frequent terms, most frequent first."""
    frequencies: Counter[str] = Counter()
    words = {}
    for record in seeds:
        text = " ".join([record["name"], record["description"], record.get("category", "")])
        terms = {term_of(word.text): word.text for word in query_words(text) if not word.redundant}
        frequencies.update(terms.keys())
        words.update(terms)
    return [words[term] for term, _ in frequencies.most_common(count)]


@pytest.mark.parametrize("letter", ["a", "é", "あ", "𝐚", "ㅏ", "🦊", "*", '"', "ﷺ", "a\u0301"])
def test_a_query_of_2000_equal_characters_is_searched(client: httpx.Client, letter: str) -> None:
    search(client, letter * (2000 // len(letter)))


@pytest.mark.parametrize("query", ["a" * 2001, "a " * 1001, "あ" * 2001, "*" * 5000])
def test_a_query_over_2000_characters_is_400(client: httpx.Client, query: str) -> None:
    for path in PATHS:
        response = client.get(path, params={"q": query})
        assert response.status_code == 400
        assert response.json()["error"]["parameter"] == "q"


def test_a_query_of_300_terms_is_searched(client: httpx.Client) -> None:
    terms = " ".join(f"q{number}" for number in range(300))
    assert len(words_of(terms)) > 300
    search(client, terms)
    search(client, terms, match="all")


def test_a_query_of_300_misspelt_words_is_searched(client: httpx.Client) -> None:
    search(client, " ".join("weather"[: n % 5 + 2] + chr(97 + n % 26) for n in range(300)))


def test_the_matches_of_64_terms_are_those_of_each_term(
    client: httpx.Client, seeds: list[Json]
) -> None:
    words = frequent_words(seeds, 64)
    matches = search(client, " ".join(words))
    # `match=all` adds no similar services to the matches of a word that few have.
    expected = {each for word in words for each in ids(search(client, word, match="all"))}
    assert set(ids(matches)) == expected
    assert matches["total"] == len(expected)
    search(client, " ".join(words), match="all")


def test_terms_beyond_the_64th_add_no_matches(client: httpx.Client, seeds: list[Json]) -> None:
    words = frequent_words(seeds, 80)
    rarest_first = list(reversed(words))
    first = search(client, " ".join(rarest_first[:64]))
    assert ids(search(client, " ".join(rarest_first))) == ids(first)


@pytest.mark.parametrize("query", OPERATORS)
def test_operators_are_plain_text(client: httpx.Client, query: str) -> None:
    words = " ".join(word.text for word in words_of(query))
    expected = ids(search(client, words)) if words else []
    assert sorted(ids(search(client, query))) == sorted(expected)
    for params in ({"match": "all"}, {"sort": "name"}, {"enriched": "true"}):
        search(client, query, **params)


@pytest.mark.parametrize("mark", MARKS, ids=[f"{ord(mark):04x}" for mark in MARKS])
def test_invisible_marks_around_words_change_nothing(
    client: httpx.Client, mark: str, plain: list[str]
) -> None:
    assert ids(search(client, f"{mark}weather{mark} data{mark}")) == plain
    search(client, f"wea{mark}ther")
    assert search(client, f"x{mark * 1500}")["limit"] == 200


@pytest.mark.parametrize("control", CONTROLS, ids=[f"{ord(control):02x}" for control in CONTROLS])
def test_control_characters_separate_words(
    client: httpx.Client, control: str, plain: list[str]
) -> None:
    assert ids(search(client, f"weather{control}data")) == plain
    assert ids(search(client, f"{control}weather{control * 50}data{control}")) == plain


def test_control_characters_alone_are_blank_or_have_no_matches(client: httpx.Client) -> None:
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
def test_any_percent_encoding_is_searched_or_400(
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
def test_a_query_is_decoded_as_form_data(raw: str) -> None:
    listing = parse(SearchServices, f"q=x{raw}".encode())
    assert listing.q == unquote_plus(f"x{raw}")


@pytest.mark.parametrize("raw", ["%ED%A0%80", "%FF", "%00", "%E2%82", "%F4%90%80%80"])
def test_invalid_utf8_and_nul_separate_words(
    connection: http.client.HTTPConnection, client: httpx.Client, raw: str
) -> None:
    connection.request("GET", f"{PATHS[0]}?limit=200&q=weather{raw}data")
    body = json.loads(connection.getresponse().read())
    assert ids(body) == ids(search(client, "weather data"))


def test_a_connection_is_usable_after_hostile_queries(
    connection: http.client.HTTPConnection, client: httpx.Client
) -> None:
    """Send every control character and mark, then search."""
    connection.request("GET", f"{PATHS[0]}?q={quote(CONTROLS + MARKS)}")
    assert connection.getresponse().read()
    assert search(client, "weather")["total"] > 0


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


@settings(max_examples=examples(400), deadline=None)
@given(
    hostile,
    st.integers(1, 200),
    st.sampled_from([0, 1, 23, 500, 10**30]),
    st.booleans(),
    st.sampled_from([None, True]),
)
def test_totals_and_pages_of_any_query_are_exact(
    snapshot: Snapshot, query: str, limit: int, offset: int, match_all: bool, enriched: bool | None
) -> None:
    def filters(sort: Any) -> Filters:
        match: Any = "all" if match_all else "any"
        return Filters(enriched=enriched, match=match, sort=sort, facets=("category",))

    hits = snapshot.search(query, limit, offset, filters("relevance"))
    all_hits = snapshot.search(query, 1000, 0, filters("relevance"))
    by_name = snapshot.search(query, 1000, 0, filters("name"))
    assert hits.total == all_hits.total == len(all_hits.ids) == len(set(all_hits.ids))
    assert by_name.total == len(by_name.ids) == all_hits.total - all_hits.similar
    assert {*by_name.ids} <= {*all_hits.ids}
    assert hits.ids == all_hits.ids[offset : offset + limit]
    assert hits.facets == by_name.facets


@settings(max_examples=examples(150), deadline=None)
@given(st.text(max_size=60).filter(str.strip))
def test_any_text_is_a_valid_query_over_http(client: httpx.Client, query: str) -> None:
    response = client.get(PATHS[0], params={"q": query})
    assert response.status_code == 200, response.text


@pytest.mark.parametrize("path", ["/v1/services", "/v1/search/services", "/discovery/resources"])
def test_a_query_string_of_too_many_parameters_is_refused(path: str, client: httpx.Client) -> None:
    assert client.get(f"{path}?q=a" + "&a=b" * 998).status_code == 200
    refused = client.get(f"{path}?q=a" + "&a=b" * 1000)
    assert refused.status_code == 400
    assert "the query string has more than 1,000 parameters" in refused.text
