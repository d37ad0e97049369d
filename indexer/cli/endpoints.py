"""`search --endpoints`: a search for endpoints, as JSON or as a table."""

from __future__ import annotations

import argparse
import asyncio

import msgspec

from indexer.cli.command import command_line
from indexer.cli.results import Row, answer_page
from indexer.cli.terminal import answer
from indexer.text import shorten
from service.api.endpoints import (
    EndpointSelection,
    endpoint_list_body,
    find_endpoints,
)
from service.networks import network_label
from service.prices import endpoint_price, offer_pricing
from service.schema.responses import EndpointList, FoundEndpoint
from service.snapshot.snapshot import Snapshot

COLUMNS = ("#", "method", "url", "service", "price", "network")

_endpoints = msgspec.json.Decoder(EndpointList)


def search_endpoints(
    snapshot: Snapshot, request: EndpointSelection, options: argparse.Namespace
) -> int:
    """Answer as the service answers a request, as JSON or as a table."""
    hits = asyncio.run(find_endpoints(snapshot, request))
    body = bytes(endpoint_list_body(snapshot, request, hits))
    if options.json:
        return answer(body)
    page = _endpoints.decode(body)
    prices = map(snapshot.endpoints.price_of, hits.ordinals, hits.offers)
    is_cut = page.listed < page.total
    note = f" (at most 3 of a service; {page.total:,} match)" if is_cut else ""
    hint = f"try other words, or list the services: {command_line(options, 'search')}"
    rows = [*map(_row, page.endpoints, prices)]
    return answer_page("endpoint", COLUMNS, rows, page, page.listed, options, note=note, hint=hint)


def _row(endpoint: FoundEndpoint, price: tuple[float, str] | None) -> Row:
    """Return the row of an endpoint, with the terms of the offer that satisfies the filters.

    `price` is the price of the offer, None where the record has the price.
    """
    pricing = offer_pricing(endpoint.pricing, endpoint.match, price)
    method, url = shorten(endpoint.method), shorten(endpoint.url)
    details = (
        endpoint.service.id,
        shorten(str(endpoint_price(pricing))),
        shorten(network_label(pricing.network or "")),
    )
    return Row(url, endpoint.service.id, (method, url, *details))
