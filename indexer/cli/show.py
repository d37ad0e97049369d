"""`show`: shows one service, with its endpoints, prices and how to call them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Raw, UnsetType

from indexer.catalogue.derived_ids import MAX_ID
from indexer.cli.options import Command, add_artifacts_option, command_line
from indexer.cli.search import calls_of, networks_of, price_of
from indexer.cli.terminal import answer, answer_drawn, draw_text
from indexer.errors import IndexerError
from indexer.text import count_of, shorten
from service.api.documents.curl import curl
from service.api.query_string import MAX_QUERY
from service.bodies import explain_body, media_type_of
from service.networks import network_label
from service.prices import endpoint_price
from service.probes import describe_deliveries, describe_liveness, warnings_of
from service.schema.probes import ProbeFacts
from service.schema.profiles import Profile, describe
from service.schema.records import Endpoint, ParameterDescriptor, Pricing, Service
from service.snapshot.alternatives import describe_alternatives, find_alternatives
from service.snapshot.snapshot import Snapshot, open_snapshot

if TYPE_CHECKING:  # rich is an optional dependency, which scripts do without
    from rich.console import Console

MAX_TEXT = 5_000  # characters
MAX_HITS = 24
MAX_KNOWN = 1_000  # compared in some 20 ms
SUGGESTIONS = 3
LABEL_WIDTH = 12

_service = msgspec.json.Decoder(Service)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the id."""
    parser.add_argument("id", metavar="ID", help="the id of the service")
    add_artifacts_option(parser, "where it is published")
    parser.add_argument("--json", action="store_true", help="the record as it is stored")


def run(options: argparse.Namespace) -> int:
    """Show a service; raises IndexerError, with similar ids, where none has the id."""
    snapshot = open_snapshot(options.artifacts)
    ordinal = snapshot.id_table.find(options.id)
    if ordinal is None:
        raise IndexerError(_not_found(snapshot, options))
    record = snapshot.services.text(ordinal)
    if options.json:
        return answer(record)
    return answer_drawn(
        lambda console: _draw_service(console, snapshot, ordinal, _service.decode(record))
    )


def _not_found(snapshot: Snapshot, options: argparse.Namespace) -> str:
    """Return the error for an unknown id, with similar ids.

    Compares the ids of the best known services, and of services that have the words of the id.
    """
    words = " ".join(re.findall(r"[^\W_]+", options.id))[:MAX_QUERY]
    hits = snapshot.search(words, MAX_HITS).ids
    candidates = dict.fromkeys([*hits, *snapshot.list(MAX_KNOWN).ids])
    similar = get_close_matches(options.id.lower()[:MAX_ID], candidates, SUGGESTIONS)
    similar = similar or hits[:SUGGESTIONS]
    fault = f"no service has the id `{shorten(options.id)}`"
    if not similar:
        return f"{fault}\n  to find it: {command_line(options, 'search')}"
    example = command_line(options, "show", similar[0])
    return f"{fault}; there is {', '.join(similar)}\n  for example: {example}"


def _draw_service(console: Console, snapshot: Snapshot, ordinal: int, service: Service) -> None:
    """Draw the service, then each endpoint with its price, its parameters and how to call it."""
    numbers = snapshot.endpoints.of_service(ordinal)
    draw_text(console, 0, (shorten(service.name, MAX_TEXT), "bold"))
    draw_text(console, 0, shorten(service.description, MAX_TEXT))
    console.print()
    for label, value in _facts(service):
        if value:
            draw_text(console, LABEL_WIDTH, value, label=label)
    _draw_profile(console, 0, snapshot.endpoints.profile_of(ordinal))
    for endpoint, number in zip(service.endpoints, numbers, strict=True):
        console.print()
        facts = snapshot.endpoints.facts_of(number)
        _draw_endpoint(console, endpoint, facts)
        if number < numbers.start + MAX_HITS:
            others = find_alternatives(snapshot, snapshot.embedded, number)
            if text := describe_alternatives(others):
                draw_text(console, 2, text)
        _draw_profile(console, 2, facts.profile)
    if beyond := snapshot.resources.beyond(ordinal):
        console.print()
        more = f"{count_of(beyond, 'more endpoint')} {'is' if beyond == 1 else 'are'} beyond the"
        more += " bounds of a record: /discovery has what is"
        draw_text(console, 0, (more, "dim"))
    if any(map(curl, service.endpoints)):
        console.print()
        advice = "a call without payment is answered with 402, which says what to pay and how"
        draw_text(console, 0, (advice, "dim"))


