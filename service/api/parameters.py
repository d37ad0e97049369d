"""Query strings to typed parameters, or an InvalidParameter that names the one at fault."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import NamedTuple, cast, get_args
from urllib.parse import parse_qsl, urlencode

import numpy as np
from msgspec import Struct

from service.errors import InvalidParameter
from service.search.filters import FACETS, NO_FILTERS, Filters, Sort
from service.snapshot.resources import NO_RESOURCE_FILTERS, ResourceFilters

MAX_LIMIT = 200
MAX_QUERY = 2000
MAX_INTEGER = 2**63 - 1
DEFAULT_LIMIT = 24
DEFAULT_TIMEFRAME = 30
DEFAULT_RESOURCES = 100
DEFAULT_MERCHANT = 20
MAX_RESOURCES = 1000
RESOURCE_PARAMETERS = ("limit", "offset", "type", "network", "scheme", "payTo", "extensions")
PRICE = re.compile(r"[0-9]{1,100}(?:\.[0-9]{1,100})?")

SORTS: tuple[Sort, ...] = get_args(Sort)
MATCHES = ("any", "all")
ENDPOINTS = ("all", "none")
INTEGRATION_TYPES = ("1P", "3P", "")
BOOLEANS = ("true", "false")
SELECTION_NAMES = frozenset(
    (*FACETS, "enriched", "maxPrice", "match", "sort", "facets", "endpoints")
)


class Page(NamedTuple):
    """A slice of the results."""

    limit: int
    offset: int


class ListRequest(Struct, frozen=True):
    """A page of the services that match a query, or of all services if that is None."""

    query: str | None
    page: Page
    filters: Filters
    with_endpoints: bool

    @property
    def is_cheap(self) -> bool:
        """Whether the response is a slice of a stored order, without search, filter or count."""
        filters = self.filters
        narrowed = filters.facets or filters.enriched is not None or filters.max_price is not None
        return self.query is None and not narrowed and not filters.counted


class ResourceRequest(Struct, frozen=True):
    """A page of the resources that satisfy filters; `unapplied` names ignored parameters."""

    page: Page
    filters: ResourceFilters
    unapplied: list[str]

    @property
    def is_cheap(self) -> bool:
        """Whether the response is a small slice of the listing."""
        return self.filters == NO_RESOURCE_FILTERS and self.page.limit <= MAX_LIMIT


def parse_listing(query_string: bytes) -> ListRequest:
    """Parse the parameters of the listing."""
    parameters = Parameters(query_string)
    return ListRequest(None, parameters.page(), *parameters.selection())


def parse_search(query_string: bytes) -> ListRequest:
    """Parse the parameters of a search."""
    parameters = Parameters(query_string)
    query = parameters.query()
    if not query:
        raise InvalidParameter("q", "q is required: the words to search for")
    return ListRequest(query, parameters.page(), *parameters.selection())


def parse_browse(query_string: bytes) -> ListRequest:
    """Parse the address of the catalogue page: a search if it has words, always pages of 24.

    The form of the page sends an empty `maxPrice` where no price is chosen.
    """
    parameters = Parameters(query_string)
    parameters.discard_blank("maxPrice")
    page = Page(DEFAULT_LIMIT, parameters.integer("offset", 0, minimum=0))
    query = parameters.query()
    filters, _ = parameters.selection()
    return ListRequest(query or None, page, filters, with_endpoints=False)


def parse_endpoints(query_string: bytes) -> tuple[str, int]:
    """Parse the address of a service's page: the words to find endpoints by, and the offset."""
    parameters = Parameters(query_string)
    return parameters.query(), parameters.integer("offset", 0, minimum=0)


def parse_timeframe(query_string: bytes) -> int:
    """Parse `timeframe`, in whole days."""
    return Parameters(query_string).integer("timeframe", DEFAULT_TIMEFRAME, minimum=1)


def parse_transactions(query_string: bytes) -> tuple[int, int]:
    """Parse `page` and `limit` of the payments."""
    parameters = Parameters(query_string)
    return parameters.integer("page", 0, minimum=0), parameters.page().limit


def parse_resources(query_string: bytes) -> ResourceRequest:
    """Parse the parameters of the listing of resources."""
    parameters = Parameters(query_string)
    return ResourceRequest(
        page=parameters.page(DEFAULT_RESOURCES, MAX_RESOURCES),
        filters=ResourceFilters(
            type=parameters.value("type"),
            network=parameters.value("network"),
            scheme=parameters.value("scheme"),
            pay_to=parameters.value("payTo"),
            extension=parameters.value("extensions"),
        ),
        unapplied=parameters.names_except(RESOURCE_PARAMETERS),
    )


def parse_merchant(query_string: bytes) -> tuple[str, Page]:
    """Parse the parameters of the resources of one address."""
    parameters = Parameters(query_string)
    pay_to = parameters.value("payTo")
    if pay_to is None:
        raise InvalidParameter("payTo", "payTo is required: the address that is paid")
    return pay_to, parameters.page(DEFAULT_MERCHANT, MAX_RESOURCES)


