"""Endpoints of all services: what agents call, searched with the terms on which they are paid."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from msgspec import UNSET, Struct, UnsetType
from starlette.requests import Request

from service.api.listing import StoredList, fitting, splice
from service.api.query_string import (
    DEFAULT_LIMIT,
    Limit,
    Offset,
    Operation,
    OptionalQuery,
    words_required,
)
from service.conditions import EndpointFilters
from service.http.context import snapshot_of
from service.http.responses import Cacheable
from service.schema.records import Endpoint, EndpointQuality, Pricing
from service.schema.responses import AcceptsEntry, ServiceFacts
from service.snapshot import Snapshot
from service.snapshot.data import EndpointHits


class EndpointSummary(Struct, rename="camel"):
    """The part of a listed endpoint that a list shows; decoding skips its parameters."""

    url: str
    method: str
    pricing: Pricing
    service: ServiceFacts
    description: str = ""
    quality: EndpointQuality | None = None
    match: AcceptsEntry | UnsetType = UNSET


def endpoint_id(snapshot: Snapshot, ordinal: int, endpoint: Endpoint | EndpointSummary) -> str:
    """Return the id by which tools of MCP take an endpoint: its service, place and digest."""
    service = snapshot.id_table[snapshot.endpoints.service_of(ordinal)]
    return f"{service}/{snapshot.endpoints.place_of(ordinal)}-{digest_of(endpoint)}"


def digest_of(endpoint: Endpoint | EndpointSummary) -> str:
    """Return a hash of what is called: another endpoint in the same place has another one."""
    call = f"{endpoint.method} {endpoint.url}".encode()
    return blake2b(call, digest_size=3).hexdigest()


class EndpointSelection(EndpointFilters, Operation, frozen=True, kw_only=True):
    """A page of the endpoints that satisfy filters, and match a query unless that is empty."""

    FIXED = frozenset({"match", "max_usd_price"})
    q: OptionalQuery = ""
    limit: Limit = DEFAULT_LIMIT
    offset: Offset = 0


class SearchEndpoints(EndpointSelection, frozen=True, kw_only=True):
    """Search the endpoints of all services, best match first."""

    def __post_init__(self) -> None:
        if not self.q and not self.has_conditions:
            raise words_required(self, "q")


async def search_endpoints(request: Request, search: SearchEndpoints) -> Cacheable:
    """List the endpoints that match a query and satisfy the filters, best match first."""
    snapshot = snapshot_of(request)
    hits = await find_endpoints(snapshot, search)
    return Cacheable(endpoint_list_body(snapshot, search, hits))


async def find_endpoints(snapshot: Snapshot, search: EndpointSelection) -> EndpointHits:
    """Return the requested page of endpoints."""
    return await snapshot.find_endpoints(search.q, search.limit, search.offset, search)


def page_of_endpoints(
    snapshot: Snapshot, limit: int, offset: int, hits: EndpointHits
) -> dict[str, Any]:
    """Return the members of a page of endpoints, with the endpoints as they are stored.

    The page ends early where MAX_PAGE bytes leave no room for more; its `limit` is then the number
    of its endpoints.
    """
    items = list(map(snapshot.endpoints.item, hits.ordinals, hits.offers))
    count = fitting(items)
    return {
        "endpoints": StoredList(items[:count]),
        "total": hits.total,
        "limit": count if count < len(items) else limit,
        "offset": offset,
    }


def endpoint_list_body(snapshot: Snapshot, search: EndpointSelection, hits: EndpointHits) -> bytes:
    """Return the JSON of an `EndpointList`."""
    page = page_of_endpoints(snapshot, search.limit, search.offset, hits)
    return splice(
        page
        | {
            "listed": hits.listed,
            **hits.facts,
            "facets": hits.facets,
            "explanations": hits.explanations and hits.explanations[: page["limit"]],
        }
    )
