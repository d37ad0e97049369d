"""The tool that says how to call an endpoint, and how it is paid."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from mcp.types import CallToolResult
from msgspec import Raw
from msgspec.structs import replace
from pydantic import Field, Json, StrictBool, StrictFloat, StrictInt, TypeAdapter

from service.api.documents.curl import body_of, curl, url_text
from service.bodies import explain_body, is_json, media_type_of
from service.conditions import EndpointFilters
from service.errors import InvalidParameter
from service.mcp.rows import MAX_NAME, endpoint_of, endpoint_row
from service.mcp.texts import clean, decode_printable, escape_ignorable, printable
from service.mcp.tools import ALL_ENDPOINTS, Network, Reference, ToolCall, result_of, snapshot_for
from service.prices import describe_offer
from service.probes import warnings_of
from service.schema.discovery import ToolFacts
from service.schema.records import Endpoint, ParameterDescriptor
from service.snapshot.alternatives import describe_alternatives
from service.snapshot.resources import tool_of
from service.urls import MAX_URL, path_parameters

MAX_PARAMETERS = 12 * 1024  # bytes
MAX_LONG_SAYS = 200
MAX_COMMAND = 8000
MAX_ACCEPTS = 8 * 1024  # bytes
MAX_DOCUMENTED = 16  # ways to pay
MAX_TOOL_NAME = 256

PAYS_WITH = (
    "Python: x402[httpx]; TypeScript: @x402/fetch or @x402/axios, with @x402/evm or @x402/svm"
)
TOOL_PAYS_WITH = "TypeScript: @x402/mcp; Python: x402[mcp]"
TOOL_PAYMENT = (
    "call it without payment: the result is an error with the terms in structuredContent, or as "
    'JSON in its text; sign a payment, repeat the call with it in params._meta["x402/payment"], '
    'and read the receipt in the result\'s _meta["x402/payment-response"]'
)
NO_PAYEE = "no payee is listed: the 402 alone names it"
LISTED = "call without values for all parameters"
NOTE = (
    "The live 402 is authoritative: compare its amount, network and payee with your budget before "
    "paying. Nothing here pays or calls for you."
)

GivenValues = Annotated[dict[str, Any], Field(description="parameter values, by name")]

_types: dict[str, TypeAdapter[Any]] = {
    "string": TypeAdapter(Annotated[str, Field(coerce_numbers_to_str=True)]),
    "number": TypeAdapter(StrictInt | StrictFloat | Json[StrictInt | StrictFloat]),
    "boolean": TypeAdapter(StrictBool | Json[StrictBool]),
    "array": TypeAdapter(list[Any] | Json[list[Any]]),
    "object": TypeAdapter(dict[str, Any] | Json[dict[str, Any]]),
}
_identifier = re.compile(r"[A-Za-z0-9_.-]{1,40}")
_endpoint = msgspec.json.Decoder(Endpoint)
_members = msgspec.json.Decoder(dict[str, Raw])


async def how_to_call(
    call: ToolCall,
    endpoint: Reference,
    values: GivenValues = {},  # noqa: B006  # never changed
    network: Network = "",
) -> CallToolResult:
    """Get a filled curl command, all parameters, accepted payments and libraries that pay.

    Calls and pays nothing itself.
    """
    snapshot = snapshot_for(call)
    ordinal = endpoint_of(snapshot, endpoint)
    filters = EndpointFilters(network=(network,)) if network else ALL_ENDPOINTS
    if network and snapshot.offers.cheapest_terms(ordinal, filters) is None:
        message = f"network: no price of this endpoint on `{clean(network, MAX_NAME)}` is known"
        raise InvalidParameter("network", f"{message}; send none to see those that are")
    record = _endpoint.decode(snapshot.endpoints.text(ordinal))
    listing = snapshot.endpoints.listing_of(ordinal)
    tool = tool_of(record.url, listing.ratecard)
    own = record.parameters or []
    in_url = {*path_parameters(record.url)} - {each.name for each in own if each.group != "body"}
    undescribed = [
        ParameterDescriptor(group="path", name=name, type="string", required=True)
        for name in sorted(in_url)
    ]
    parameters = [*own, *undescribed]
    in_path = path_parameters(record.url.partition("?")[0])
    given = encode_values(parameters, values, in_path)
    # A placeholder that nobody describes stays in the URL, where it says that a value is missing.
    sent = replace(record, parameters=[*own, *(each for each in undescribed if each.name in given)])
    media_type = media_type_of(record.body_type)
    command = "" if tool else curl(sent, given)
    if is_json(media_type):
        command = escape_ignorable(command)
    is_shown = len(command) <= MAX_COMMAND and command == printable(command)
    described = _fitting(([msgspec.json.encode(each)] for each in parameters), MAX_PARAMETERS)
    forms = ((form(each) for form in (bytes, _without_schema)) for each in listing.accepts)
    accepts = _fitting(forms, MAX_ACCEPTS)
    offers = (record.payment_offers or [])[:MAX_DOCUMENTED]
    has_payee = bool(listing.accepts or offers)
    optional = {
        "first_register_or_sign_in": msgspec.to_builtins(listing.ratecard.requires),
        "example_url": clean(listing.ratecard.example_url, MAX_COMMAND),
        "tool": _tool_call(tool, body_of(parameters, given)) if tool else {},
        "body_type": media_type if record.body_type else "",
        "parameters_left_out": len(parameters) - len(described),
        "accepts_left_out": len(listing.accepts) - len(accepts),
        "documents_say": [clean(describe_offer(offer), MAX_LONG_SAYS) for offer in offers],
        "warnings": [
            *filter(None, [explain_body(record), "" if has_payee else NO_PAYEE]),
            *warnings_of(snapshot.endpoints.facts_of(ordinal)),
        ],
    }
    others = await snapshot.find_alternatives(ordinal)
    optional["others"] = describe_alternatives(others)
    optional["other_ids"] = [endpoint_row(snapshot, each.ordinal, filters).id for each in others]
    row = endpoint_row(snapshot, ordinal, filters, MAX_LONG_SAYS)
    facts = {
        **row.model_dump(exclude_defaults=True),
        "url": clean(record.url, MAX_COMMAND),
        "curl": command if is_shown else "",
        "parameters": described,
        "accepts": accepts,
        **{name: value for name, value in optional.items() if value},
        "pays_with": TOOL_PAYS_WITH if tool else PAYS_WITH,
        "note": NOTE,
    }
    return result_of(snapshot, facts)


def _fitting(values: Iterable[Iterable[bytes]], room: int) -> list[Any]:
    """Return values that have at most this many bytes together.

    Each is given in forms of JSON, of which the first that fits is taken; others follow one that
    does not fit.
    """
    kept = []
    for forms in values:
        if text := next((form for form in forms if len(form) <= room), b""):
            room -= len(text)
            kept.append(decode_printable(text))
    return kept


def _without_schema(entry: Raw) -> bytes:
    members = _members.decode(entry)
    members.pop("outputSchema", None)
    return msgspec.json.encode(members)


def _tool_call(tool: ToolFacts, body: Mapping[str, Raw]) -> dict[str, Any]:
    """Return the call of an MCP tool; its name, server and arguments are the seller's."""
    arguments = msgspec.json.encode(body)
    return {
        "name": clean(tool.name, MAX_TOOL_NAME),
        "server": clean(tool.server, MAX_URL) if tool.server else "",
        "transport": tool.transport,
        "arguments": decode_printable(arguments) if len(arguments) <= MAX_COMMAND else {},
        "payment": TOOL_PAYMENT,
    }