def format_query(listing: ListRequest, offset: int = 0) -> str:
    """Return the canonical query string of a listing, of the page at this offset."""
    filters = listing.filters
    fields: dict[str, object] = {"q": listing.query or []}
    fields |= filters.facets
    fields["enriched"] = [] if filters.enriched is None else str(filters.enriched).lower()
    fields["maxPrice"] = [] if filters.max_price is None else format_decimal(filters.max_price)
    fields["match"] = "all" if filters.match_all else []
    fields["sort"] = [] if filters.sort == "relevance" else filters.sort
    fields["offset"] = offset or []
    return urlencode(fields, doseq=True)


def format_decimal(price: float) -> str:
    """Format a price without exponent, so that it can be parsed again to the same number."""
    return np.format_float_positional(price, trim="-")


class Parameters:
    """The parameters of one query string; unknown ones are ignored."""

    def __init__(self, query_string: bytes) -> None:
        self._values: dict[str, list[str]] = {}
        text = query_string.decode("utf-8", "replace")
        for name, value in parse_qsl(text, keep_blank_values=True):
            self._values.setdefault(name, []).append(value)

    def discard_blank(self, name: str) -> None:
        """Treat a parameter without a value as missing."""
        if self._values.get(name) == [""]:
            del self._values[name]

    def page(self, default: int = DEFAULT_LIMIT, maximum: int = MAX_LIMIT) -> Page:
        """Return `limit`, clamped to a maximum, and `offset`."""
        limit = self.integer("limit", default, minimum=1)
        return Page(min(limit, maximum), self.integer("offset", 0, minimum=0))

    def value(self, name: str) -> str | None:
        """Return any text but an empty one, or None if the parameter is missing."""
        value = self._single(name)
        if value == "":
            raise InvalidParameter(name, f"{name} is empty; give a value, or leave it out")
        return value

    def names_except(self, names: Container[str]) -> list[str]:
        """Return the names of the given parameters but for these."""
        return sorted(name for name in self._values if name not in names)

    def query(self) -> str:
        """Return `q`, empty if it is missing or blank."""
        query = self._single("q")
        if query is None or not query.strip():
            return ""
        if len(query) > MAX_QUERY:
            message = f"q has {len(query)} characters; at most {MAX_QUERY} are searched"
            raise InvalidParameter("q", message)
        return query

    def selection(self) -> tuple[Filters, bool]:
        """Return the conditions, the order and the facets to count; and whether with endpoints."""
        if SELECTION_NAMES.isdisjoint(self._values):
            return NO_FILTERS, True
        enriched = self.choice("enriched", BOOLEANS)
        filters = Filters(
            facets={name: self._facet(name) for name in FACETS if name in self._values},
            enriched=None if enriched is None else enriched == "true",
            max_price=self._max_price(),
            match_all=self.choice("match", MATCHES) == "all",
            sort=cast("Sort", self.choice("sort", SORTS) or "relevance"),
            counted=self._counted(),
        )
        return filters, self.choice("endpoints", ENDPOINTS) != "none"

    def integer(self, name: str, default: int, minimum: int) -> int:
        """Return a plain decimal integer in ASCII digits, clamped to 64 bits."""
        text = self._single(name)
        if text is None:
            return default
        if text.isascii() and text.isdigit():
            digits = text.lstrip("0") or "0"
            value = int(digits) if len(digits) < len(str(MAX_INTEGER)) else MAX_INTEGER
            if value >= minimum:
                return value
        raise InvalidParameter(name, f"{name} must be an integer of at least {minimum}")

    def choice(self, name: str, allowed: tuple[str, ...]) -> str | None:
        """Return one of the allowed values, or None if the parameter is missing."""
        value = self._single(name)
        return None if value is None else _require(name, value, allowed)

    def _facet(self, name: str) -> list[str]:
        values = self._values[name]
        if name == "integrationType":
            for value in values:
                _require(name, value.upper(), INTEGRATION_TYPES)
        return values

    def _max_price(self) -> float | None:
        text = self._single("maxPrice")
        if text is None:
            return None
        if not PRICE.fullmatch(text):
            raise InvalidParameter("maxPrice", "maxPrice must be a decimal such as 0.05, from 0")
        return float(text)

    def _counted(self) -> tuple[str, ...]:
        text = self._single("facets")
        if not text:
            return ()
        names = tuple(dict.fromkeys(text.split(",")))
        for name in names:
            _require("facets", name, tuple(FACETS))
        return names

    def _single(self, name: str) -> str | None:
        values = self._values.get(name, [])
        if len(values) > 1:
            raise InvalidParameter(name, f"{name} was given {len(values)} times; give it once")
        return values[0] if values else None


def _require(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        choices = ", ".join(choice or "empty" for choice in allowed)
        raise InvalidParameter(name, f"{name} must be one of: {choices}")
    return value
