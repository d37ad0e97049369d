"""`search --endpoints`: a search for endpoints, as JSON or as a table."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from indexer.cli.command import command_line
from indexer.cli.results import Row, describe_page, draw_explanations, draw_results
from indexer.cli.terminal import answer, answer_drawn
from indexer.snapshot.compare import PriceRange
from indexer.text import shorten
from service.api.endpoints import EndpointRequest, endpoint_list_body, find_endpoints, is_upto
from service.api.parameters import format_decimal
from service.networks import network_label
from service.records import EndpointList, FoundEndpoint, Pricing
from service.snapshot.snapshot import Snapshot

if TYPE_CHECKING:  # rich is an optional dependency, which scripts do without
    from rich.console import Console

COLUMNS = ("#", "method", "url", "service", "price", "network")

_endpoints = msgspec.json.Decoder(EndpointList)


def search_endpoints(
    snapshot: Snapshot, request: EndpointRequest, options: argparse.Namespace
) -> int:
    """Answer as the service answers a request, as JSON or as a table."""
    hits = asyncio.run(find_endpoints(snapshot, request))
    body = endpoint_list_body(snapshot, request, hits)
    if options.json:
        return answer(body)

    def draw(console: Console) -> None:
        page = _endpoints.decode(body)
        if page.endpoints:
            prices = map(snapshot.endpoints.price_of, hits.ordinals, hits.offers)
            ranks = range(page.offset + 1, page.offset + len(page.endpoints) + 1)
            rows = [*map(_row, ranks, page.endpoints, prices)]
            draw_results(console, COLUMNS, rows)
        if page.explanations:
            urls = [endpoint.url for endpoint in page.endpoints]
            draw_explanations(console, page.explanations, urls, page.offset)
        for line in _summarise(page, options):
            console.print(line, style="dim", soft_wrap=True)

    return answer_drawn(draw)


def describe_price(pricing: Pricing) -> str:
    """Return the price of a request; that of the scheme `upto` is a ceiling."""
    ceiling = pricing.max_amount or pricing.amount
    if is_upto(pricing) and ceiling:
        return shorten(f"at most {ceiling} {pricing.currency}")
    lowest = pricing.amount or pricing.min_amount or ""
    highest = pricing.amount or pricing.max_amount or ""
    if not lowest and not highest:
        return "no fixed price"
    return shorten(str(PriceRange(lowest, highest, pricing.currency)))


def _row(rank: int, endpoint: FoundEndpoint, price: tuple[float, str] | None) -> Row:
    """Return the row of an endpoint, with the terms of the offer that satisfies the filters.

    `price` is that of the offer, None if it is that of the record.
    """
    pricing = endpoint.pricing
    network, scheme = pricing.network or "", pricing.scheme or ""
    if endpoint.match is not UNSET:
        network = endpoint.match.network if isinstance(endpoint.match.network, str) else network
        scheme = endpoint.match.scheme if isinstance(endpoint.match.scheme, str) else scheme
    if price is not None:
        amount, currency = price
        pricing = Pricing(
            amount=format_decimal(amount), currency=currency or pricing.currency, scheme=scheme
        )
    method, url = shorten(endpoint.method), shorten(endpoint.url)
    details = endpoint.service.id, describe_price(pricing), shorten(network_label(network))
    title = [(f"{method} {url}".strip(), "bold")]
    return Row((f"{rank:,}", method, url, *details), title, details)


def _summarise(page: EndpointList, options: argparse.Namespace) -> Iterator[str]:
    """Yield how many endpoints there are, and the next command."""
    if not page.total:
        query = f" for {shorten(' '.join(options.words))!r}" if options.words else ""
        yield f"there is no endpoint{query}"
        yield f"try other words, or list the services: {command_line(options, 'search')}"
        return
    if not page.endpoints:
        yield f"{page.listed:,} endpoints are listed, and --offset skips them all"
        return
    is_cut = page.listed < page.total
    note = f" (at most 3 of a service; {page.total:,} match)" if is_cut else ""
    yield describe_page("endpoint", page.offset, len(page.endpoints), page.listed, note)
    yield f"details: {command_line(options, 'show', page.endpoints[0].service.id)}"
