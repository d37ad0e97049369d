"""Endpoints and parameters as the texts that the templates show."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from service.api.documents.curl import curl
from service.api.endpoints import EndpointSummary
from service.networks import network_label
from service.prices import CONTRADICTION, describe_offer, endpoint_price, is_upto, offer_pricing
from service.probes import describe_liveness, warnings_of
from service.schema.discovery import ToolFacts
from service.schema.probes import ProbeFacts
from service.schema.records import Endpoint, ParameterDescriptor, Pricing
from service.snapshot import Snapshot
from service.snapshot.resources import TOOL_URL, CallFacts, tool_of
from service.web.card import MAX_TEXT, quantity

MAX_VALUES = 50
"""Allowed values shown of a parameter."""

_url = re.compile(r"(?:[a-z]+://)?([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)


class EndpointLine(Struct, kw_only=True):
    """The texts of an endpoint in any list; the last two are what probers saw.

    number: its place in the record of its service
    """

    number: int
    method: str
    path: str
    price: str
    currency: str
    description: str
    host: str
    scheme: str
    network: str
    calls: str
    liveness: str
    warnings: list[str]


class EndpointDetails(EndpointLine, kw_only=True):
    """The texts of an endpoint on the page of its service; brief ones have no parameters.

    offers: ways to pay that documents state
    tool: how it is called as an MCP tool, empty for any other endpoint
    example: a URL that can be called in place of a template
    sign_in: the methods of what has to be done before paying
    profile: the labels and the words of the operator
    """

    curl: str
    offers: list[str]
    tool: str
    example: str
    sign_in: str
    parameters: list[ParameterDescriptor]
    is_brief: bool
    profile: list[tuple[str, str]] = []


class EndpointResult(EndpointLine, kw_only=True):
    """The texts of an endpoint in a list of endpoints of several services.

    matches: how many endpoints of its service match, where a link to all follows this one, or 0
    """

    service_id: str
    service_name: str
    curated: bool
    matches: int = 0


_summary = msgspec.json.Decoder(EndpointSummary)
_any = msgspec.json.Decoder(float_hook=Decimal)
_encoder = msgspec.json.Encoder(decimal_format="number")


def row_of(
    endpoint: Endpoint, number: int, observed: ProbeFacts, facts: CallFacts, *, is_brief: bool
) -> EndpointDetails:
    """Return the row of an endpoint on the page of its service."""
    line = _line(endpoint, endpoint.pricing, observed, MAX_TEXT if is_brief else None)
    if endpoint.prices_contradict is True:
        line["warnings"].insert(0, _sentence(CONTRADICTION))
    tool = tool_of(endpoint.url, facts)
    return EndpointDetails(
        **line,
        number=number,
        curl="" if is_brief or tool else curl(endpoint),
        tool=_tool(tool) if tool else "",
        example=facts.example_url,
        offers=[describe_offer(each)[:MAX_TEXT] for each in endpoint.payment_offers or []],
        sign_in="; or ".join(" or ".join(each.methods) for each in facts.requires),
        parameters=[] if is_brief else endpoint.parameters or [],
        is_brief=is_brief,
    )


def result_of(snapshot: Snapshot, ordinal: int, offer: int) -> EndpointResult:
    """Return the row of an endpoint, with the terms of the offer that satisfies the filters."""
    endpoints = snapshot.endpoints
    endpoint = _summary.decode(endpoints.text(ordinal, offer))
    pricing = endpoint.pricing
    if offer >= 0:
        pricing = offer_pricing(pricing, endpoint.match, endpoints.price_of(ordinal, offer))
    return EndpointResult(
        **_line(endpoint, pricing, endpoints.probe_facts(ordinal), MAX_TEXT),
        number=endpoints.place_of(ordinal),
        service_id=endpoint.service.id,
        service_name=endpoint.service.name[:MAX_TEXT],
        curated=endpoint.service.enriched,
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _line(
    endpoint: Endpoint | EndpointSummary, pricing: Pricing, observed: ProbeFacts, limit: int | None
) -> dict[str, Any]:
    """Return the fields of `EndpointLine`; `limit` is of the characters of each text."""
    price, quality = endpoint_price(pricing), endpoint.quality
    is_tool = endpoint.url.startswith(TOOL_URL)
    match = None if is_tool else _url.fullmatch(endpoint.url)
    host, path = match.groups() if match else ("", endpoint.url)
    if not path:  # a URL without a path counts as a path
        host, path = "", host
    calls = quality.l30_days_total_calls if quality else UNSET
    texts = {
        "method": endpoint.method or ("MCP" if is_tool else "GET"),
        "path": path,
        "price": price.amount,
        "currency": price.currency,
        "description": endpoint.description or "",
        "host": host,
        "scheme": _scheme(pricing),
        "network": network_label(pricing.network) if pricing.network else "",
        "calls": f"{quantity(int(calls), 'call')} in 30 days" if calls else "",
    }
    return {name: text[:limit] for name, text in texts.items()} | {
        "liveness": "" if observed.alive is False else describe_liveness(observed),
        "warnings": [*map(_sentence, warnings_of(observed))],
    }


def _tool(tool: ToolFacts) -> str:
    server = f" of {tool.server}" if tool.server else ", of a server that the listing does not name"
    return f"MCP tool {tool.name}{server}, over {tool.transport}"


def _scheme(pricing: Pricing) -> str:
    lowest, ceiling = pricing.min_amount or pricing.amount, pricing.max_amount or pricing.amount
    is_bounded = is_upto(pricing) and lowest.strip("0.") and lowest != ceiling
    return f"{pricing.scheme}{f', from {lowest}' if is_bounded else ''}" if pricing.scheme else ""


def format_values(parameter: ParameterDescriptor) -> str:
    """Return the first allowed values of a parameter as JSON, and the number of others."""
    values = parameter.enum_values or []
    more = [f"{len(values) - MAX_VALUES:,} more"] if len(values) > MAX_VALUES else []
    return ", ".join([*map(_json, values[:MAX_VALUES]), *more])


def format_value(raw: Raw | UnsetType) -> str:
    """Return a value as JSON; null and an empty string become an empty text."""
    text = "" if raw is UNSET else _json(raw)
    return "" if text in ("null", '""') else text


def _json(raw: Raw) -> str:
    """Return JSON without escapes that are not needed, and with unrounded numbers."""
    try:
        return _encoder.encode(_any.decode(raw)).decode()
    except (msgspec.MsgspecError, ArithmeticError, RecursionError, ValueError):
        return bytes(raw).decode()
