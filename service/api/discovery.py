"""The x402 discovery API: resources of feeds as they came, searched, and by who is paid."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.requests import Request

from service.api.listing import splice, stored_list
from service.api.query_string import (
    MAX_LIMIT,
    QUERY,
    Cursor,
    Limit,
    LongLimit,
    NonEmptyValues,
    Offset,
    Operation,
    PriceBound,
    Query,
    about,
    parameters_of,
    read,
)
from service.api.routes import OperationRoute
from service.errors import InvalidParameter
from service.filtering.facets import OFFER_KEYS
from service.http.context import snapshot_of
from service.http.responses import Cacheable
from service.schema.discovery import PREFIXES
from service.schema.values import NonEmpty
from service.snapshot.cursors import cursor_prefix, parse_cursor
from service.snapshot.resources import NO_RESOURCE_FILTERS, ResourceFilters, ResourcePage

PAGE = ("query", "limit", "cursor")
"""The parameters of a search that are no filters."""

SAME_NETWORK = "Only with this network, as the entry of `accepts` has it."
NETWORK = "Only with this network on an entry of `accepts`, by any of its names."
ASSET = "Only with this asset, in any case, on the same entry."
EXTENSIONS = "Only with this key in `extensions`, or with all of several."
ALIVE = "Only with an endpoint that probers found alive, or dead."
REGISTRATION = (
    "Only resources that require a registration or a sign-in before payment, or with `false` only "
    "the others."
)
PRICE = "The most that the same entry may cost in US dollars, paid in a known stablecoin."
ResourceType = Annotated[NonEmpty, about("Only resources of this type, such as `http` or `mcp`.")]
PayTo = Annotated[
    NonEmpty,
    Meta(
        description="Only paid to this address, in any case, on the same entry of `accepts`.",
        extra={"hint": "the address that is paid"},
    ),
]
UrlPart = Annotated[
    str,
    Meta(min_length=3, max_length=2048, description="Only with this in their URL, in any case."),
]


class ListDiscoveryResources(Operation, frozen=True, kw_only=True):
    """List resources of x402 feeds as they came; also below /v2/x402 and /platform/v2/x402."""

    NAMES_UNKNOWN = True
    limit: LongLimit = 100
    offset: Offset = 0
    type: ResourceType | None = None
    network: Annotated[NonEmpty | None, about(SAME_NETWORK)] = None
    scheme: Annotated[NonEmpty | None, about("Only with this scheme, on the same entry.")] = None
    pay_to: PayTo | None = None
    extensions: Annotated[NonEmpty | None, about("Only with this key in `extensions`.")] = None
    registration: Annotated[bool | None, about(REGISTRATION)] = None

    @property
    def filters(self) -> ResourceFilters:
        """The conditions."""
        return ResourceFilters(
            type=self.type,
            network=self.network,
            scheme=self.scheme,
            offers={} if self.pay_to is None else {"payTo": [self.pay_to]},
            extensions=() if self.extensions is None else (self.extensions,),
            registration=self.registration,
        )

    @property
    def is_expensive(self) -> bool:
        """Whether the page is more than a small slice of the listing."""
        return self.limit > MAX_LIMIT or self.filters != NO_RESOURCE_FILTERS


class SearchDiscoveryResources(Operation, frozen=True, kw_only=True):
    """Search the resources of x402 feeds; also below the same prefixes."""

    NAMES_UNKNOWN = True
    query: Annotated[Query, about(f"{QUERY} Required unless there is a filter.")] = ""
    type: ResourceType | None = None
    network: Annotated[NonEmpty | None, about(NETWORK)] = None
    scheme: Annotated[NonEmpty | None, about("Only with this scheme, on the same entry.")] = None
    asset: Annotated[NonEmpty | None, about(ASSET)] = None
    pay_to: PayTo | None = None
    max_usd_price: Annotated[PriceBound | None, about(PRICE)] = None
    extensions: Annotated[NonEmptyValues, about(EXTENSIONS)] = ()
    tags: Annotated[NonEmptyValues, about("Only with this tag, or with any of several.")] = ()
    url_substring: UrlPart | None = None
    alive: Annotated[bool | None, about(ALIVE)] = None
    registration: Annotated[bool | None, about(REGISTRATION)] = None
    limit: Limit = 20
    cursor: Cursor | None = None

    def __post_init__(self) -> None:
        if not self.query and self.filters == NO_RESOURCE_FILTERS:
            names = ", ".join(
                name for name in parameters_of(SearchDiscoveryResources) if name not in PAGE
            )
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
            alive=self.alive,
            offers={
                name: [value]
                for name, value in zip(OFFER_KEYS, offers, strict=True)
                if value is not None
            },
            max_usd_price=None if self.max_usd_price is None else float(self.max_usd_price),
            registration=self.registration,
        )


class ListDiscoveryMerchant(Operation, frozen=True, kw_only=True):
    """List the resources that pay to an address; also below the same prefixes."""

    pay_to: PayTo
    limit: LongLimit = 20
    offset: Offset = 0


async def list_resources(request: Request, listing: ListDiscoveryResources) -> Cacheable:
    """List the resources that satisfy the filters."""
    limit, offset = listing.limit, listing.offset
    engine = snapshot_of(request).engine
    page = await engine.search_resources(None, limit, offset, listing.filters)
    body = splice(
        {
            "x402Version": 2,
            "items": stored_list(page.texts),
            "pagination": _pagination(page, limit, offset),
            **_unapplied(request, ListDiscoveryResources),
        }
    )
    return Cacheable(body)


async def search_resources(request: Request, search: SearchDiscoveryResources) -> Cacheable:
    """List the resources that match a query and satisfy the filters, best match first."""
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
            **_unapplied(request, SearchDiscoveryResources),
        }
    )
    return Cacheable(body)


async def list_merchant(request: Request, merchant: ListDiscoveryMerchant) -> Cacheable:
    """List the resources that can be paid for to an address."""
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
    return Cacheable(body)


def _pagination(page: ResourcePage, limit: int, offset: int) -> dict[str, int]:
    """Return the pagination, with the limit that was applied.

    For a page that was cut this is its number of resources: clients add it to the offset.
    """
    applied = page.count if page.is_cut else limit
    return {"limit": applied, "offset": offset, "total": page.total}


def _unapplied(request: Request, kind: type[Operation]) -> dict[str, list[str]]:
    """Return the member with the names of the ignored parameters, if there are any."""
    names = read(request.scope["query_string"]).keys() - parameters_of(kind).keys()
    names -= {"snapshot"}  # the middleware compared it with the served one
    return {"unappliedFilters": sorted(names)} if names else {}


DISCOVERY = [
    route
    for prefix in PREFIXES
    for route in (
        OperationRoute(f"{prefix}/discovery/resources", list_resources, ListDiscoveryResources),
        OperationRoute(f"{prefix}/discovery/search", search_resources, SearchDiscoveryResources),
        OperationRoute(f"{prefix}/discovery/merchant", list_merchant, ListDiscoveryMerchant),
    )
]
