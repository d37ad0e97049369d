"""Queries in the language of Whoosh, and their terms."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.errors import Misuse
from indexer.whoosh_index.schema import SCHEMA, TermsField, parse_query
from service.search.analysis import term_of, words_of
from tests.support.running import examples
from tests.support.whoosh_index import ids_of, write_index

SERVICES = {
    "tides": ("Tidewatch", "Premium tides of all harbours", "Data"),
    "rain": ("Rain of YouTube", "The forecasts, premium", "Weather data"),
    "cafe-4": ("Café", "Menus", "food"),
}


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("artifacts")
    write_index(folder, "one", SERVICES)
    return folder


@settings(max_examples=examples(100), deadline=None)
@given(st.text(max_size=40))
def test_a_query_has_the_terms_that_its_text_is_indexed_by(text: str) -> None:
    terms = Counter(term_of(word.text).encode() for word in words_of(text))
    indexed = {term: (count, weight) for term, count, weight, _ in TermsField().index(terms)}
    assert indexed == {term: (count, count) for term, count in terms.items()}
    queried = {term.encode() for term in TermsField().process_text(text, mode="query")}
    assert queried <= indexed.keys()
    assert bool(queried) == bool(indexed)


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("premium", "tides rain"),
        ("PREMIUM harbour", "tides"),
        ("tides OR menu", "tides cafe-4"),
        ("description:premium AND category:data", "tides rain"),
        ("description:premium AND NOT category:weather", "tides"),
        ("category:(food OR weather)", "rain cafe-4"),
        ("name:premium", ""),
        ("'forecasts the'", "rain"),
        ("cafe", "cafe-4"),
        ("CAF*", "cafe-4"),
        ("Ca?é", "cafe-4"),
        ("youtube", "rain"),
        ("YouTube", "rain"),
        ("you tube", "rain"),
        ("harb*", "tides"),
        ("name:t*w*", "tides"),
        ("id:ti*", "tides"),
        ("id:tides OR id:cafe-4", "tides cafe-4"),
        ("NOT premium", "cafe-4"),
        ("*:*", "tides rain cafe-4"),
        ('"premium"', "tides rain"),
        ("premium^2 tides", "tides"),
        ("name:[r TO z]", "tides rain"),
        ("nothing", ""),
    ],
)
def test_words_fields_booleans_and_wildcards_select_services(
    artifacts: Path, query: str, ids: str
) -> None:
    assert ids_of(artifacts, "one", query) == set(ids.split())


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ('"all harbours"', "no positions for its phrase; write"),
        ('rain AND (sun OR name:"all harbours")', "no positions for its phrase"),
        ("title:rain", "no field 'title'; its fields are category, description, id, name"),
        ("rain AND (sun OR https://x.example)", "no field 'https'"),
        ("title:*", "no field 'title'"),
        ("", "it has no words"),
        ("-- !", "it has no words"),
        ("(rain", "a parenthesis is missing"),
        ("rain)", "a parenthesis is missing"),
        ('"rain', "a double quote is missing"),
        ("AND rain", "a word is missing beside AND"),
        ("(OR rain)", "a word is missing beside OR"),
        ("rain AND", "a word is missing beside AND"),
        ("(rain NOT) sun", "a word is missing beside NOT"),
        ("name: rain", "a word is missing beside name:"),
        ("rain name:", "a word is missing beside name:"),
        ("(" * 5000 + "rain" + ")" * 5000, "recursion"),
    ],
)
def test_a_query_that_cannot_be_answered_is_refused(query: str, message: str) -> None:
    with pytest.raises(Misuse) as error:
        parse_query(query)
    assert message in str(error.value)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [*'()[]{}"*?^~:\\+-<>&| ', "AND", "OR", "NOT", "TO", "name:", "a", "é", "'"]
        ),
        max_size=12,
    ).map("".join)
)
def test_any_text_is_a_query_or_refused(artifacts: Path, text: str) -> None:
    try:
        query = parse_query(text)
    except Misuse:
        return
    assert ids_of(artifacts, "one", query) <= set(SERVICES)


def test_only_ids_are_stored() -> None:
    assert SCHEMA.names() == ["category", "description", "id", "name"]
    assert SCHEMA.stored_names() == ["id"]
