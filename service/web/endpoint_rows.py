"""Endpoints and parameters as the values that the templates show."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from service.api.documents.curl import curl
from service.api.documents.snippets import snippets
from service.api.endpoints import EndpointSummary, endpoint_id
from service.bodies import explain_body, media_type_of
from service.prices import describe_offer, endpoint_price, is_ceiling, offer_pricing
from service.probes import describe_deliveries, describe_liveness, warnings_of
from service.schema.discovery import ToolFacts
from service.schema.profiles import describe
from service.schema.records import Endpoint, ParameterDescriptor, Pricing
from service.snapshot import Snapshot
from service.snapshot.resources import TOOL_URL, CallFacts, tool_of
from service.web.card import MAX_TEXT, quantity, short_label

MAX_VALUES = 50
"""Allowed values shown of a parameter."""
MAX_CODE = 1
"""Endpoints of a page whose calls are shown in other languages than curl, too."""
MAX_DETAILED = 1 << 17
"""Bytes of the endpoints of a page that are shown with all details, in some 15 ms."""

_url = re.compile(r"(?:[a-z]+://)?([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)


_endpoint = msgspec.json.Decoder(Endpoint)
_summary = msgspec.json.Decoder(EndpointSummary)
_any = msgspec.json.Decoder(float_hook=Decimal)
_encoder = msgspec.json.Encoder(decimal_format="number")


def best_of(snapshot: Snapshot, ordinal: int) -> SimpleNamespace:
    """Return the texts of the endpoint that is shown below its service in a list."""
    endpoint = _summary.decode(snapshot.endpoints.text(ordinal))
    call = _call_of(snapshot, ordinal, endpoint)
    return SimpleNamespace(**call, description=(endpoint.description or "")[:MAX_TEXT])


def result_of(snapshot: Snapshot, ordinal: int, offer: int) -> SimpleNamespace:
    """Return an endpoint in a list, with the terms of the offer that satisfies the filters.

    is_full: whether it is the last of as many as the page lists of its service, which may have more
    """
    endpoints = snapshot.endpoints
    endpoint = _summary.decode(endpoints.text(ordinal, offer))
    if offer >= 0:
        price = endpoints.price_of(ordinal, offer)
        endpoint.pricing = offer_pricing(endpoint.pricing, endpoint.match, price)
    return SimpleNamespace(
        **_row_of(snapshot, ordinal, endpoint, MAX_TEXT),
        service_id=endpoint.service.id,
        service_name=endpoint.service.name[:MAX_TEXT],
        curated=endpoint.service.enriched,
        is_full=False,
    )


def details_of(snapshot: Snapshot, ordinals: Sequence[int]) -> list[SimpleNamespace]:
    """Return endpoints on the page of their service.

    All are brief after the first MAX_DETAILED bytes: without parameters and command.
    tool: how it is called as an MCP tool, empty for any other endpoint
    example: a URL that can be called in place of a template
    body_type: the media type of the body, where it is not JSON
    code: programs that call and pay, by language
    reference: the arguments of the tool `how_to_call`
    no_curl: why there is no command, empty where there is another reason
    offers: ways to pay that documents state
    sign_in: the methods of what has to be done before paying
    profile: the labels and the words of the operator
    """
    details: list[SimpleNamespace] = []
    room = MAX_DETAILED
    for ordinal in ordinals:
        text = snapshot.endpoints.text(ordinal)
        room -= len(text)
        is_brief = room < 0
        endpoint = _endpoint.decode(text)
        facts = CallFacts() if is_brief else snapshot.endpoints.listing_of(ordinal).ratecard
        row = _row_of(snapshot, ordinal, endpoint, MAX_TEXT if is_brief else None)
        tool = tool_of(endpoint.url, facts)
        details.append(
            SimpleNamespace(
                **row,
                first_method=next(iter(snapshot.endpoints.methods_of(ordinal)), row["method"]),
                curl="" if is_brief or tool else curl(endpoint),
                code={} if is_brief or tool or len(details) >= MAX_CODE else snippets(endpoint),
                url=endpoint.url,
                reference=(
                    ""
                    if details
                    else json.dumps({"endpoint": endpoint_id(snapshot, ordinal, endpoint)})
                ),
                body_type=media_type_of(endpoint.body_type) if endpoint.body_type else "",
                no_curl="" if is_brief or tool else explain_body(endpoint),
                tool=_tool(tool) if tool else "",
                example=facts.example_url,
                offers=[describe_offer(each)[:MAX_TEXT] for each in endpoint.payment_offers or []],
                sign_in="; or ".join(" or ".join(each.methods) for each in facts.requires),
                parameters=[] if is_brief else endpoint.parameters or [],
                is_brief=is_brief,
                profile=describe(snapshot.endpoints.facts_of(ordinal).profile),
            )
        )
    return details


def host_of(url: str) -> str:
    """Return the host of a URL as it is spelt, empty for an MCP tool."""
    match = None if url.startswith(TOOL_URL) else _url.match(url)
    return match[1] if match else ""


def _call_of(
    snapshot: Snapshot,
    ordinal: int,
    endpoint: Endpoint | EndpointSummary,
    limit: int | None = MAX_TEXT,
) -> dict[str, Any]:
    """Return what to call, for which price, and its place in the record of its service."""
    price, is_tool = endpoint_price(endpoint.pricing), endpoint.url.startswith(TOOL_URL)
    match = None if is_tool else _url.fullmatch(endpoint.url)
    host, path = match.groups() if match else ("", endpoint.url)
    if not path:  # a URL without a path counts as a path
        host, path = "", host
    return {
        "number": snapshot.endpoints.place_of(ordinal),
        "method": (endpoint.method or ("MCP" if is_tool else "GET"))[:limit],
        "host": host[:limit],
        "path": path[:limit],
        "price": price.amount[:limit],
        "currency": price.currency[:limit],
    }


def _row_of(
    snapshot: Snapshot, ordinal: int, endpoint: Endpoint | EndpointSummary, limit: int | None
) -> dict[str, Any]:
    """Return the texts of an endpoint in any list, each of at most `limit` characters."""
    pricing, quality = endpoint.pricing, endpoint.quality
    observed = snapshot.endpoints.facts_of(ordinal)
    calls = quality.l30_days_total_calls if quality else UNSET
    return _call_of(snapshot, ordinal, endpoint, limit) | {
        "description": (endpoint.description or "")[:limit],
        "scheme": _scheme(pricing)[:limit],
        "network": short_label(pricing.network[:MAX_TEXT]) if pricing.network else "",
        "calls": f"{quantity(int(calls), 'call')} in 30 days" if calls else "",
        "liveness": "" if observed.alive is False else describe_liveness(observed),
        "deliveries": describe_deliveries(observed),
        "warnings": [*map(_sentence, warnings_of(observed))],
    }


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _tool(tool: ToolFacts) -> str:
    server = f" of {tool.server}" if tool.server else ", of a server that the listing does not name"
    return f"MCP tool {tool.name}{server}, over {tool.transport}"


def _scheme(pricing: Pricing) -> str:
    lowest, ceiling = pricing.min_amount or pricing.amount, pricing.max_amount or pricing.amount
    is_bounded = is_ceiling(pricing) and lowest.strip("0.") and lowest != ceiling
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
