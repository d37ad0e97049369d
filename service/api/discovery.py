"""The x402 discovery API: resources of feeds as they came, and where an address is paid."""

from __future__ import annotations

import orjson
from starlette.requests import Request
from starlette.responses import Response

from service.api.parameters import parse_merchant, parse_resources
from service.http.responses import json_response, snapshot_of
from service.snapshot.resources import ResourceFilters, ResourcePage


async def list_resources(request: Request) -> Response:
    """List the resources that satisfy the filters."""
    listing = parse_resources(request.scope["query_string"])
    if not listing.is_cheap:
        request.app.state.load_shedder.check()
    limit, offset = listing.page.limit, listing.page.offset
    page = snapshot_of(request).resources.list(listing.filters, limit, offset)
    unapplied = b""
    if listing.unapplied:
        unapplied = b',"unappliedFilters":%b' % orjson.dumps(listing.unapplied)
    pagination = _pagination(page, limit, offset)
    body = (b'{"x402Version":2,"items":[', *_joined(page), b"],", pagination, unapplied, b"}")
    return json_response(b"".join(body))


async def list_merchant(request: Request) -> Response:
    """List the resources that can be paid for to an address."""
    pay_to, (limit, offset) = parse_merchant(request.scope["query_string"])
    request.app.state.load_shedder.check()
    filters = ResourceFilters(pay_to=pay_to)
    page = snapshot_of(request).resources.list(filters, limit, offset)
    head = b'{"x402Version":2,"payTo":%b,"resources":[' % orjson.dumps(pay_to)
    body = (head, *_joined(page), b"],", _pagination(page, limit, offset), b"}")
    return json_response(b"".join(body))


def _joined(page: ResourcePage) -> list[bytes | memoryview]:
    texts: list[bytes | memoryview] = [b","] * (2 * len(page.texts) - 1)
    texts[::2] = page.texts
    return texts


def _pagination(page: ResourcePage, limit: int, offset: int) -> bytes:
    """Return the pagination, with the limit that was applied.

    For a page that was cut this is its number of resources: clients add it to the offset.
    """
    applied = page.count if page.is_cut else limit
    return b'"pagination":{"limit":%d,"offset":%d,"total":%d}' % (applied, offset, page.total)
