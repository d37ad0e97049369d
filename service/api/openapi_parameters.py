"""Inputs: the parameters of each operation, as the OpenAPI document describes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from service.api.examples import Examples
from service.api.parameters import (
    BOOLEANS,
    DEFAULT_LIMIT,
    DEFAULT_TIMEFRAME,
    ENDPOINTS,
    INTEGRATION_TYPES,
    MATCHES,
    MAX_LIMIT,
    MAX_QUERY,
    PRICE,
    SORTS,
)
from service.records import ID_PATTERN
from service.search.facets import FACETS

Json = dict[str, Any]

# Values that many catalogues have. They are said in words: what is given as an example is filled in
# by viewers, and would narrow every request that is tried to what few services have.
COMMON = {"category": "Data", "network": "base", "scheme": "exact", "tag": "weather"}
NOT_BLANK = r"[^\s\x1c-\x1f\x85]|\ufeff"  # Python and ECMA 262 differ in what is space


def search(shown: Examples) -> list[Json]:
    """Of a search."""
    meaning = "Plain text: no operators. The first 64 distinct terms count."
    schema = {"type": "string", "minLength": 1, "maxLength": MAX_QUERY, "pattern": NOT_BLANK}
    query = _required("q", meaning, schema, shown.query)
    return [query, *listing(), _choice("match", MATCHES, "Whether any term suffices, or all must.")]


def listing() -> list[Json]:
    """Of the listing."""
    past = "How many services to pass over; past the end the page is empty."
    return [_limit("services"), _integer("offset", 0, 0, past), *_narrowing()]


def service(shown: Examples) -> list[Json]:
    """Of a fetch."""
    schema = {"type": "string", "pattern": ID_PATTERN}
    return [_required("id", "The id of a service.", schema, shown.service_id) | {"in": "path"}]


def timeframe() -> list[Json]:
    """Of what is summed over days."""
    meaning = "Days of 24 hours, up to and including the newest payment."
    return [_integer("timeframe", DEFAULT_TIMEFRAME, 1, meaning)]


def payments() -> list[Json]:
    """Of the payments."""
    return [_integer("page", 0, 0, "Which page."), _limit("payments")]


def if_none_match() -> Json:
    """Of whatever may be kept."""
    meaning = "The `ETag` of an earlier answer; 304 while it is still the answer."
    return _parameter("If-None-Match", meaning, {"type": "string"}) | {"in": "header"}


def _narrowing() -> list[Json]:
    facets = [
        _several(name, f"Only services with this {name}, as `{value}`, or with any of several.")
        for name, value in COMMON.items()
    ]
    price = "The most that the cheapest price may be, in units of its currency, as `0.05`."
    types = "Only services of this type, or of any of several."
    counted = _several("facets", "Facets to count over all matches.", FACETS)
    return [
        *facets,
        _several("integrationType", types, INTEGRATION_TYPES),
        _choice("enriched", BOOLEANS, "Only services that are curated, or that are not."),
        _parameter("maxPrice", price, {"type": "string", "pattern": f"^{PRICE.pattern}$"}),
        _choice("sort", SORTS, "The order; relevance of a listing is best known first."),
        counted | {"style": "form", "explode": False},
        _choice("endpoints", ENDPOINTS, "Whether services have their endpoints, or their number."),
    ]


def _limit(items: str) -> Json:
    meaning = f"How many {items} at most; over {MAX_LIMIT} means {MAX_LIMIT}."
    return _integer("limit", DEFAULT_LIMIT, 1, meaning)


def _integer(name: str, default: int, minimum: int, description: str) -> Json:
    schema = {"type": "integer", "minimum": minimum, "default": default}
    return _parameter(name, description, schema)


def _choice(name: str, allowed: tuple[str, ...], description: str) -> Json:
    return _parameter(name, description, {"type": "string", "enum": list(allowed)})


def _several(name: str, description: str, allowed: Iterable[str] = ()) -> Json:
    named = list(allowed)
    item = {"type": "string"} | ({"enum": named} if named else {})
    return _parameter(name, description, {"type": "array", "items": item})


def _required(name: str, description: str, schema: Json, example: str | None) -> Json:
    shown = {} if example is None else {"example": example}
    return _parameter(name, description, schema) | {"required": True} | shown


def _parameter(name: str, description: str, schema: Json) -> Json:
    return {
        "name": name,
        "in": "query",
        "description": description,
        "required": False,
        "schema": schema,
    }
