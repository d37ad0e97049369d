"""Statistics of payments, each response a slice of a table that the indexer computed."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.requests import Request

from service.api.query_string import DEFAULT_LIMIT, Limit, Offset, Operation
from service.conditions import about
from service.http.context import snapshot_of
from service.http.responses import Cacheable

Timeframe = Annotated[
    int, Meta(ge=1, description="Days of 24 hours, up to and including the newest payment.")
]


class GetEcosystemOverview(Operation, frozen=True, kw_only=True):
    """Totals."""

    timeframe: Timeframe = 30
    is_expensive = False


class GetEcosystemStats(GetEcosystemOverview, frozen=True, kw_only=True):
    """Totals by UTC day, or by hour for a timeframe of one day."""


class GetRecentTransactions(Operation, frozen=True, kw_only=True):
    """The newest payments first."""

    page: Annotated[Offset, about("Number of the page.")] = 0
    limit: Limit = DEFAULT_LIMIT
    is_expensive = False


async def get_overview(request: Request, wanted: GetEcosystemOverview) -> Cacheable:
    """Return the totals of a timeframe."""
    totals = snapshot_of(request).ecosystem.overview(wanted.timeframe)
    return Cacheable(b'{"overview":{"json":%b}}' % totals)


async def get_stats(request: Request, wanted: GetEcosystemStats) -> Cacheable:
    """Return the totals of each day or hour of a timeframe."""
    buckets = snapshot_of(request).ecosystem.stats(wanted.timeframe)
    return Cacheable(b'{"stats":{"json":[%b]}}' % buckets)


async def get_transactions(request: Request, wanted: GetRecentTransactions) -> Cacheable:
    """Return a page of the newest payments."""
    items, has_next = snapshot_of(request).ecosystem.transactions(wanted.page, wanted.limit)
    body = b'{"transactions":{"json":{"items":[%b],"page":%d,"hasNextPage":%b}}}'
    return Cacheable(body % (items, wanted.page, b"true" if has_next else b"false"))
