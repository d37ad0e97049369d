"""The catalogue: listing, searching and fetching services."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta
from starlette.requests import Request

from service.api.listing import additions, splice, stored_list
from service.api.query_string import (
    DEFAULT_LIMIT,
    FACETS,
    PAYERS,
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
from service.errors import ServiceNotFound
from service.filtering.facets import SERVICE_FACETS
from service.filtering.filters import Filters, Sort
from service.http.context import snapshot_of
from service.http.responses import Cacheable
from service.snapshot import Snapshot
from service.snapshot.data import Hits

MAX_SHOWN_ID = 256

TYPES = "Only services of this type, or of any of several."
CURATED = "Only services that are curated, or that are not."
PRICE = "The most that the cheapest price may be, in units of its currency, such as `0.05`."
ALIVE = "Only services of which probers found an endpoint alive, or all dead."
ENDPOINTS = "Whether services have their endpoints, or the number."
ORDER = "The order; relevance of the listing is best known first."
MATCH = "Whether any word of the query suffices, or one endpoint must have every word."
IntegrationTypes = tuple[
    Annotated[str, one_of(["1P", "3P", ""]), Meta(extra={"convert": str.upper})], ...
]
ServiceFacetName = Annotated[str, one_of(SERVICE_FACETS)]


class ServiceSelection(Operation, frozen=True, kw_only=True):
    """A page of the services that satisfy filters, and match a query unless that is empty."""

    q: Query = ""
    limit: Limit = DEFAULT_LIMIT
    offset: Offset = 0
    category: Annotated[Values, any_of("services", "category", "Data")] = ()
    network: Annotated[Values, any_of("services", "network", "base")] = ()
    scheme: Annotated[Values, any_of("services", "scheme", "exact")] = ()
    integration_type: Annotated[IntegrationTypes, about(TYPES)] = ()
    tag: Annotated[Values, any_of("services", "tag", "weather")] = ()
    enriched: Annotated[bool | None, about(CURATED)] = None
    max_price: Annotated[PriceBound | None, about(PRICE)] = None
    min_payers: Annotated[PayerCount | None, about(PAYERS)] = None
    alive: Annotated[bool | None, about(ALIVE)] = None
    match: Annotated[Literal["any", "all"], about(MATCH)] = "any"
    sort: Annotated[Sort, about(ORDER)] = "relevance"
    facets: Annotated[tuple[ServiceFacetName, ...], FACETS] = ()
    endpoints: Annotated[Literal["all", "none"], about(ENDPOINTS)] = "all"
    explain: Explain = False

    @property
    def filters(self) -> Filters:
        """The conditions, the order, and what to add to the page."""
        facets = (self.category, self.network, self.scheme, self.integration_type, self.tag)
        return Filters(
            facets=selected(SERVICE_FACETS, facets),
            enriched=self.enriched,
            max_price=None if self.max_price is None else float(self.max_price),
            min_payers=self.min_payers,
            alive=self.alive,
            match_all=self.match == "all",
            sort=self.sort,
            counted=self.facets,
            explain=self.explain,
        )

    @property
    def is_expensive(self) -> bool:
        """Whether the page is more than a slice of a stored order."""
        return bool(self.facets) or self.filters.has_conditions


class ListServices(ServiceSelection, frozen=True, kw_only=True):
    """List services, best known first."""

    FIXED = frozenset({"q"})


class SearchServices(ServiceSelection, frozen=True, kw_only=True):
    """Search services, best match first."""

    q: Query
    is_expensive = True  # ranks what matches


async def list_services(request: Request, listing: ServiceSelection) -> Cacheable:
    """List services: the best match first, or in listing order unless sorted otherwise."""
    snapshot = snapshot_of(request)
    hits = await find(snapshot, listing)
    return Cacheable(list_body(snapshot, listing, hits))


async def get_service(request: Request) -> Cacheable:
    """Fetch a service by its id."""
    snapshot = snapshot_of(request)
    ordinal = find_service(snapshot, request.path_params["id"])
    body = splice({"service": snapshot.services.view(ordinal)})
    return Cacheable(body, etag=snapshot.services.tag(ordinal).decode())


async def get_demand(request: Request) -> Cacheable:
    """Return the payments of a service: who paid, how often, and what the files do not show."""
    snapshot = snapshot_of(request)
    ordinal = find_service(snapshot, request.path_params["id"])
    return Cacheable(b"".join((b'{"demand":', *snapshot.demand.pieces(ordinal), b"}")))


def find_service(snapshot: Snapshot, service_id: str) -> int:
    """Return the ordinal of a service by its id; raises ServiceNotFound."""
    ordinal = snapshot.id_table.find(service_id)
    if ordinal is None:
        too_long = len(service_id) > MAX_SHOWN_ID
        shown = f"{service_id[:MAX_SHOWN_ID]}…" if too_long else service_id
        raise ServiceNotFound(f"no service has the id `{shown}`; try searching for its name")
    return ordinal


async def find(snapshot: Snapshot, listing: ServiceSelection) -> Hits:
    """Return the requested page of services."""
    limit, offset, filters = listing.limit, listing.offset, listing.filters
    if not listing.q:
        return snapshot.list(limit, offset, filters)
    return await snapshot.engine.search(listing.q, limit, offset, filters)


def list_body(snapshot: Snapshot, listing: ServiceSelection, hits: Hits) -> bytes:
    """Return the JSON of a `ServiceList`, with the services as they are stored."""
    store = snapshot.services if listing.endpoints == "all" else snapshot.summaries
    return splice(
        {
            "services": stored_list(store.run(hits.ordinals)),
            "total": hits.total,
            "limit": listing.limit,
            "offset": listing.offset,
            **additions(hits),
        }
    )
