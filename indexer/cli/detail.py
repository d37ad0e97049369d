"""The card of one service: all that a person needs to know before calling it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET, Raw
from rich.console import Console
from rich.text import Text

from indexer.cli.table import calls_of, networks_of, price_of
from indexer.cli.terminal import plain
from indexer.snapshot.compare import PriceRange
from service.api.curl import curl
from service.networks import network_label
from service.records import Endpoint, ParameterDescriptor, Pricing, Service

LONGEST_TEXT = 5_000
LABELS = 12


def draw_card(console: Console, service: Service) -> None:
    """The service, then each endpoint with its price, its parameters and how to call it."""
    _draw(console, 0, Text(plain(service.name, LONGEST_TEXT), "bold"))
    _draw(console, 0, Text(plain(service.description, LONGEST_TEXT)))
    console.print()
    for label, value in _facts(service):
        if value:
            _draw(console, LABELS, Text(value), f"{label:<{LABELS}}")
    for endpoint in service.endpoints:
        console.print()
        _draw_endpoint(console, endpoint)
    if any(map(curl, service.endpoints)):
        console.print()
        advice = "a call without payment is answered with 402, which says what to pay and how"
        _draw(console, 0, Text(advice, "dim"))


def _facts(service: Service) -> Iterator[tuple[str, str]]:
    domain = service.domain or ""
    provider = [service.provider or domain, service.provider_url or ""]
    yield "id", service.id
    yield "provider", plain("  ".join(filter(None, provider)), LONGEST_TEXT)
    yield "category", plain(service.category or "")
    yield "tags", ", ".join(map(plain, service.tags or []))
    yield "networks", ", ".join(networks_of(service))
    yield "price", price_of(service)
    yield "calls", f"{calls_of(service):,} in 30 days"
    yield "curated", "yes" if service.enriched else "no"
    yield "endpoints", f"{len(service.endpoints):,}"


def _draw_endpoint(console: Console, endpoint: Endpoint) -> None:
    method = plain(endpoint.method)
    _draw_whole(console, 0, Text(f"{method} {plain(endpoint.url, LONGEST_TEXT)}".strip(), "bold"))
    _draw(console, 2, Text(_price(endpoint.pricing), "green"))
    if endpoint.description:
        _draw(console, 2, Text(plain(endpoint.description, LONGEST_TEXT)))
    for parameter in endpoint.parameters or []:
        _draw(console, 4, Text.assemble((plain(parameter.name), "bold"), f"  {_meant(parameter)}"))
    if command := curl(endpoint):
        _draw_whole(console, 2, Text(command, "cyan"))


def _price(pricing: Pricing) -> str:
    least = pricing.amount or pricing.min_amount or ""
    most = pricing.amount or pricing.max_amount or ""
    said = [str(PriceRange(least, most, pricing.currency)), pricing.scheme or ""]
    said.append(network_label(pricing.network) if pricing.network else "")
    return " · ".join(plain(part) for part in said if part)


def _meant(parameter: ParameterDescriptor) -> str:
    required = ", required" if parameter.required is True else ""
    parts = [f"{parameter.group} {parameter.type}{required}"]
    if parameter.description:
        parts.append(plain(parameter.description, LONGEST_TEXT))
    if parameter.enum_values:
        parts.append(f"one of {plain(', '.join(map(_value, parameter.enum_values)))}")
    for label, raw in (("default", parameter.default), ("example", parameter.example)):
        if raw is not UNSET and (value := _value(raw)) != "null":
            parts.append(f"{label} {value}")
    return "; ".join(parts)


def _value(raw: Raw) -> str:
    return plain(bytes(raw).decode())


def _draw(console: Console, indent: int, text: Text, label: str = "") -> None:
    """A paragraph, wrapped within the terminal; a label may stand before its first line."""
    room = max(console.width - indent, 10)
    for line in text.wrap(console, room):
        line.rstrip()
        _draw_whole(console, 0, Text.assemble((f"{label:<{indent}}", "dim"), line))
        label = ""


def _draw_whole(console: Console, indent: int, text: Text) -> None:
    """A line that can be copied: where it is too long, the terminal breaks it."""
    console.print(Text.assemble(" " * indent, text), soft_wrap=True)
