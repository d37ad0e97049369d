"""Query strings of the catalogue and of the ecosystem to typed requests."""

from __future__ import annotations

from typing import cast, get_args
from urllib.parse import urlencode

import numpy as np
from msgspec import Struct

from service.api.query_string import DEFAULT_LIMIT, Page, Parameters, require
from service.errors import InvalidParameter
from service.filtering.facets import SERVICE_FACETS
from service.filtering.filters import NO_FILTERS, Filters, Sort

DEFAULT_TIMEFRAME = 30

SORTS: tuple[Sort, ...] = get_args(Sort)
MATCHES = ("any", "all")
ENDPOINTS = ("all", "none")
INTEGRATION_TYPES = ("1P", "3P", "")
SELECTION_NAMES = frozenset(
    (*SERVICE_FACETS, "enriched", "maxPrice", "match", "sort", "facets", "endpoints", "explain")
)


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


def parse_listing(query_string: bytes) -> ListRequest:
    """Parse the parameters of the listing."""
    parameters = Parameters(query_string)
    return ListRequest(None, parameters.page(), *_selection(parameters))


def parse_search(query_string: bytes) -> ListRequest:
    """Parse the parameters of a search."""
    parameters = Parameters(query_string)
    query = parameters.query()
    if not query:
        raise InvalidParameter("q", "q is required: the words to search for")
    return ListRequest(query, parameters.page(), *_selection(parameters))


def parse_browse(query_string: bytes) -> ListRequest:
    """Parse the address of the catalogue page: a search if it has words, always pages of 24.

    The form of the page sends an empty `maxPrice` where no price is chosen.
    """
    parameters = Parameters(query_string)
    parameters.discard_blank("maxPrice")
    page = Page(DEFAULT_LIMIT, parameters.integer("offset", 0, minimum=0))
    query = parameters.query()
    filters, _ = _selection(parameters)
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


def _selection(parameters: Parameters) -> tuple[Filters, bool]:
    """Return the conditions, the order and the facets to count; and whether with endpoints."""
    if not parameters.has_any(SELECTION_NAMES):
        return NO_FILTERS, True
    for value in parameters.values("integrationType"):
        require("integrationType", value.upper(), INTEGRATION_TYPES)
    filters = Filters(
        facets={name: values for name in SERVICE_FACETS if (values := parameters.values(name))},
        enriched=parameters.flag("enriched"),
        max_price=parameters.price("maxPrice"),
        match_all=parameters.choice("match", MATCHES) == "all",
        sort=cast("Sort", parameters.choice("sort", SORTS) or "relevance"),
        counted=parameters.facets(SERVICE_FACETS),
        explain=bool(parameters.flag("explain")),
    )
    return filters, parameters.choice("endpoints", ENDPOINTS) != "none"
