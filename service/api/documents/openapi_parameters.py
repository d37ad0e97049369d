"""The parameters of the operations, as OpenAPI describes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from service.api.changes import DEFAULT_CHANGES, MAX_CHANGES
from service.api.discovery import (
    DEFAULT_FOUND,
    DEFAULT_MERCHANT,
    DEFAULT_RESOURCES,
    LONGEST_URL_PART,
    MAX_RESOURCES,
    SHORTEST_URL_PART,
)
from service.api.endpoints import DEFAULT_PER_SERVICE, ENDPOINT_SORTS
from service.api.parameters import (
    DEFAULT_TIMEFRAME,
    ENDPOINTS,
    INTEGRATION_TYPES,
    MATCHES,
    SORTS,
)
from service.api.query_string import (
    BOOLEANS,
    DEFAULT_LIMIT,
    MAX_LIMIT,
    MAX_QUERY,
    PRICE,
)
from service.filtering.facets import ENDPOINT_FACETS, MAX_COUNTED, SERVICE_FACETS
from service.records import ID_PATTERN
from service.snapshot_records import SNAPSHOT_ID_PATTERN

Json = dict[str, Any]

NOT_BLANK = r"[^\s\x1c-\x1f\x85]|\ufeff"  # Python and ECMA 262 disagree about white space


def listing() -> list[Json]:
    """Return the parameters of the listing of services."""
    # Typical values are in the descriptions, since viewers fill an `example` into the request that
    # a reader tries, which would find little with all of them.
    price = "The most that the cheapest price may be, in units of its currency, such as `0.05`."
    types = "Only services of this type, or of any of several."
    return [
        *_page("services"),
        *_any_of("services", {"category": "Data", "network": "base", "scheme": "exact"}),
        *_any_of("services", {"tag": "weather"}),
        _array("integrationType", types, INTEGRATION_TYPES),
        _choice("enriched", BOOLEANS, "Only services that are curated, or that are not."),
        _price("maxPrice", price),
        _choice("sort", SORTS, "The order; relevance of the listing is best known first."),
        _facets(SERVICE_FACETS),
        _choice("endpoints", ENDPOINTS, "Whether services have their endpoints, or the number."),
    ]


def service_search(query: str) -> list[Json]:
    """Return the parameters of a search for services, with an example of a query."""
    meaning = "Whether any word of the query suffices, or one endpoint must have every word."
    match = _choice("match", MATCHES, meaning)
    return [_query("q", query) | {"required": True}, *listing(), match, _explain()]


def service_id(example: str | None) -> list[Json]:
    """Return the id of a service in the path."""
    by_id = _parameter("id", "The id of a service.", {"type": "string", "pattern": ID_PATTERN})
    return [by_id | {"in": "path", "required": True} | ({"example": example} if example else {})]


def endpoint_search(query: str) -> list[Json]:
    """Return the parameters of a search for endpoints, with an example of a query."""
    offers = {"network": "base", "scheme": "exact", "asset": "0x8335…", "payTo": "0x1a2b…"}
    own = {"method": "GET", "category": "Data", "tag": "weather", "service": "tidewatch-example"}
    price = (
        "The most that an endpoint may cost, in units of its currency, such as `0.05`; for the "
        "scheme `upto` its ceiling. With a network, scheme, asset or payTo, the price of the "
        "cheapest entry of `accepts` that has these."
    )
    collapsed = "The most endpoints of one service that are listed; 0 lists all."
    return [
        _query("q", query, "Required unless there is a filter."),
        *_page("endpoints"),
        *_any_of("endpoints", offers, " Those of an entry of `accepts` must hold together."),
        *_any_of("endpoints", own),
        _choice("enriched", BOOLEANS, "Only endpoints of services that are curated, or not."),
        _price("maxPrice", price),
        _choice("sort", ENDPOINT_SORTS, "The order; endpoints without a price come last."),
        _integer("perService", DEFAULT_PER_SERVICE, 0, collapsed),
        _facets(ENDPOINT_FACETS),
        _explain(),
    ]


def timeframe() -> list[Json]:
    """Return the parameters of totals."""
    days = "Days of 24 hours, up to and including the newest payment."
    return [_integer("timeframe", DEFAULT_TIMEFRAME, 1, days)]


def payments() -> list[Json]:
    """Return the parameters of the newest payments."""
    return [_integer("page", 0, 0, "Number of the page."), _limit("payments")]


def changes(example: str | None) -> list[Json]:
    """Return the parameters of the changes since a snapshot, with an example of its id."""
    schema = {"type": "string", "pattern": SNAPSHOT_ID_PATTERN}
    since = _parameter("since", "The id of the snapshot to start from.", schema)
    since |= {"required": True} | ({"example": example} if example else {})
    to = "The id of the snapshot to end at; the one being served by default."
    limit = f"Maximum number of changes; over {MAX_CHANGES:,} means {MAX_CHANGES:,}."
    cursor = "The `cursor` of the last response: the next page of the same changes."
    return [
        since,
        _parameter("to", to, schema),
        _integer("limit", DEFAULT_CHANGES, 1, limit),
        _text("cursor", cursor),
    ]


def resources() -> list[Json]:
    """Return the parameters of the listing of resources."""
    return [
        *_resource_page(DEFAULT_RESOURCES),
        _type(),
        _text("network", "Only with this network, as the entry of `accepts` has it."),
        _text("scheme", "Only with this scheme, on the same entry of `accepts`."),
        _pay_to(),
        _text("extensions", "Only with this key in `extensions`."),
    ]


def resource_search(query: str) -> list[Json]:
    """Return the parameters of a search for resources, with an example of a query."""
    part = "Only with this in their URL, in any case."
    price = "The most that the same entry may cost in US dollars, paid in a known stablecoin."
    limit = f"Maximum number of resources; over {MAX_LIMIT} means {MAX_LIMIT}."
    cursor = "The `cursor` of the last response, which continues the same search."
    return [
        _query("query", query, "Required unless there is a filter."),
        _type(),
        _text("network", "Only with this network on an entry of `accepts`, by any of its names."),
        _text("scheme", "Only with this scheme, on the same entry."),
        _text("asset", "Only with this asset, in any case, on the same entry."),
        _pay_to(),
        _price("maxUsdPrice", price),
        _texts("extensions", "Only with this key in `extensions`, or with all of several."),
        _texts("tags", "Only with this tag, or with any of several."),
        _text("urlSubstring", part, SHORTEST_URL_PART, LONGEST_URL_PART),
        _integer("limit", DEFAULT_FOUND, 1, limit),
        _text("cursor", cursor),
    ]


def merchant() -> list[Json]:
    """Return the parameters of the resources of one address."""
    return [_pay_to() | {"required": True}, *_resource_page(DEFAULT_MERCHANT)]


def if_none_match() -> Json:
    """Return the header of a conditional request."""
    known = "The `ETag` of an earlier response; 304 while it is up to date."
    return _parameter("If-None-Match", known, {"type": "string"}) | {"in": "header"}


def _query(name: str, example: str, condition: str = "") -> Json:
    meaning = f"Plain text without operators. The first 64 distinct terms count. {condition}"
    schema = {"type": "string", "minLength": 1, "maxLength": MAX_QUERY, "pattern": NOT_BLANK}
    return _parameter(name, meaning.strip(), schema) | {"example": example}


def _page(items: str) -> list[Json]:
    offset = f"Number of {items} to skip; past the end the page is empty."
    return [_limit(items), _integer("offset", 0, 0, offset)]


def _limit(items: str) -> Json:
    meaning = f"Maximum number of {items}; over {MAX_LIMIT} means {MAX_LIMIT}."
    return _integer("limit", DEFAULT_LIMIT, 1, meaning)


def _resource_page(default: int) -> list[Json]:
    limit = f"Maximum number of resources; over {MAX_RESOURCES:,} means {MAX_RESOURCES:,}."
    offset = "Number of resources to skip; past the end the page is empty."
    return [_integer("limit", default, 1, limit), _integer("offset", 0, 0, offset)]


def _any_of(items: str, examples: dict[str, str], more: str = "") -> list[Json]:
    return [
        _array(name, f"Only {items} with this {name}, such as `{value}`, or any of several.{more}")
        for name, value in examples.items()
    ]


def _explain() -> Json:
    return _choice("explain", BOOLEANS, "Whether to add the parts of the score of each result.")


def _facets(names: Iterable[str]) -> Json:
    counted = f"Facets to count over all matches: the {MAX_COUNTED} most frequent values of each."
    facets = _array("facets", counted, names)
    return facets | {"style": "form", "explode": False}


def _price(name: str, description: str) -> Json:
    return _parameter(name, description, {"type": "string", "pattern": f"^{PRICE.pattern}$"})


def _type() -> Json:
    return _text("type", "Only resources of this type, such as `http` or `mcp`.")


def _pay_to() -> Json:
    return _text("payTo", "Only paid to this address, in any case, on the same entry of `accepts`.")


def _text(name: str, description: str, shortest: int = 1, longest: int | None = None) -> Json:
    limits = {"minLength": shortest} | ({"maxLength": longest} if longest else {})
    return _parameter(name, description, {"type": "string"} | limits)


def _texts(name: str, description: str) -> Json:
    items = {"type": "string", "minLength": 1}
    return _parameter(name, description, {"type": "array", "items": items})


def _integer(name: str, default: int, minimum: int, description: str) -> Json:
    schema = {"type": "integer", "minimum": minimum, "default": default}
    return _parameter(name, description, schema)


def _choice(name: str, allowed: tuple[str, ...], description: str) -> Json:
    return _parameter(name, description, {"type": "string", "enum": list(allowed)})


def _array(name: str, description: str, allowed: Iterable[str] = ()) -> Json:
    choices = list(allowed)
    items = {"type": "string"} | ({"enum": choices} if choices else {})
    return _parameter(name, description, {"type": "array", "items": items})


def _parameter(name: str, description: str, schema: Json) -> Json:
    return {
        "name": name,
        "in": "query",
        "description": description,
        "required": False,
        "schema": schema,
    }