def encode_values(
    parameters: Sequence[ParameterDescriptor],
    values: Mapping[str, Any],
    in_path: Collection[str] = (),
) -> dict[str, Raw]:
    """Return the JSON of values of parameters; raises InvalidParameter for what cannot be sent.

    in_path: the names of the placeholders of the path, whatever the groups of these parameters
    """
    described = {parameter.name: parameter for parameter in parameters}
    encoded = {}
    for name, given in values.items():
        # Other names could pass for a text of our own.
        shown = f"values: `{name}`" if _identifier.fullmatch(name) else "values: a name"
        parameter = described.get(name)
        if parameter is None:
            raise InvalidParameter("values", f"{shown} is no parameter of it; {LISTED}")
        is_null = given is None and parameter.group == "body"
        try:
            value = given if is_null else _types[parameter.type].validate_python(given)
            text = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError) as error:
            message = f"{shown} must be of the type {parameter.type}"
            raise InvalidParameter("values", message) from error
        allowed = {str(decode_printable(raw)) for raw in parameter.enum_values or []}
        if allowed and not {*map(str, value if isinstance(value, list) else [value])} <= allowed:
            message = f"{shown} is none of its {len(allowed)} allowed values; {LISTED}"
            raise InvalidParameter("values", message)
        is_of_path = parameter.group == "path" or name in in_path
        if is_of_path and url_text(Raw(text)) in ("", ".", ".."):
            raise InvalidParameter("values", f"{shown} would name another path")
        encoded[name] = Raw(text)
    return encoded
