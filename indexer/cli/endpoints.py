"""`search --endpoints`: a search for endpoints, as JSON or as a table."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from indexer.cli.command import command_line
from indexer.cli.explanation import describe_explanations
from indexer.cli.terminal import UNBOUNDED, answer, answer_drawn
from indexer.snapshot.compare import PriceRange
from indexer.text import shorten
from service.api.endpoints import EndpointRequest, endpoint_list_body, find_endpoints
from service.api.parameters import format_decimal
from service.networks import network_label
from service.records import EndpointList, FoundEndpoint, Pricing
from service.snapshot.snapshot import Snapshot

if TYPE_CHECKING:  # rich is an optional dependency, which scripts do without
    from rich.console import Console

COLUMNS = ("#", "method", "url", "service", "price", "network")
STYLES = {"url": "bold", "price": "green"}

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
            rows = [
                _cells(rank, endpoint, price)
                for rank, (endpoint, price) in enumerate(
                    zip(page.endpoints, prices, strict=False), page.offset + 1
                )
            ]
            _draw_page(console, rows)
            console.print()
        if page.explanations:
            urls = [endpoint.url for endpoint in page.endpoints]
            for line in describe_explanations(page.explanations, urls, page.offset):
                console.print(line, soft_wrap=True, markup=False, highlight=False)
            console.print()
        for line in _summarise(page, options):
            console.print(line, style="dim", soft_wrap=True)

    return answer_drawn(draw)


def describe_price(pricing: Pricing) -> str:
    """Return the price of a request; that of the scheme `upto` is a ceiling."""
    ceiling = pricing.max_amount or pricing.amount
    if (pricing.scheme or "").casefold() == "upto" and ceiling:
        return shorten(f"at most {ceiling} {pricing.currency}")
    lowest = pricing.amount or pricing.min_amount or ""
    highest = pricing.amount or pricing.max_amount or ""
    if not lowest and not highest:
        return "no fixed price"
    return shorten(str(PriceRange(lowest, highest, pricing.currency)))


def _draw_page(console: Console, rows: Sequence[Sequence[str]]) -> None:
    """Draw a table with one line for each endpoint or, where that is too wide, a list."""
    from rich.table import Table  # noqa: PLC0415  # an optional dependency
    from rich.text import Text  # noqa: PLC0415  # the same

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in COLUMNS:
        table.add_column(name, style=STYLES.get(name), no_wrap=True)
    table.columns[0].justify = "right"
    for row in rows:
        table.add_row(*map(Text, row))
    unbounded = console.options.update(width=UNBOUNDED)
    if console.measure(table, options=unbounded).maximum <= console.width:
        console.print(table)
        return
    for row in rows:
        rank, method, url, *details = row
        item = Table.grid(padding=(0, 2, 0, 0))
        item.add_column(justify="right", min_width=3)
        item.add_column(overflow="fold")
        item.add_row(rank, Text(f"{method} {url}".strip(), "bold"))
        item.add_row("", Text(" · ".join(filter(None, details))))
        console.print(item)


def _cells(rank: int, endpoint: FoundEndpoint, price: tuple[float, str] | None) -> Sequence[str]:
    """Return the cells of an endpoint, with the terms of the offer that satisfies the filters.

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
    return (
        f"{rank:,}",
        shorten(endpoint.method),
        shorten(endpoint.url),
        endpoint.service.id,
        describe_price(pricing),
        shorten(network_label(network)),
    )


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
    first, last = page.offset + 1, page.offset + len(page.endpoints)
    count = f"{page.listed:,} endpoint{'s' * (page.listed != 1)}"
    if first > 1 or last < page.listed:
        count = f"{first:,}–{last:,} of {count}"
    if page.listed < page.total:
        count += f" (at most 3 of a service; {page.total:,} match)"
    yield f"{count}; --offset {last} has the next" if last < page.listed else count
    yield f"details: {command_line(options, 'show', page.endpoints[0].service.id)}"
