"""The x402 discovery API: resources of feeds as they came, searched, and by who is paid."""

from __future__ import annotations

from typing import Annotated

from starlette.requests import Request

from service.api.listing import StoredList, splice
from service.api.query_string import (
    MAX_LIMIT,
    Cursor,
    Limit,
    LongLimit,
    Offset,
    Operation,
    OptionalQuery,
    parameters_of,
    words_required,
)
from service.api.routes import OperationRoute
from service.conditions import ResourceFilters, StatedFilters, about
from service.http.context import snapshot_of
from service.http.responses import Cacheable
from service.schema.discovery import PREFIXES
from service.schema.values import NonEmpty
from service.snapshot.cursors import cursor_prefix, parse_cursor
from service.snapshot.resources import ResourcePage


class ListDiscoveryResources(StatedFilters, Operation, frozen=True, kw_only=True):
    """List resources of x402 feeds as they came; also below /v2/x402 and /platform/v2/x402."""

    limit: LongLimit = 100
    offset: Offset = 0

    @property
    def is_expensive(self) -> bool:
        """Whether the page is more than a small slice of the listing."""
        return self.limit > MAX_LIMIT or self.has_conditions


class SearchDiscoveryResources(ResourceFilters, Operation, frozen=True, kw_only=True):
    """Search the resources of x402 feeds; also below the same prefixes."""

    query: OptionalQuery = ""
    limit: Limit = 20
    cursor: Cursor | None = None

    def __post_init__(self) -> None:
        if not self.query and not self.has_conditions:
            raise words_required(self, "query")


class ListDiscoveryMerchant(Operation, frozen=True, kw_only=True):
    """List the resources that pay to an address; also below the same prefixes."""

    pay_to: Annotated[NonEmpty, about("The address that is paid, in any case.")]
    limit: LongLimit = 20
    offset: Offset = 0


async def list_resources(request: Request, listing: ListDiscoveryResources) -> Cacheable:
    """List the resources that satisfy the filters."""
    limit, offset = listing.limit, listing.offset
    page = await snapshot_of(request).find_resources("", limit, offset, listing)
    body = splice(
        {
            "x402Version": 2,
            "items": StoredList(page.texts),
            "pagination": _pagination(page, limit, offset),
            "unappliedFilters": _unapplied(request, ListDiscoveryResources),
        }
    )
    return Cacheable(body)


async def search_resources(request: Request, search: SearchDiscoveryResources) -> Cacheable:
    """List the resources that match a query and satisfy the filters, best match first."""
    snapshot = snapshot_of(request)
    conditions = [(each.name, value) for each, value in search.given()]
    prefix = cursor_prefix(snapshot.id, (search.query, conditions))
    start = parse_cursor(search.cursor, prefix)
    page = await snapshot.find_resources(search.query, search.limit, start, search)
    stop = start + page.count
    is_partial = stop < page.total
    facts = {name: each for name, each in page.facts.items() if each is not None}
    body = splice(
        {
            "x402Version": 2,
            "resources": StoredList(page.texts),
            "partialResults": is_partial,
            "pagination": {
                "limit": page.count,
                "cursor": f"{prefix}{stop}" if is_partial else None,
            },
            "total": page.total,
            "unappliedFilters": _unapplied(request, SearchDiscoveryResources),
            "ratecard": facts if page.facts.get("similar") or "fit" in facts else None,
        }
    )
    return Cacheable(body)


async def list_merchant(request: Request, merchant: ListDiscoveryMerchant) -> Cacheable:
    """List the resources that can be paid for to an address."""
    limit, offset = merchant.limit, merchant.offset
    filters = ResourceFilters(pay_to=merchant.pay_to)
    page = await snapshot_of(request).find_resources("", limit, offset, filters)
    body = splice(
        {
            "x402Version": 2,
            "payTo": merchant.pay_to,
            "resources": StoredList(page.texts),
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


def _unapplied(request: Request, kind: type[Operation]) -> list[str] | None:
    """Return the names of the ignored parameters, if there are any."""
    names = request.query_params.keys() - parameters_of(kind).keys()
    # The middleware compared `snapshot` with the served one.
    return sorted(names - {"snapshot"}) or None


DISCOVERY = [
    route
    for prefix in PREFIXES
    for route in (
        OperationRoute(f"{prefix}/discovery/resources", list_resources, ListDiscoveryResources),
        OperationRoute(f"{prefix}/discovery/search", search_resources, SearchDiscoveryResources),
        OperationRoute(f"{prefix}/discovery/merchant", list_merchant, ListDiscoveryMerchant),
    )
]
