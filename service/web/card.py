"""Services, endpoints and parameters as the texts that the templates show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from service.api.curl import curl
from service.networks import network_label
from service.records import Endpoint, ParameterDescriptor, Pricing, Service, format_timestamp

NO_PRICE = "no fixed price"
MAX_PARAMETERS = 100
"""Parameters shown per endpoint. A record may have enough of them to block the event loop."""

# Link to HTTP URLs only, and to none with user information: a record may hold a `javascript:` URL,
# or disguise the host.
_website = re.compile(r"https?://([a-z0-9.-]+)(?::[0-9]+)?(?:[/?#].*)?", re.IGNORECASE)
_url = re.compile(r"(?:[a-z]+://)?([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)


class Card(NamedTuple):
    """The texts of a service; templates leave out the empty ones."""

    id: str
    name: str
    provider: str
    category: str
    networks: str
    curated: bool
    price: str
    currency: str
    description: str
    calls: str
    endpoints: str
    payers: str
    last_called: str
    website: str
    host: str
    tags: Sequence[str]


class EndpointRow(NamedTuple):
    """The texts of an endpoint."""

    method: str
    path: str
    price: str
    currency: str
    description: str
    host: str
    scheme: str
    network: str
    calls: str
    curl: str
    parameters: list[ParameterRow]
    omitted_parameters: int


class ParameterRow(NamedTuple):
    """The texts of a parameter."""

    name: str
    place: str
    required: bool
    description: str
    example: str
    values: str
    default: str


class _WithEndpoints(Struct):
    endpoints: list[Endpoint]


_service = msgspec.json.Decoder(Service)
_with_endpoints = msgspec.json.Decoder(_WithEndpoints)
_any = msgspec.json.Decoder(float_hook=Decimal)
_encoder = msgspec.json.Encoder(decimal_format="number")


def card_of(summary: bytes | memoryview) -> Card:
    """Return the card of a service, from its stored JSON without endpoints."""
    service = _service.decode(summary)
    quality, price = service.quality, service.price_summary
    calls = payers = last_called = ""
    if quality:
        calls = "" if quality.total_calls is UNSET else quantity(quality.total_calls, "call")
        payers = "" if quality.unique_payers is UNSET else f"{quality.unique_payers:,}"
        last_called = format_timestamp(quality.last_called_at) if quality.last_called_at else ""
    amounts = [price.min_amount, price.max_amount] if price else []
    amounts = list(dict.fromkeys(filter(None, amounts)))
    website = _website.fullmatch(service.provider_url or "")
    return Card(
        id=service.id,
        name=service.name,
        provider=service.provider or service.domain or "",
        category=service.category or "",
        networks=", ".join(dict.fromkeys(map(network_label, service.networks or []))),
        curated=service.enriched is True,
        price=" – ".join(amounts) or NO_PRICE,
        currency=price.currency if price and amounts else "",
        description=service.description,
        calls=calls,
        endpoints=quantity(service.endpoint_count or 0, "endpoint"),
        payers=payers,
        last_called=last_called,
        website=website[0] if website else "",
        host=website[1].lower() if website else "",
        tags=service.tags or (),
    )


def find_endpoints(service: bytes | memoryview, words: str) -> list[Endpoint]:
    """Return the endpoints of a stored service whose method, URL and description have all words."""
    endpoints = _with_endpoints.decode(service).endpoints
    parts = words.casefold().split()
    if not parts:
        return endpoints
    return [endpoint for endpoint in endpoints if all(map(_text_of(endpoint).__contains__, parts))]


def row_of(endpoint: Endpoint) -> EndpointRow:
    """Return the row of an endpoint."""
    pricing, quality = endpoint.pricing, endpoint.quality
    match = _url.fullmatch(endpoint.url)
    host, path = match.groups() if match else ("", endpoint.url)
    if not path:
        host, path = "", host
    calls = quality.l30_days_total_calls if quality else UNSET
    parameters = endpoint.parameters or []
    return EndpointRow(
        method=endpoint.method or "GET",
        path=path,
        price=_price(pricing),
        currency=pricing.currency if pricing.amount or pricing.max_amount else "",
        description=endpoint.description or "",
        host=host,
        scheme=_scheme(pricing),
        network=network_label(pricing.network) if pricing.network else "",
        calls=f"{quantity(int(calls), 'call')} in 30 days" if calls else "",
        curl=curl(endpoint),
        parameters=[_parameter_row(parameter) for parameter in parameters[:MAX_PARAMETERS]],
        omitted_parameters=max(len(parameters) - MAX_PARAMETERS, 0),
    )


def quantity(count: int, noun: str) -> str:
    """Return a count with its noun, such as `1 call` or `1,200 calls`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _text_of(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.url} {endpoint.description or ''}".casefold()


def _price(pricing: Pricing) -> str:
    if pricing.amount:
        return pricing.amount
    return f"{pricing.min_amount or '0'} – {pricing.max_amount}" if pricing.max_amount else NO_PRICE


def _scheme(pricing: Pricing) -> str:
    limited = pricing.scheme == "upto" and pricing.amount and pricing.max_amount
    limit = f", at most {pricing.max_amount}" if limited else ""
    return f"{pricing.scheme}{limit}" if pricing.scheme else ""


def _parameter_row(parameter: ParameterDescriptor) -> ParameterRow:
    return ParameterRow(
        name=parameter.name,
        place=f"{parameter.type} in {parameter.group}",
        required=parameter.required is True,
        description=parameter.description or "",
        example=_value(parameter.example),
        values=", ".join(map(_json, parameter.enum_values or [])),
        default=_value(parameter.default),
    )


def _value(raw: Raw | UnsetType) -> str:
    """Return a value as JSON; null and an empty string become an empty text."""
    text = "" if raw is UNSET else _json(raw)
    return "" if text in ("null", '""') else text


def _json(raw: Raw) -> str:
    """Return JSON without escapes that are not needed, and with unrounded numbers."""
    try:
        return _encoder.encode(_any.decode(raw)).decode()
    except (msgspec.MsgspecError, ArithmeticError, RecursionError, ValueError):
        return bytes(raw).decode()
