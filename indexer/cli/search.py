"""`search`: searches the published snapshot, or lists it."""

from __future__ import annotations

import argparse
import asyncio
from typing import TypeVar, get_args
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from indexer.cli.options import Command, add_artifacts_option, command_line
from indexer.cli.results import YES, Row, answer_page
from indexer.cli.terminal import answer
from indexer.errors import Misuse
from indexer.text import shorten
from service.api.endpoints import (
    SearchEndpoints,
    endpoint_list_body,
    find_endpoints,
)
from service.api.query_string import Operation, parse
from service.api.services import ListServices, SearchServices, ServiceSelection, find, list_body
from service.conditions import Sort
from service.errors import InvalidParameter
from service.networks import network_label
from service.prices import endpoint_price, is_ceiling, offer_pricing, service_price
from service.schema.records import Service, sum_calls
from service.schema.responses import EndpointList, FoundEndpoint, ServiceList
from service.snapshot.snapshot import Snapshot, open_snapshot

FILTERS = ("category", "network", "max_price")
OPTIONS = {"q": "QUERY", "maxPrice": "--max-price"}
"""The names of request parameters on the command line, where they differ."""

T = TypeVar("T", bound=Operation)

_services = msgspec.json.Decoder(ServiceList)
_endpoints = msgspec.json.Decoder(EndpointList)


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
        help=f"one of {', '.join(get_args(Sort))}; no name for endpoints (%(default)s)",
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
        search = _parse(options, SearchEndpoints)
        return _search_endpoints(open_snapshot(options.artifacts), search, options)
    request = _parse(options, SearchServices if options.words else ListServices)
    snapshot = open_snapshot(options.artifacts)
    hits = asyncio.run(find(snapshot, request))
    body = bytes(list_body(snapshot, request, hits))
    if options.json:
        return answer(body)
    page = _services.decode(body)
    hint = "" if page.total else _suggest(snapshot, request, options)
    rows = [*map(_service_row, page.services)]
    return answer_page("service", rows, page, page.total, hits, options, hint=hint)


def _search_endpoints(
    snapshot: Snapshot, request: SearchEndpoints, options: argparse.Namespace
) -> int:
    """Answer as the service answers a request, as JSON or as a table."""
    hits = asyncio.run(find_endpoints(snapshot, request))
    body = bytes(endpoint_list_body(snapshot, request, hits))
    if options.json:
        return answer(body)
    page = _endpoints.decode(body)
    prices = map(snapshot.endpoints.price_of, hits.ordinals, hits.offers)
    is_cut = page.listed < page.total
    note = f" (at most 3 of a service; {page.total:,} in all)" if is_cut else ""
    hint = f"try other words, or list the services: {command_line(options, 'search')}"
    rows = [*map(_endpoint_row, page.endpoints, prices)]
    return answer_page("endpoint", rows, page, page.listed, hits, options, note=note, hint=hint)


def _endpoint_row(endpoint: FoundEndpoint, price: tuple[float, str] | None) -> Row:
    """Return the row of an endpoint, with the terms of the offer that satisfies the filters.

    `price` is the price of the offer, None where the record has the price.
    """
    pricing = offer_pricing(endpoint.pricing, endpoint.match, price)
    return {
        "method": shorten(endpoint.method),
        "url": shorten(endpoint.url),
        "service": endpoint.service.id,
        "price": shorten(str(endpoint_price(pricing))),
        "network": shorten(network_label(pricing.network or "")),
    }


def networks_of(service: Service) -> list[str]:
    """Return the labels of the networks of a service, or else those of its endpoints."""
    priced = (endpoint.pricing.network for endpoint in service.endpoints)
    names = service.networks or [name for name in priced if name]
    return list(dict.fromkeys(shorten(network_label(name)) for name in names))


def price_of(service: Service) -> str:
    """Return the range of the prices of a service, or their ceiling if all are ceilings."""
    prices = [endpoint.pricing for endpoint in service.endpoints]
    priced = [price for price in prices if price.amount or price.min_amount or price.max_amount]
    at_most = bool(priced) and all(map(is_ceiling, priced))
    return shorten(str(service_price(service.price_summary, at_most=at_most)))


def calls_of(service: Service) -> int:
    """Return the calls of all endpoints in 30 days."""
    return sum_calls(endpoint.quality for endpoint in service.endpoints)


def _parse(options: argparse.Namespace, kind: type[T]) -> T:
    """Parse the options as the service parses a request; raises Misuse where that is refused."""
    query = {
        "q": [" ".join(options.words)] if options.words else [],
        "category": options.category,
        "network": options.network,
        "maxPrice": [] if options.max_price is None else [options.max_price],
        "explain": ["true"] if options.explain else [],
        "sort": [options.sort],
        "limit": [options.limit],
        "offset": [options.offset],
    }
    try:
        return parse(kind, urlencode(query, doseq=True, errors="replace").encode())
    except InvalidParameter as error:
        name = OPTIONS.get(error.parameter, f"--{error.parameter}")
        reason = str(error).removeprefix(error.parameter).lstrip()
        raise Misuse(f"{name} {reason}") from error


def _service_row(service: Service) -> Row:
    return {
        "name": shorten(service.name),
        "id": service.id,
        "category": shorten(service.category or ""),
        "networks": ", ".join(networks_of(service)),
        "price": price_of(service),
        "curated": YES if service.enriched else "",
        "calls/30d": f"{calls_of(service):,}",
    }


def _suggest(snapshot: Snapshot, request: ServiceSelection, options: argparse.Namespace) -> str:
    """Return what to do where nothing is found."""
    filters = [f"--{name.replace('_', '-')}" for name in FILTERS if getattr(options, name)]
    if filters:
        unfiltered = replace(request, category=(), network=(), max_price=None)
        hits = asyncio.run(find(snapshot, unfiltered))
        return f"without {' and '.join(filters)} there are {hits.total:,}"
    if options.words:
        return f"try other words, or list all: {command_line(options, 'search')}"
    return ""


SEARCH = Command(
    "search what is published, or list it",
    (
        "search weather forecast",
        "search weather --network Base --max-price 0.01 --sort price",
        "search weather --json | jq -r '.services[].id'",
        "search weather forecast --endpoints --max-price 0.01",
        "search is this wallet sanctioned --explain",
    ),
    add_options,
    run,
)
