"""Endpoints of all services: what agents call, searched with the terms on which they are paid."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import cast, get_args
from urllib.parse import urlencode

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from service.api.listing import StoredList, additions, splice
from service.api.parameters import format_decimal
from service.api.query_string import DEFAULT_LIMIT, Page, Parameters
from service.errors import InvalidParameter
from service.filtering.endpoint_filters import EndpointFilters, EndpointSort
from service.filtering.facets import ENDPOINT_FACETS, ENDPOINT_KEYS, OFFER_KEYS
from service.http.context import context_of, snapshot_of
from service.http.responses import json_response
from service.records import AcceptsEntry, EndpointQuality, Pricing, ServiceFacts
from service.snapshot import Snapshot
from service.snapshot.engine import EndpointHits
from service.snapshot.resources import MAX_PAGE

ENDPOINT_SORTS: tuple[EndpointSort, ...] = get_args(EndpointSort)
DEFAULT_PER_SERVICE = 3
CONDITIONS = (*OFFER_KEYS, *ENDPOINT_KEYS, "service", "enriched", "maxPrice")
"""The filters: `q` is required without any of them."""


class EndpointSummary(Struct, rename="camel"):
    """The part of a listed endpoint that a list shows; decoding skips its parameters."""

    url: str
    method: str
    pricing: Pricing
    service: ServiceFacts
    description: str = ""
    quality: EndpointQuality | None = None
    match: AcceptsEntry | UnsetType = UNSET


class EndpointRequest(Struct, frozen=True):
    """A page of the endpoints that match a query, or of all that satisfy the filters if None."""

    query: str | None
    page: Page
    filters: EndpointFilters


async def search_endpoints(request: Request) -> Response:
    """List the endpoints that match a query and satisfy the filters, best match first."""
    search = parse_endpoint_search(request.scope["query_string"])
    context_of(request).load_shedder.check()
    snapshot = snapshot_of(request)
    hits = await find_endpoints(snapshot, search)
    return json_response(endpoint_list_body(snapshot, search, hits))


def parse_endpoint_search(query_string: bytes) -> EndpointRequest:
    """Parse the parameters of a search for endpoints."""
    parameters = Parameters(query_string)
    query = parameters.query()
    if not query and not parameters.has_any(CONDITIONS):
        names = ", ".join(CONDITIONS)
        message = f"q is required, the words to search for, unless there is one of: {names}"
        raise InvalidParameter("q", message)
    return EndpointRequest(query or None, parameters.page(), _filters(parameters))


def parse_endpoint_browse(query_string: bytes) -> EndpointRequest:
    """Parse the address of the page of endpoints: always pages of 24, and nothing is required.

    The form of the page sends an empty `maxPrice` where no price is chosen.
    """
    parameters = Parameters(query_string)
    parameters.discard_blank("maxPrice")
    page = Page(DEFAULT_LIMIT, parameters.integer("offset", 0, minimum=0))
    return EndpointRequest(parameters.query() or None, page, _filters(parameters))


def format_endpoint_query(search: EndpointRequest, offset: int = 0) -> str:
    """Return the canonical query string of a search, of the page at this offset."""
    filters = search.filters
    fields: dict[str, object] = {"q": search.query or []}
    fields |= filters.offers | filters.facets
    fields["service"] = filters.services
    fields["enriched"] = [] if filters.enriched is None else str(filters.enriched).lower()
    fields["maxPrice"] = [] if filters.max_price is None else format_decimal(filters.max_price)
    fields["sort"] = [] if filters.sort == "relevance" else filters.sort
    is_default = filters.per_service == DEFAULT_PER_SERVICE
    fields["perService"] = [] if is_default else filters.per_service
    fields["offset"] = offset or []
    return urlencode(fields, doseq=True)


async def find_endpoints(snapshot: Snapshot, search: EndpointRequest) -> EndpointHits:
    """Return the requested page of endpoints."""
    page = search.page
    engine = snapshot.engine
    return await engine.search_endpoints(search.query, page.limit, page.offset, search.filters)


def endpoint_list_body(snapshot: Snapshot, search: EndpointRequest, hits: EndpointHits) -> bytes:
    """Return the JSON of an `EndpointList`, with the endpoints as they are stored.

    The page ends early where MAX_PAGE bytes leave no room for more; `limit` is then the number of
    its endpoints.
    """
    items = list(map(snapshot.endpoints.item, hits.ordinals, hits.offers))
    sizes = accumulate(sum(map(len, item)) for item in items)
    count = max(bisect_right(list(sizes), MAX_PAGE), 1)
    limit = count if count < len(items) else search.page.limit
    explanations = hits.explanations and hits.explanations[:limit]
    return splice(
        {
            "endpoints": StoredList(items[:count]),
            "total": hits.total,
            "listed": hits.listed,
            "limit": limit,
            "offset": search.page.offset,
            **additions(replace(hits, explanations=explanations)),
        }
    )


def _filters(parameters: Parameters) -> EndpointFilters:
    return EndpointFilters(
        offers={name: values for name in OFFER_KEYS if (values := parameters.values(name))},
        facets={name: values for name in ENDPOINT_KEYS if (values := parameters.values(name))},
        services=parameters.values("service"),
        enriched=parameters.flag("enriched"),
        max_price=parameters.price("maxPrice"),
        sort=cast("EndpointSort", parameters.choice("sort", ENDPOINT_SORTS) or "relevance"),
        per_service=parameters.integer("perService", DEFAULT_PER_SERVICE, minimum=0),
        counted=parameters.facets(ENDPOINT_FACETS),
        explain=bool(parameters.flag("explain")),
    )
