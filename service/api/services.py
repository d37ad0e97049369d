"""The catalogue: listing, searching and fetching services."""

from __future__ import annotations

from typing import Annotated, Literal

from starlette.requests import Request

from service.api.listing import BodyPiece, StoredList, fitting, splice
from service.api.query_string import DEFAULT_LIMIT, Limit, Offset, Operation, OptionalQuery, Query
from service.conditions import Filters, about
from service.errors import ServiceNotFound
from service.http.context import snapshot_of
from service.http.responses import Cacheable
from service.snapshot import Snapshot
from service.snapshot.data import Hits

MAX_SHOWN_ID = 256
SIMILAR, FIT = "Ratecard-Similar", "Ratecard-Fit"
"""Headers of a page of services, whose envelope has four members."""


class ServiceSelection(Filters, Operation, frozen=True, kw_only=True):
    """A page of the services that satisfy filters, and match a query unless that is empty."""

    FIXED = frozenset({"best_endpoints"})
    q: OptionalQuery = ""
    limit: Limit = DEFAULT_LIMIT
    offset: Offset = 0
    endpoints: Annotated[
        Literal["all", "none"], about("Whether services have their endpoints, or the number.")
    ] = "all"

    @property
    def is_expensive(self) -> bool:
        """Whether the page is more than a slice of a stored order."""
        return bool(self.facets) or self.has_conditions


class ListServices(ServiceSelection, frozen=True, kw_only=True):
    """List services, best known first."""

    FIXED = ServiceSelection.FIXED | {"q"}


class SearchServices(ServiceSelection, frozen=True, kw_only=True):
    """Search services, best match first."""

    q: Query
    is_expensive = True  # ranks what matches


async def list_services(request: Request, listing: ServiceSelection) -> Cacheable:
    """List services: the best match first, or in listing order unless sorted otherwise."""
    snapshot = snapshot_of(request)
    hits = await find(snapshot, listing)
    body = list_body(snapshot, listing, hits)
    return Cacheable(body, headers=headers_of(hits) if listing.q else {})


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
    return Cacheable(b'{"demand":%b}' % snapshot.ecosystem.demand(ordinal))


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
    return await snapshot.find_services(listing.q, listing.limit, listing.offset, listing)


def headers_of(hits: Hits) -> dict[str, str]:
    """Return the headers of a page of a search."""
    fit = {} if hits.fit is None else {FIT: str(hits.fit)}
    return {SIMILAR: str(hits.similar)} | fit


def list_body(snapshot: Snapshot, listing: ServiceSelection, hits: Hits) -> bytes:
    """Return the JSON of a `ServiceList`, with the services as they are stored.

    The page ends early as one of endpoints does.
    """
    texts: list[list[BodyPiece]] = (
        [[text] for text in snapshot.services.run(hits.ordinals)]
        if listing.endpoints == "all"
        else [*map(snapshot.summaries.pieces, hits.ordinals)]
    )
    count = fitting(texts)
    return splice(
        {
            "services": StoredList(texts[:count]),
            "total": hits.total,
            "limit": count if count < len(texts) else listing.limit,
            "offset": listing.offset,
            **(hits.facts if listing.facets or listing.explain else {}),
            "facets": hits.facets,
            "explanations": hits.explanations and hits.explanations[:count],
        }
    )
