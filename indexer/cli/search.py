"""`search`: searches the published snapshot, or lists it."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from indexer.catalogue.record import count_calls
from indexer.cli.command import add_artifacts_option, command_line
from indexer.cli.endpoints import search_endpoints
from indexer.cli.results import Row, describe_page, draw_explanations, draw_results
from indexer.cli.terminal import answer, answer_drawn
from indexer.errors import Misuse
from indexer.snapshot.compare import PriceRange
from indexer.text import shorten
from service.api import parameters
from service.api.endpoints import parse_endpoint_search
from service.api.listing import find, list_body
from service.api.parameters import SORTS, ListRequest
from service.errors import InvalidParameter
from service.filtering.filters import NO_FILTERS
from service.networks import network_label
from service.records import Service, ServiceList
from service.snapshot.snapshot import Snapshot, open_snapshot

if TYPE_CHECKING:  # rich is an optional dependency, which scripts do without
    from rich.console import Console

SUMMARY = "search what is published, or list it"
EXAMPLES: tuple[str, ...] = (
    "search weather forecast",
    "search weather --network Base --max-price 0.01 --sort price",
    "search weather --json | jq -r '.services[].id'",
    "search weather forecast --endpoints --max-price 0.01",
    "search is this wallet sanctioned --explain",
)

FILTERS = ("category", "network", "max_price")
OPTIONS = {"q": "QUERY", "maxPrice": "--max-price"}
"""The names of request parameters on the command line, where they differ."""
COLUMNS = ("#", "name", "id", "category", "networks", "price", "curated", "calls/30d")

T = TypeVar("T")

_services = msgspec.json.Decoder(ServiceList)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the query, the filters, the order and the page."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="QUERY",
        help="words to search for; without any, all services are listed, best known first",
    )
    for name in ("category", "network"):
        parser.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar=name.upper(),
            help=f"only those with this {name}; repeated, with any of several",
        )
    parser.add_argument(
        "--max-price",
        metavar="AMOUNT",
        help="only those whose cheapest price is at most this, in units of its currency",
    )
    parser.add_argument(
        "--sort",
        default="relevance",
        metavar="ORDER",
        help=f"one of {', '.join(SORTS)}; no name for endpoints (%(default)s)",
    )
    parser.add_argument(
        "--limit", default="10", metavar="N", help="how many at most, up to 200 (%(default)s)"
    )
    parser.add_argument("--offset", default="0", metavar="N", help="how many to skip (%(default)s)")
    add_artifacts_option(parser, "where they are published")
    parser.add_argument("--endpoints", action="store_true", help="search for endpoints")
    parser.add_argument(
        "--explain", action="store_true", help="show the parts of the score of each result"
    )
    parser.add_argument("--json", action="store_true", help="answer as the service over HTTP")


def run(options: argparse.Namespace) -> int:
    """Answer as the service answers a request, as JSON or as a table."""
    if options.endpoints:
        if not options.words and not any(getattr(options, name) for name in FILTERS):
            raise Misuse("--endpoints needs words, --category, --network or --max-price")
        search = _parse(options, parse_endpoint_search)
        return search_endpoints(open_snapshot(options.artifacts), search, options)
    parse = parameters.parse_search if options.words else parameters.parse_listing
    request = _parse(options, parse)
    snapshot = open_snapshot(options.artifacts)
    body = list_body(snapshot, request, asyncio.run(find(snapshot, request)))
    if options.json:
        return answer(body)

    def draw(console: Console) -> None:
        page = _services.decode(body)
        if page.services:
            ranks = range(page.offset + 1, page.offset + len(page.services) + 1)
            draw_results(console, COLUMNS, [*map(_row, ranks, page.services)])
        if page.explanations:
            ids = [service.id for service in page.services]
            draw_explanations(console, page.explanations, ids, page.offset)
        for line in _summarise(snapshot, request, page, options):
            console.print(line, style="dim", soft_wrap=True)

    return answer_drawn(draw)


def networks_of(service: Service) -> list[str]:
    """Return the labels of the networks of a service, or else those of its endpoints."""
    priced = (endpoint.pricing.network for endpoint in service.endpoints)
    names = service.networks or [name for name in priced if name]
    return list(dict.fromkeys(shorten(network_label(name)) for name in names))


def price_of(service: Service) -> str:
    """Return the range of the prices of a service."""
    summary = service.price_summary
    if not summary:
        return "no fixed price"
    return shorten(str(PriceRange(summary.min_amount, summary.max_amount, summary.currency)))


def calls_of(service: Service) -> int:
    """Return the calls of all endpoints in 30 days."""
    return sum(count_calls(endpoint.quality) for endpoint in service.endpoints)


def _parse(options: argparse.Namespace, parse: Callable[[bytes], T]) -> T:
    """Parse the options as the service parses a request; raises Misuse where that is refused."""
    query = [("q", " ".join(options.words))] if options.words else []
    query += [("category", value) for value in options.category]
    query += [("network", value) for value in options.network]
    query += [("maxPrice", options.max_price)] if options.max_price is not None else []
    query += [("explain", "true")] if options.explain else []
    query += [("sort", options.sort), ("limit", options.limit), ("offset", options.offset)]
    try:
        return parse(urlencode(query, errors="replace").encode())
    except InvalidParameter as error:
        name = OPTIONS.get(error.parameter, f"--{error.parameter}")
        reason = str(error).removeprefix(error.parameter).lstrip()
        raise Misuse(f"{name} {reason}") from error


def _row(rank: int, service: Service) -> Row:
    name, category, price = (
        shorten(service.name),
        shorten(service.category or ""),
        price_of(service),
    )
    networks, calls = ", ".join(networks_of(service)), f"{calls_of(service):,}"
    curated = service.enriched
    return Row(
        (f"{rank:,}", name, service.id, category, networks, price, "yes" if curated else "", calls),
        [(name, "bold"), ("  ", ""), (price, "green")],
        [service.id, category, networks, f"{calls} calls", "curated" if curated else ""],
    )


def _summarise(
    snapshot: Snapshot, request: ListRequest, page: ServiceList, options: argparse.Namespace
) -> Iterator[str]:
    """Yield how many services there are, and the next command."""
    if not page.total:
        yield from _summarise_none(snapshot, request, options)
    elif not page.services:
        yield f"there are {page.total:,} services, and --offset skips them all"
    else:
        yield describe_page("service", page.offset, len(page.services), page.total)
        yield f"details: {command_line(options, 'show', page.services[0].id)}"


def _summarise_none(
    snapshot: Snapshot, request: ListRequest, options: argparse.Namespace
) -> Iterator[str]:
    query = f" for {shorten(' '.join(options.words))!r}" if options.words else ""
    yield f"there is no service{query}"
    filters = [f"--{name.replace('_', '-')}" for name in FILTERS if getattr(options, name)]
    if filters:
        unfiltered = asyncio.run(find(snapshot, replace(request, filters=NO_FILTERS)))
        yield f"without {' and '.join(filters)} there are {unfiltered.total:,}"
    elif options.words:
        yield f"try other words, or list all: {command_line(options, 'search')}"