def _facts(service: Service) -> Iterator[tuple[str, str]]:
    domain = service.domain or ""
    provider = [service.provider or domain, service.provider_url or ""]
    yield "id", service.id
    yield "provider", shorten("  ".join(filter(None, provider)), MAX_TEXT)
    yield "category", shorten(service.category or "")
    yield "tags", ", ".join(map(shorten, service.tags or []))
    yield "networks", ", ".join(networks_of(service))
    yield "price", price_of(service)
    yield "calls", f"{calls_of(service):,} in 30 days"
    yield "curated", "yes" if service.enriched else "no"
    yield "endpoints", f"{len(service.endpoints):,}"


def _draw_endpoint(console: Console, endpoint: Endpoint, facts: ProbeFacts) -> None:
    call = f"{shorten(endpoint.method)} {shorten(endpoint.url, MAX_TEXT)}"
    draw_text(console, 0, (call.strip(), "bold"), is_whole=True)
    draw_text(console, 2, (_describe_price(endpoint.pricing), "green"))
    if facts.alive is not False and (liveness := describe_liveness(facts)):
        draw_text(console, 2, liveness)
    if deliveries := describe_deliveries(facts):
        draw_text(console, 2, deliveries)
    for warning in warnings_of(facts):
        draw_text(console, 2, (warning, "yellow"))
    if endpoint.description:
        draw_text(console, 2, shorten(endpoint.description, MAX_TEXT))
    for parameter in endpoint.parameters or []:
        draw_text(console, 4, (shorten(parameter.name), "bold"), f"  {_describe(parameter)}")
    if endpoint.body_type:
        draw_text(console, 4, f"body: {media_type_of(endpoint.body_type)}")
    if command := curl(endpoint):
        draw_text(console, 2, (command, "cyan"), is_whole=True)
    elif reason := explain_body(endpoint):
        draw_text(console, 2, (reason, "yellow"))


def _draw_profile(console: Console, indent: int, profile: Profile | UnsetType | None) -> None:
    for label, text in describe(profile):
        draw_text(console, indent, (f"operator, {label}: ", "dim"), shorten(text, MAX_TEXT))


def _describe_price(pricing: Pricing) -> str:
    network = network_label(pricing.network) if pricing.network else ""
    parts = [shorten(str(endpoint_price(pricing))), shorten(pricing.scheme or ""), shorten(network)]
    return " · ".join(filter(None, parts))


def _describe(parameter: ParameterDescriptor) -> str:
    required = ", required" if parameter.required is True else ""
    parts = [f"{parameter.group} {parameter.type}{required}"]
    if parameter.description:
        parts.append(shorten(parameter.description, MAX_TEXT))
    if parameter.enum_values:
        parts.append(f"one of {shorten(', '.join(map(_format, parameter.enum_values)))}")
    for label, raw in (("default", parameter.default), ("example", parameter.example)):
        if raw is not UNSET and (value := _format(raw)) != "null":
            parts.append(f"{label} {value}")
    return "; ".join(parts)


def _format(value: Raw) -> str:
    return shorten(bytes(value).decode())


SHOW = Command(
    "show a service: its endpoints, prices and how to call them",
    ("show tidewatch-example",),
    add_options,
    run,
)
