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
from service.snapshot.call_facts import TOOL_URL, CallFacts, tool_of
from service.web.card import MAX_TEXT, quantity

MAX_VALUES = 50
"""Allowed values shown of a parameter."""

_url = re.compile(r"(?:[a-z]+://)?([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)


class EndpointLine(Struct, kw_only=True):
    """The texts of an endpoint in any list; the last two are what probers saw."""

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

    number: int
    curl: str
    offers: list[str]
    tool: str
    example: str
    sign_in: str
    parameters: list[ParameterRow]
    is_brief: bool
    profile: list[tuple[str, str]] = []


class EndpointResult(EndpointLine, kw_only=True):
    """The texts of an endpoint in a list of endpoints of several services.

    number: its place in the record of its service
    matches: how many endpoints of its service match, where a link to all follows this one, or 0
    """

    number: int
    service_id: str
    service_name: str
    curated: bool
    matches: int = 0


class ParameterRow(Struct):
    """The texts of a parameter."""

    name: str
    place: str
    required: bool
    description: str
    example: str
    values: str
    default: str


_any = msgspec.json.Decoder(float_hook=Decimal)
_encoder = msgspec.json.Encoder(decimal_format="number")


def row_of(
    endpoint: Endpoint, number: int, observed: ProbeFacts, facts: CallFacts, *, is_brief: bool
) -> EndpointDetails:
    """Return the row of an endpoint on the page of its service."""
    texts, probed = _texts(endpoint, endpoint.pricing), _probe_texts(observed)
    if endpoint.prices_contradict is True:
        probed["warnings"].insert(0, _sentence(CONTRADICTION))
    tool = tool_of(endpoint.url, facts)
    return EndpointDetails(
        **(_cut(texts) if is_brief else texts),
        **probed,
        number=number,
        curl="" if is_brief or tool else curl(endpoint),
        tool=_tool(tool) if tool else "",
        example=facts.example_url,
        offers=[describe_offer(each)[:MAX_TEXT] for each in endpoint.payment_offers or []],
        sign_in="; or ".join(" or ".join(each.methods) for each in facts.requires),
        parameters=[] if is_brief else [*map(_parameter_row, endpoint.parameters or [])],
        is_brief=is_brief,
    )


def result_of(
    endpoint: EndpointSummary,
    number: int,
    facts: ProbeFacts,
    offer_price: tuple[float, str] | None,
) -> EndpointResult:
    """Return the row of an endpoint, with the terms of the offer that satisfies the filters."""
    pricing = offer_pricing(endpoint.pricing, endpoint.match, offer_price)
    return EndpointResult(
        **_cut(_texts(endpoint, pricing)),
        **_probe_texts(facts),
        number=number,
        service_id=endpoint.service.id,
        service_name=endpoint.service.name[:MAX_TEXT],
        curated=endpoint.service.enriched,
    )


def split_url(url: str) -> tuple[str, str]:
    """Return the host and the path of a URL; a URL without a path counts as a path."""
    match = None if url.startswith(TOOL_URL) else _url.fullmatch(url)
    host, path = match.groups() if match else ("", url)
    return (host, path) if path else ("", host)


def _probe_texts(facts: ProbeFacts) -> dict[str, Any]:
    """Return the fields of `EndpointLine` that probers saw."""
    liveness = "" if facts.alive is False else describe_liveness(facts)
    return {"liveness": liveness, "warnings": [*map(_sentence, warnings_of(facts))]}


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _texts(endpoint: Endpoint | EndpointSummary, pricing: Pricing) -> dict[str, str]:
    """Return the other fields of `EndpointLine`."""
    (host, path), price = split_url(endpoint.url), endpoint_price(pricing)
    quality = endpoint.quality
    calls = quality.l30_days_total_calls if quality else UNSET
    return {
        "method": endpoint.method or ("MCP" if endpoint.url.startswith(TOOL_URL) else "GET"),
        "path": path,
        "price": price.amount,
        "currency": price.currency,
        "description": endpoint.description or "",
        "host": host,
        "scheme": _scheme(pricing),
        "network": network_label(pricing.network) if pricing.network else "",
        "calls": f"{quantity(int(calls), 'call')} in 30 days" if calls else "",
    }


def _tool(tool: ToolFacts) -> str:
    server = f" of {tool.server}" if tool.server else ", of a server that the listing does not name"
    return f"MCP tool {tool.name}{server}, over {tool.transport}"


def _cut(texts: dict[str, str]) -> dict[str, Any]:
    return {name: text[:MAX_TEXT] for name, text in texts.items()}


def _scheme(pricing: Pricing) -> str:
    lowest, ceiling = pricing.min_amount or pricing.amount, pricing.max_amount or pricing.amount
    is_bounded = is_upto(pricing) and lowest.strip("0.") and lowest != ceiling
    return f"{pricing.scheme}{f', from {lowest}' if is_bounded else ''}" if pricing.scheme else ""


def _parameter_row(parameter: ParameterDescriptor) -> ParameterRow:
    values = parameter.enum_values or []
    more = [f"{len(values) - MAX_VALUES:,} more"] if len(values) > MAX_VALUES else []
    return ParameterRow(
        name=parameter.name,
        place=f"{parameter.type} in {parameter.group}",
        required=parameter.required is True,
        description=parameter.description or "",
        example=_value(parameter.example),
        values=", ".join([*map(_json, values[:MAX_VALUES]), *more]),
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
