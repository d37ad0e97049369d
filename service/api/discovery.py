"""The x402 discovery API: resources of feeds as they came, searched, and by who is paid."""

from __future__ import annotations

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from service.api.listing import splice, stored_list
from service.api.query_string import MAX_LIMIT, Page, Parameters
from service.errors import InvalidParameter
from service.filtering.facets import OFFER_KEYS
from service.http.context import context_of, snapshot_of
from service.http.responses import json_response
from service.snapshot.cursors import cursor_prefix, parse_cursor
from service.snapshot.resources import NO_RESOURCE_FILTERS, ResourceFilters, ResourcePage

DEFAULT_RESOURCES = 100
DEFAULT_MERCHANT = 20
MAX_RESOURCES = 1000
DEFAULT_FOUND = 20
SHORTEST_URL_PART, LONGEST_URL_PART = 3, 2048
REPEATABLE = ("extensions", "tags")
SEARCH_FILTERS = ("type", *OFFER_KEYS, *REPEATABLE, "maxUsdPrice", "urlSubstring")
RESOURCE_PARAMETERS = ("limit", "offset", "type", "network", "scheme", "payTo", "extensions")


class ResourceRequest(Struct, frozen=True):
    """A page of the resources that satisfy filters; `unapplied` names ignored parameters."""

    page: Page
    filters: ResourceFilters
    unapplied: list[str]

    @property
    def is_cheap(self) -> bool:
        """Whether the response is a small slice of the listing."""
        return self.filters == NO_RESOURCE_FILTERS and self.page.limit <= MAX_LIMIT


class ResourceSearch(Struct, frozen=True):
    """A page of the resources that match a query, or of all that satisfy the filters if None.

    `start` is the number of resources before the page. A cursor is `cursor_prefix`, which names the
    snapshot and the search, and the start of a page.
    """

    query: str | None
    filters: ResourceFilters
    limit: int
    start: int
    cursor_prefix: str
    unapplied: list[str]


async def list_resources(request: Request) -> Response:
    """List the resources that satisfy the filters."""
    listing = parse_resources(request.scope["query_string"])
    if not listing.is_cheap:
        context_of(request).load_shedder.check()
    limit, offset = listing.page.limit, listing.page.offset
    engine = snapshot_of(request).engine
    page = await engine.search_resources(None, limit, offset, listing.filters)
    body = splice(
        {
            "x402Version": 2,
            "items": stored_list(page.texts),
            "pagination": _pagination(page, limit, offset),
            **_unapplied(listing.unapplied),
        }
    )
    return json_response(body)


async def search_resources(request: Request) -> Response:
    """List the resources that match a query and satisfy the filters, best match first."""
    snapshot = snapshot_of(request)
    search = parse_resource_search(request.scope["query_string"], snapshot.id)
    context_of(request).load_shedder.check()
    start = search.start
    engine = snapshot.engine
    page = await engine.search_resources(search.query, search.limit, start, search.filters)
    stop = start + page.count
    is_partial = stop < page.total
    cursor = f"{search.cursor_prefix}{stop}" if is_partial else None
    body = splice(
        {
            "x402Version": 2,
            "resources": stored_list(page.texts),
            "partialResults": is_partial,
            "pagination": {"limit": page.count, "cursor": cursor},
            "total": page.total,
            **_unapplied(search.unapplied),
        }
    )
    return json_response(body)


async def list_merchant(request: Request) -> Response:
    """List the resources that can be paid for to an address."""
    pay_to, (limit, offset) = parse_merchant(request.scope["query_string"])
    context_of(request).load_shedder.check()
    filters = ResourceFilters(offers={"payTo": [pay_to]})
    page = await snapshot_of(request).engine.search_resources(None, limit, offset, filters)
    body = splice(
        {
            "x402Version": 2,
            "payTo": pay_to,
            "resources": stored_list(page.texts),
            "pagination": _pagination(page, limit, offset),
        }
    )
    return json_response(body)


def parse_resources(query_string: bytes) -> ResourceRequest:
    """Parse the parameters of the listing of resources."""
    parameters = Parameters(query_string)
    extension, pay_to = parameters.value("extensions"), parameters.value("payTo")
    return ResourceRequest(
        page=parameters.page(DEFAULT_RESOURCES, MAX_RESOURCES),
        filters=ResourceFilters(
            type=parameters.value("type"),
            network=parameters.value("network"),
            scheme=parameters.value("scheme"),
            offers={} if pay_to is None else {"payTo": [pay_to]},
            extensions=() if extension is None else (extension,),
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


def parse_resource_search(query_string: bytes, snapshot: str) -> ResourceSearch:
    """Parse the parameters of a search for resources of this snapshot."""
    parameters = Parameters(query_string)
    query = parameters.query("query")
    if not query and not parameters.has_any(SEARCH_FILTERS):
        names = ", ".join(SEARCH_FILTERS)
        message = f"query is required, the words to search for, unless there is one of: {names}"
        raise InvalidParameter("query", message)
    url_part = parameters.value("urlSubstring")
    if url_part is not None and not SHORTEST_URL_PART <= len(url_part) <= LONGEST_URL_PART:
        message = f"urlSubstring must have {SHORTEST_URL_PART} to {LONGEST_URL_PART} characters"
        raise InvalidParameter("urlSubstring", message)
    given = {name: parameters.value(name) for name in OFFER_KEYS}
    filters = ResourceFilters(
        type=parameters.value("type"),
        extensions=parameters.texts("extensions"),
        tags=parameters.texts("tags"),
        url_part=url_part,
        offers={name: [value] for name, value in given.items() if value is not None},
        max_usd_price=parameters.price("maxUsdPrice"),
    )
    prefix = cursor_prefix(snapshot, (query, filters))
    return ResourceSearch(
        query=query or None,
        filters=filters,
        limit=min(parameters.integer("limit", DEFAULT_FOUND, minimum=1), MAX_LIMIT),
        start=parse_cursor(parameters.value("cursor"), prefix),
        cursor_prefix=prefix,
        unapplied=parameters.names_except(("query", "limit", "cursor", *SEARCH_FILTERS)),
    )


def _pagination(page: ResourcePage, limit: int, offset: int) -> dict[str, int]:
    """Return the pagination, with the limit that was applied.

    For a page that was cut this is its number of resources: clients add it to the offset.
    """
    applied = page.count if page.is_cut else limit
    return {"limit": applied, "offset": offset, "total": page.total}


def _unapplied(names: list[str]) -> dict[str, list[str]]:
    return {"unappliedFilters": names} if names else {}
