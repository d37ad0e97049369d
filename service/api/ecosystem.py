"""Statistics of payments, each response a slice of a table that the indexer computed."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from service.api.parameters import parse_timeframe, parse_transactions
from service.http.context import snapshot_of
from service.http.responses import json_response


async def get_overview(request: Request) -> Response:
    """Return the totals of a timeframe."""
    days = parse_timeframe(request.scope["query_string"])
    totals = snapshot_of(request).ecosystem.overview(days)
    return json_response(b'{"overview":{"json":%b}}' % totals)


async def get_stats(request: Request) -> Response:
    """Return the totals of each day or hour of a timeframe."""
    days = parse_timeframe(request.scope["query_string"])
    buckets = snapshot_of(request).ecosystem.stats(days)
    return json_response(b'{"stats":{"json":[%b]}}' % buckets)


async def get_transactions(request: Request) -> Response:
    """Return a page of the newest payments."""
    page, limit = parse_transactions(request.scope["query_string"])
    items, has_next = snapshot_of(request).ecosystem.transactions(page, limit)
    body = b'{"transactions":{"json":{"items":[%b],"page":%d,"hasNextPage":%b}}}'
    return json_response(body % (items, page, b"true" if has_next else b"false"))
