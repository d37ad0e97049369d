"""The x402 discovery API: resources of feeds as they came, searched, and by who is paid."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from service.api.listing import splice, stored_list
from service.api.query_string import (
    MAX_LIMIT,
    QUERY,
    Limit,
    Offset,
    Operation,
    Price,
    Query,
    Text,
    Texts,
    about,
    parameters_of,
    parse_request,
    read,
)
from service.errors import InvalidParameter
from service.filtering.facets import OFFER_KEYS
from service.http.context import snapshot_of
from service.http.responses import json_response
from service.snapshot.cursors import cursor_prefix, parse_cursor
from service.snapshot.resources import NO_RESOURCE_FILTERS, ResourceFilters, ResourcePage

MAX_RESOURCES = 1000
PAGE = ("query", "limit", "cursor")
"""The parameters of a search that are no filters."""

OFFSET = "Number of resources to skip; past the end the page is empty."
PRICE = "The most that the same entry may cost in US dollars, paid in a known stablecoin."
ResourceLimit = Annotated[
    int,
    Meta(
        ge=1,
        description=f"Maximum number of resources; over {MAX_RESOURCES:,} means {MAX_RESOURCES:,}.",
        extra={"maximum": MAX_RESOURCES},
    ),
]
Kind = Annotated[Text, about("Only resources of this type, such as `http` or `mcp`.")]
PayTo = Annotated[
    Text,
    Meta(
        description="Only paid to this address, in any case, on the same entry of `accepts`.",
        extra={"hint": "the address that is paid"},
    ),
]


class ListResources(Operation, frozen=True, kw_only=True):
    """Parameters of `listDiscoveryResources`."""

    limit: ResourceLimit = 100
    offset: Annotated[Offset, about(OFFSET)] = 0
    type: Kind | None = None
    network: (
        Annotated[Text, about("Only with this network, as the entry of `accepts` has it.")] | None
    ) = None
    scheme: (
        Annotated[Text, about("Only with this scheme, on the same entry of `accepts`.")] | None
    ) = None
    pay_to: PayTo | None = None
    extensions: Annotated[Text, about("Only with this key in `extensions`.")] | None = None

    @property
    def filters(self) -> ResourceFilters:
        """The conditions."""
        return ResourceFilters(
            type=self.type,
            network=self.network,
            scheme=self.scheme,
            offers={} if self.pay_to is None else {"payTo": [self.pay_to]},
            extensions=() if self.extensions is None else (self.extensions,),
        )

    @property
    def is_expensive(self) -> bool:
        """Whether the page is more than a small slice of the listing."""
        return self.limit > MAX_LIMIT or self.filters != NO_RESOURCE_FILTERS


class SearchResources(Operation, frozen=True, kw_only=True):
    """Parameters of `searchDiscoveryResources`."""

    query: Annotated[Query, about(f"{QUERY} Required unless there is a filter.")] = ""
    type: Kind | None = None
    network: (
        Annotated[
            Text, about("Only with this network on an entry of `accepts`, by any of its names.")
        ]
        | None
    ) = None
    scheme: Annotated[Text, about("Only with this scheme, on the same entry.")] | None = None
    asset: (
        Annotated[Text, about("Only with this asset, in any case, on the same entry.")] | None
    ) = None
    pay_to: PayTo | None = None
    max_usd_price: Annotated[Price, about(PRICE)] | None = None
    extensions: Annotated[
        Texts, about("Only with this key in `extensions`, or with all of several.")
    ] = ()
    tags: Annotated[Texts, about("Only with this tag, or with any of several.")] = ()
    url_substring: (
        Annotated[
            str,
            Meta(
                min_length=3,
                max_length=2048,
                description="Only with this in their URL, in any case.",
            ),
        ]
        | None
    ) = None
    limit: Annotated[Limit, about("Maximum number of resources; over 200 means 200.")] = 20
    cursor: (
        Annotated[
            Text, about("The `cursor` of the last response, which continues the same search.")
        ]
        | None
    ) = None

    def __post_init__(self) -> None:
        if not self.query and self.filters == NO_RESOURCE_FILTERS:
            names = ", ".join(name for name in parameters_of(SearchResources) if name not in PAGE)
            message = f"query is required, the words to search for, unless there is one of: {names}"
            raise InvalidParameter("query", message)

    @property
    def filters(self) -> ResourceFilters:
        """The conditions."""
        offers = (self.network, self.scheme, self.asset, self.pay_to)
        return ResourceFilters(
            type=self.type,
            extensions=self.extensions,
            tags=self.tags,
            url_part=self.url_substring,
            offers={
                name: [value]
                for name, value in zip(OFFER_KEYS, offers, strict=True)
                if value is not None
            },
            max_usd_price=None if self.max_usd_price is None else float(self.max_usd_price),
        )


class ListMerchant(Operation, frozen=True, kw_only=True):
    """Parameters of `listDiscoveryMerchant`."""

    pay_to: PayTo
    limit: ResourceLimit = 20
    offset: Annotated[Offset, about(OFFSET)] = 0


async def list_resources(request: Request) -> Response:
    """List the resources that satisfy the filters."""
    listing = parse_request(ListResources, request)
    limit, offset = listing.limit, listing.offset
    engine = snapshot_of(request).engine
    page = await engine.search_resources(None, limit, offset, listing.filters)
    body = splice(
        {
            "x402Version": 2,
            "items": stored_list(page.texts),
            "pagination": _pagination(page, limit, offset),
            **_unapplied(request, ListResources),
        }
    )
    return json_response(body)


async def search_resources(request: Request) -> Response:
    """List the resources that match a query and satisfy the filters, best match first."""
    search = parse_request(SearchResources, request)
    snapshot, filters = snapshot_of(request), search.filters
    prefix = cursor_prefix(snapshot.id, (search.query, filters))
    start = parse_cursor(search.cursor, prefix)
    query = search.query or None
    page = await snapshot.engine.search_resources(query, search.limit, start, filters)
    stop = start + page.count
    is_partial = stop < page.total
    body = splice(
        {
            "x402Version": 2,
            "resources": stored_list(page.texts),
            "partialResults": is_partial,
            "pagination": {
                "limit": page.count,
                "cursor": f"{prefix}{stop}" if is_partial else None,
            },
            "total": page.total,
            **_unapplied(request, SearchResources),
        }
    )
    return json_response(body)


async def list_merchant(request: Request) -> Response:
    """List the resources that can be paid for to an address."""
    merchant = parse_request(ListMerchant, request)
    limit, offset = merchant.limit, merchant.offset
    filters = ResourceFilters(offers={"payTo": [merchant.pay_to]})
    page = await snapshot_of(request).engine.search_resources(None, limit, offset, filters)
    body = splice(
        {
            "x402Version": 2,
            "payTo": merchant.pay_to,
            "resources": stored_list(page.texts),
            "pagination": _pagination(page, limit, offset),
        }
    )
    return json_response(body)


def _pagination(page: ResourcePage, limit: int, offset: int) -> dict[str, int]:
    """Return the pagination, with the limit that was applied.

    For a page that was cut this is its number of resources: clients add it to the offset.
    """
    applied = page.count if page.is_cut else limit
    return {"limit": applied, "offset": offset, "total": page.total}


def _unapplied(request: Request, kind: type[Operation]) -> dict[str, list[str]]:
    """Return the member with the names of the ignored parameters, if there are any."""
    names = read(request.scope["query_string"]).keys() - parameters_of(kind).keys()
    return {"unappliedFilters": sorted(names)} if names else {}
