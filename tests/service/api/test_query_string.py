"""Operations: parameters to a query string and back, and the errors that name one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api.discovery import (
    ListDiscoveryMerchant,
    ListDiscoveryResources,
    SearchDiscoveryResources,
)
from service.api.ecosystem import GetEcosystemStats, GetRecentTransactions
from service.api.endpoints import SearchEndpoints
from service.api.query_string import Operation, format_query, parameters_of, parse
from service.api.services import ListServices, SearchServices
from service.app import create_app
from service.errors import InvalidParameter
from service.settings import Settings
from service.web.filters import BrowseEndpoints, BrowseServices
from tests.support.running import Json, in_process

PAGES = {"/": BrowseServices, "/endpoints": BrowseEndpoints}
SEARCHES: tuple[type[Operation], ...] = (SearchServices, SearchEndpoints, SearchDiscoveryResources)
KINDS: tuple[type[Operation], ...] = (
    *SEARCHES,
    BrowseEndpoints,
    BrowseServices,
    GetEcosystemStats,
    GetRecentTransactions,
    ListDiscoveryMerchant,
    ListDiscoveryResources,
    ListServices,
)
LISTS = {"facets": ["category", "network", "scheme", "tag"], "integrationType": ["1P", "3P", ""]}


def values_of(name: str, schema: Json) -> st.SearchStrategy[Any]:
    """Return values that a parameter accepts."""
    match schema:
        case {"type": "array"}:
            texts = st.sampled_from(LISTS.get(name, ["a,b", "é&=", "x y", "+"]))
            return st.lists(texts, unique=True, max_size=3)
        case {"type": "boolean"}:
            return st.booleans()
        case {"enum": values}:
            return st.sampled_from(values)
        case {"type": "integer", "minimum": least}:
            return st.integers(least, schema.get("maximum", 2**63 - 1))
        case {"type": "number"}:
            return st.integers(0, 10**9).map(lambda number: number / 1000)
        case {"maxLength": 2048}:
            return st.sampled_from(["api", "/v1/"])
    return st.sampled_from(["a", "weather & wind", "+é%20", " x "])


@st.composite
def operations(draw: st.DrawFn) -> Operation:
    kind: type[Operation] = draw(st.sampled_from(SEARCHES))
    chosen = {
        name: draw(values_of(name, schema))
        for name, schema in parameters_of(kind).items()
        if name in {"q", "query"} or draw(st.booleans())
    }
    return msgspec.convert(chosen, kind)


@given(operations())
def test_a_formatted_operation_is_parsed_to_itself(operation: Operation) -> None:
    assert parse(type(operation), format_query(operation).encode()) == operation


@given(st.sampled_from(KINDS), st.data())
def test_any_values_are_parsed_or_refused_by_name(
    kind: type[Operation], data: st.DataObject
) -> None:
    names = st.sampled_from([*parameters_of(kind)])
    texts = st.text() | st.sampled_from(["", "0", "1e2", "007", "9" * 5000, "true", "-1", "0.5"])
    query = urlencode(data.draw(st.lists(st.tuples(names, texts))), errors="replace")
    try:
        operation = parse(kind, query.encode())
    except InvalidParameter as invalid:
        assert str(invalid).startswith(invalid.parameter)  # noqa: PT017  # most are refused
    else:
        assert parse(kind, format_query(operation).encode()) == operation


@pytest.mark.parametrize("kind", [ListServices, *SEARCHES, BrowseServices, BrowseEndpoints])
def test_parameters_that_are_left_out_have_their_defaults(kind: type[Operation]) -> None:
    operation = parse(kind, b"q=x&query=x&unknown=1")
    values = msgspec.to_builtins(operation)
    for name, schema in parameters_of(kind).items():
        if "default" in schema and name not in {"q", "query"}:
            assert values[name] == schema["default"]
    assert format_query(operation) in {"", "q=x", "query=x"}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("limit=1.5", "limit must be an integer of at least 1"),
        ("limit=1e3", "limit must be an integer of at least 1"),
        ("limit=%205", "limit must be an integer of at least 1"),
        ("limit=5%0a", "limit must be an integer of at least 1"),
        ("limit=%D9%A3", "limit must be an integer of at least 1"),
        ("limit=", "limit must be an integer of at least 1"),
        ("limit=0", "limit must be an integer of at least 1"),
        ("limit=1&limit=1", "limit was given 2 times; give it once"),
        ("offset=-1", "offset must be an integer of at least 0"),
        ("minPayers=null", "minPayers must be an integer of at least 1"),
        ("enriched=1", "enriched must be one of: true, false"),
        ("enriched=True", "enriched must be one of: true, false"),
        ("enriched=", "enriched must be one of: true, false"),
        ("match=some", "match must be one of: all, any"),
        ("endpoints=some", "endpoints must be one of: all, none"),
        ("integrationType=2P", "integrationType must be one of: empty, 1P, 3P"),
        (
            "facets=category,colour",
            "facets must be one of: category, integrationType, network, provider, scheme, tag",
        ),
        ("maxPrice=.5", "maxPrice must be a decimal such as 0.05, from 0"),
        ("maxPrice=inf", "maxPrice must be a decimal such as 0.05, from 0"),
        ("maxPrice=1_000", "maxPrice must be a decimal such as 0.05, from 0"),
        ("maxPrice=1e3", "maxPrice must be a decimal such as 0.05, from 0"),
        ("maxPrice=-1", "maxPrice must be a decimal such as 0.05, from 0"),
        ("sort=a+-+at+%60$.limit%60", "sort must be one of: name, popularity, price, relevance"),
        ("facets=tag&facets=tag", "facets was given 2 times; give it once"),
        ("q=%09", "q is required. The words to search for, without operators."),
        (f"q={'a' * 2001}", "q must be of 1 to 2,000 characters"),
        (f"{'&'.join(f'tag={n}' for n in range(101))}", "tag has 101 values; at most 100"),
    ],
)
def test_an_error_says_which_texts_a_parameter_accepts(query: str, message: str) -> None:
    if not query.startswith("q="):
        query = f"q=x&{query}"
    with pytest.raises(InvalidParameter) as error:
        parse(SearchServices, query.encode())
    assert str(error.value).startswith(message)
    assert error.value.parameter == message.split(maxsplit=1)[0]


@pytest.mark.parametrize(
    ("query", "field", "value"),
    [
        ("limit=201", "limit", 200),
        ("limit=007", "limit", 7),
        (f"offset={'9' * 5000}", "offset", 2**63 - 1),
        (f"offset={'0' * 5000}5", "offset", 5),
        ("maxPrice=00.50", "max_price", 0.5),
        ("integrationType=1p&integrationType=1P&integrationType=", "integration_type", ("1P", "")),
        ("facets=tag,network,tag", "facets", ("tag", "network")),
        ("tag=null&tag=&tag=null", "tag", ("null", "")),
    ],
)
def test_texts_that_are_accepted_are_normalised(query: str, field: str, value: object) -> None:
    assert getattr(parse(SearchServices, f"q=x&{query}".encode()), field) == value


def test_blank_text_of_a_form_is_no_maximum_price() -> None:
    assert parse(BrowseServices, b"q=&maxPrice=") == BrowseServices()
    with pytest.raises(InvalidParameter, match="maxPrice must be a decimal"):
        parse(ListServices, b"maxPrice=")


def test_a_page_ignores_the_parameters_that_it_has_no_control_for() -> None:
    assert parse(BrowseEndpoints, b"limit=x&facets=nope&explain=2") == BrowseEndpoints()


@pytest.mark.parametrize(
    ("query", "is_expensive"),
    [
        (b"limit=200&offset=9&sort=name&endpoints=none", False),
        (b"category=Data", True),
        (b"maxPrice=1", True),
        (b"enriched=false", True),
        (b"facets=tag", True),
    ],
)
def test_only_filters_and_counts_make_a_list_expensive(query: bytes, is_expensive: bool) -> None:
    assert parse(ListServices, query).is_expensive is is_expensive


def test_invalid_parameters_are_named_where_there_is_no_snapshot(tmp_path: Path) -> None:
    app = create_app(Settings(artifacts=str(tmp_path)))
    with in_process(app) as client:
        for path in ("/v1/search/services", "/discovery/search", "/discovery/merchant"):
            assert client.get(path).status_code == 400
            assert client.get(f"{path}?q=a&query=a&payTo=a").status_code == 503


def misspellings(name: str) -> set[str]:
    """Return names that differ from a name by case, `_` and `-` alone."""
    words = re.findall("^[a-z]+|[A-Z][a-z]*", name)
    spelt = {name.upper(), name.capitalize(), "-".join(words), "_".join(words).lower(), f"{name}_"}
    return {*spelt, name.lower(), f"_{name}", f"-{name}-".title()} - {name}


def test_a_name_that_differs_by_case_or_punctuation_is_refused_with_the_right_one(
    sample: Path,
) -> None:
    app = create_app(Settings(artifacts=str(sample), max_lag=0))
    with in_process(app) as client:
        document = client.get("/openapi.json").json()
        known = {
            path: [
                each["name"] for each in operations["get"]["parameters"] if each["in"] == "query"
            ]
            for path, operations in document["paths"].items()
            if "{" not in path and "parameters" in operations.get("get", {})
        }
        known |= {path: [*parameters_of(kind)] for path, kind in PAGES.items()}
        assert {"/v1/services", "/v1/services/search", "/discovery/search"} < known.keys()
        for path, names in known.items():
            given = f"{path}?q=tide&query=tide"
            client.get(given)  # what the cache now has must not hide the misspelt name
            right = {misspelt: name for name in names for misspelt in misspellings(name)}
            for misspelt, name in right.items():
                response = client.get(f"{given}&{quote(misspelt)}=1")
                assert response.status_code == 400, (path, misspelt)
                body = response.json()
                message = body.get("errorMessage") or body["error"]["message"]
                assert message == f"{misspelt} is no parameter here; write {name}"
        page = client.get("/?q=tide&max_price=1", headers={"accept": "text/html"})
        assert (page.status_code, "write maxPrice" in page.text) == (400, True)
