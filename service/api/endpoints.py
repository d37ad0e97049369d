"""Endpoints of all services: what agents call, searched with the terms on which they are paid."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Annotated

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace
from starlette.requests import Request

from service.api.listing import StoredList, additions, splice
from service.api.query_string import (
    DEFAULT_LIMIT,
    FACETS,
    PAYERS,
    QUERY,
    Explain,
    Limit,
    Offset,
    Operation,
    PayerCount,
    PriceBound,
    Query,
    Values,
    about,
    any_of,
    one_of,
    selected,
)
from service.errors import InvalidParameter
from service.filtering.endpoint_filters import EndpointFilters, EndpointSort
from service.filtering.facets import ENDPOINT_FACETS, ENDPOINT_KEYS, OFFER_KEYS
from service.http.context import snapshot_of
from service.http.responses import Cacheable
from service.schema.records import EndpointQuality, Pricing
from service.schema.responses import AcceptsEntry, ServiceFacts
from service.snapshot import Snapshot
from service.snapshot.engine import EndpointHits
from service.snapshot.resources import MAX_PAGE

BOUNDS = ("enriched", "maxPrice", "minPayers", "alive", "registration")
CONDITIONS = (*OFFER_KEYS, *ENDPOINT_KEYS, "service", *BOUNDS)
"""The filters: `q` is required without any of them."""
CURATED = "Only endpoints of services that are curated, or not."
ALIVE = "Only endpoints that probers found alive, or dead."
REGISTRATION = (
    "Only endpoints whose listing requires a registration or a sign-in before payment, or with "
    "`false` only the others."
)
ORDER = "The order; endpoints without a price come last."
PER_SERVICE = "The most endpoints of one service that are listed; 0 lists all."
OFFER = " Those of an entry of `accepts` must hold together."
PRICE = (
    "The most that an endpoint may cost, in units of its currency, such as `0.05`; for the scheme "
    "`upto` its ceiling. With a network, scheme, asset or payTo, the price of the cheapest entry "
    "of `accepts` that has these."
)
EndpointFacetName = Annotated[str, one_of(ENDPOINT_FACETS)]


class EndpointSummary(Struct, rename="camel"):
    """The part of a listed endpoint that a list shows; decoding skips its parameters."""

    url: str
    method: str
    pricing: Pricing
    service: ServiceFacts
    description: str = ""
    quality: EndpointQuality | None = None
    match: AcceptsEntry | UnsetType = UNSET


class EndpointSelection(Operation, frozen=True, kw_only=True):
    """A page of the endpoints that satisfy filters, and match a query unless that is empty."""

    q: Annotated[Query, about(f"{QUERY} Required unless there is a filter.")] = ""
    limit: Limit = DEFAULT_LIMIT
    offset: Offset = 0
    network: Annotated[Values, any_of("endpoints", "network", "base", OFFER)] = ()
    scheme: Annotated[Values, any_of("endpoints", "scheme", "exact", OFFER)] = ()
    asset: Annotated[Values, any_of("endpoints", "asset", "0x8335…", OFFER)] = ()
    pay_to: Annotated[Values, any_of("endpoints", "payTo", "0x1a2b…", OFFER)] = ()
    method: Annotated[Values, any_of("endpoints", "method", "GET")] = ()
    category: Annotated[Values, any_of("endpoints", "category", "Data")] = ()
    tag: Annotated[Values, any_of("endpoints", "tag", "weather")] = ()
    service: Annotated[Values, any_of("endpoints", "service", "tidewatch-example")] = ()
    enriched: Annotated[bool | None, about(CURATED)] = None
    max_price: Annotated[PriceBound | None, about(PRICE)] = None
    min_payers: Annotated[PayerCount | None, about(PAYERS)] = None
    alive: Annotated[bool | None, about(ALIVE)] = None
    registration: Annotated[bool | None, about(REGISTRATION)] = None
    sort: Annotated[EndpointSort, about(ORDER)] = "relevance"
    per_service: Annotated[Offset, about(PER_SERVICE)] = 3
    facets: Annotated[tuple[EndpointFacetName, ...], FACETS] = ()
    explain: Explain = False

    @property
    def filters(self) -> EndpointFilters:
        """The conditions, the order, and what to add to the page."""
        offers = (self.network, self.scheme, self.asset, self.pay_to)
        facets = (self.method, self.category, self.tag)
        return EndpointFilters(
            offers=selected(OFFER_KEYS, offers),
            facets=selected(ENDPOINT_KEYS, facets),
            services=[*self.service],
            enriched=self.enriched,
            max_price=None if self.max_price is None else float(self.max_price),
            min_payers=self.min_payers,
            alive=self.alive,
            registration=self.registration,
            sort=self.sort,
            per_service=self.per_service,
            counted=self.facets,
            explain=self.explain,
        )


class SearchEndpoints(EndpointSelection, frozen=True, kw_only=True):
    """Search the endpoints of all services, best match first."""

    def __post_init__(self) -> None:
        if not self.q and not self.filters.has_conditions:
            names = ", ".join(CONDITIONS)
            message = f"q is required, the words to search for, unless there is one of: {names}"
            raise InvalidParameter("q", message)


async def search_endpoints(request: Request, search: SearchEndpoints) -> Cacheable:
    """List the endpoints that match a query and satisfy the filters, best match first."""
    snapshot = snapshot_of(request)
    hits = await find_endpoints(snapshot, search)
    return Cacheable(endpoint_list_body(snapshot, search, hits))


async def find_endpoints(snapshot: Snapshot, search: EndpointSelection) -> EndpointHits:
    """Return the requested page of endpoints."""
    limit, offset, filters = search.limit, search.offset, search.filters
    return await snapshot.engine.search_endpoints(search.q or None, limit, offset, filters)


def endpoint_items(snapshot: Snapshot, hits: EndpointHits) -> tuple[StoredList, int]:
    """Return the endpoints of a page as they are stored, and their number.

    The page ends early where MAX_PAGE bytes leave no room for more.
    """
    items = list(map(snapshot.endpoints.item, hits.ordinals, hits.offers))
    sizes = accumulate(sum(map(len, item)) for item in items)
    count = max(bisect_right(list(sizes), MAX_PAGE), 1)
    pieces = [piece for item in items[:count] for piece in (b",", *item)]
    return StoredList(pieces[1:]), min(count, len(items))


def endpoint_list_body(snapshot: Snapshot, search: EndpointSelection, hits: EndpointHits) -> bytes:
    """Return the JSON of an `EndpointList`, with the endpoints as they are stored.

    The `limit` of a page that ends early is the number of its endpoints.
    """
    items, count = endpoint_items(snapshot, hits)
    limit = count if count < len(hits.ordinals) else search.limit
    explanations = hits.explanations and hits.explanations[:limit]
    return splice(
        {
            "endpoints": items,
            "total": hits.total,
            "listed": hits.listed,
            "limit": limit,
            "offset": search.offset,
            **additions(replace(hits, explanations=explanations)),
        }
    )
