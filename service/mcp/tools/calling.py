"""The tool that says how to call an endpoint, and how it is paid."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from service.api.documents.curl import curl, path_parameters
from service.conditions import EndpointFilters
from service.errors import InvalidParameter
from service.mcp.tools.arguments import HowToCall
from service.mcp.tools.reading import ALL_ENDPOINTS, ToolAnswer
from service.mcp.tools.rows import (
    CALL,
    MAX_NAME,
    MAX_URL,
    Says,
    command_of,
    endpoint_line,
    endpoint_of,
    endpoint_row,
)
from service.mcp.tools.texts import clean, decode_printable, first_fitting
from service.mcp.tools.tool_calls import PAYS_WITH as TOOL_PAYS_WITH
from service.mcp.tools.tool_calls import ToolCall, sign_ins, tool_call, tool_lines
from service.prices import CONTRADICTION, describe_offer
from service.probes import warnings_of
from service.schema.records import Endpoint, ParameterDescriptor
from service.schema.values import JSON_TYPES
from service.snapshot import Snapshot
from service.snapshot.resources import tool_of

MAX_PARAMETER_BYTES = 12 * 1024  # bytes
MAX_ALLOWED = 20
MAX_VALUE = 500  # bytes of an example
MAX_LONG_SAYS = 200
MAX_COMMAND = 8000
MAX_ACCEPTS = 8 * 1024  # bytes
MAX_DOCUMENTED = 16  # ways to pay

PAYS_WITH = (
    "Python: x402[httpx]; TypeScript: @x402/fetch or @x402/axios, with @x402/evm or @x402/svm"
)
NO_COMMAND = "no command: the URL is not HTTP, or the values are too long"
EXAMPLE = "a URL that can be called in place of the template; seller: {}"
LISTED = "call without values for all parameters"
NOTE = (
    "The live 402 is authoritative: compare its amount, network and payee with your budget before "
    "paying. Nothing here pays or calls for you."
)


class CallParameter(Struct, kw_only=True, omit_defaults=True):
    """A parameter; `name`, `example` and `allowed` are the seller's."""

    name: str
    place: str = msgspec.field(name="in")
    type: str
    required: bool = False
    example: Any | UnsetType = UNSET
    allowed: list[Any] = []
    seller_says: Says = ""


class Instructions(Struct, kw_only=True, omit_defaults=True):
    """How to call an endpoint: by a curl command, or as an MCP tool.

    `first` is what has to be done before paying, and `example_url` can be called in place of a
    template. `accepts` are the ways to pay as the seller's feed has them, `accepts_left_out` counts
    those that are too long. `warnings` are what probers saw: a dead endpoint, or other terms than
    listed.
    """

    id: str
    method: str
    url: str
    seller_says: Says
    first: list[str] = []
    curl: str
    example_url: str = ""
    tool: ToolCall | None = None
    parameters: list[CallParameter]
    parameters_left_out: int = 0
    accepts: list[Any]
    accepts_left_out: int = 0
    documents_say: list[Says] = []
    price_usd: float | UnsetType = UNSET
    price: str = ""
    network: str = ""
    scheme: str = ""
    warnings: list[str] = []
    pays_with: str
    note: str


_identifier = re.compile(r"[A-Za-z0-9_.-]{1,40}")
_endpoint = msgspec.json.Decoder(Endpoint)


async def how_to_call(snapshot: Snapshot, call: HowToCall) -> ToolAnswer:
    """Return a command that calls an endpoint, its parameters, and the ways to pay."""
    ordinal = endpoint_of(snapshot, call.endpoint)
    endpoint = _endpoint.decode(snapshot.endpoints.text(ordinal))
    undescribed = _undescribed(endpoint)
    parameters = [*(endpoint.parameters or []), *undescribed]
    values = encode_values(parameters, call.values)
    row = endpoint_row(snapshot, ordinal, _filters(snapshot, ordinal, call.network))
    listing = snapshot.endpoints.listing_of(ordinal)
    facts = listing.ratecard
    accepts = [*map(decode_printable, first_fitting(listing.accepts, MAX_ACCEPTS, _json_size))]
    accepts_left_out = len(listing.accepts) - len(accepts)
    described = first_fitting(map(_describe, parameters), MAX_PARAMETER_BYTES, _json_size)
    tool = tool_of(endpoint.url, facts)
    of_tool = None if tool is None else tool_call(tool, parameters, values)
    # A placeholder that nobody describes stays in the URL, where it says that a value is missing.
    filled = [each for each in undescribed if each.name in values]
    sent = replace(endpoint, parameters=[*(endpoint.parameters or []), *filled])
    offers = endpoint.payment_offers or []
    documented = [clean(describe_offer(each), MAX_LONG_SAYS) for each in offers[:MAX_DOCUMENTED]]
    contradictions = [CONTRADICTION] if endpoint.prices_contradict is True else []
    command = "" if of_tool else command_of(curl(sent, values), MAX_COMMAND)
    instructions = Instructions(
        id=row.id,
        method=row.method,
        url=clean(endpoint.url, MAX_COMMAND),
        seller_says=clean(endpoint.description or row.seller_says, MAX_LONG_SAYS),
        first=sign_ins(facts.requires),
        curl=command,
        example_url=clean(facts.example_url, MAX_COMMAND),
        tool=of_tool,
        parameters=described,
        parameters_left_out=len(parameters) - len(described),
        accepts=accepts,
        accepts_left_out=accepts_left_out,
        documents_say=documented,
        price_usd=row.price_usd,
        price=row.price,
        network=row.network,
        scheme=row.scheme,
        warnings=[*contradictions, *warnings_of(snapshot.endpoints.probe_facts(ordinal))],
        pays_with=TOOL_PAYS_WITH if of_tool else PAYS_WITH,
        note=NOTE,
    )
    lines = [
        endpoint_line(replace(row, seller_says=instructions.seller_says), MAX_URL, MAX_LONG_SAYS),
        *(f"warning: {warning}" for warning in instructions.warnings),
        *(f"first: {each}" for each in instructions.first),
        *(
            tool_lines(of_tool)
            if of_tool
            else [CALL.format("it", command) if command else NO_COMMAND]
        ),
        *([EXAMPLE.format(instructions.example_url)] if facts.example_url else []),
        *map(_parameter_line, described),
        *_omitted(instructions.parameters_left_out, "parameters"),
        f"accepts; seller: {msgspec.json.encode(accepts).decode()}"
        if accepts
        else "its 402 says how it is paid",
        *_omitted(accepts_left_out, "ways to pay"),
        *(f"paid by; seller: {each}" for each in documented),
        f"pays with {instructions.pays_with}",
        NOTE,
    ]
    return instructions, "\n".join(lines)


def _filters(snapshot: Snapshot, ordinal: int, network: str | None) -> EndpointFilters:
    """Return the filters of the terms to show; raises InvalidParameter for no such terms."""
    if network is None:
        return ALL_ENDPOINTS
    filters = EndpointFilters(network=(network,))
    if snapshot.offers.cheapest_terms(ordinal, filters.offers) is None:
        message = f"the catalogue has no price of this endpoint on `{clean(network, MAX_NAME)}`"
        raise InvalidParameter("network", message)
    return filters


def encode_values(
    parameters: Sequence[ParameterDescriptor], values: dict[str, Any]
) -> dict[str, Raw]:
    """Return the JSON of values of parameters; raises InvalidParameter for what cannot be sent."""
    known_names = {parameter.name: None for parameter in parameters}
    for name in values:
        if name not in known_names:
            message = f"values: it has no parameter {_quoted(name)}; {LISTED}"
            raise InvalidParameter("values", message)
    encoded = {}
    for parameter in parameters:
        if parameter.name not in values:
            continue
        value = _typed(values[parameter.name], parameter.type)
        fault = _fault_of(value, parameter)
        if fault:
            raise InvalidParameter("values", f"values: {_quoted(parameter.name)} {fault}")
        encoded[parameter.name] = Raw(msgspec.json.encode(value))
    return encoded


def _typed(value: Any, kind: str) -> Any:
    """Return a value as the declared type where its text converts, else as it is."""
    if kind == "string" and type(value) in (int, float):
        return msgspec.json.encode(value).decode()
    if kind != "string" and isinstance(value, str):
        try:
            converted = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return value
        return converted if isinstance(converted, JSON_TYPES[kind]) else value
    return value


def _fault_of(value: Any, parameter: ParameterDescriptor) -> str:
    """Return why a value cannot be sent as this parameter, empty if it can."""
    group, kind = parameter.group, parameter.type
    if value is None:
        return "" if group == "body" else f"is null, which a {group} cannot have; leave it out"
    if group == "path" and value in ("", ".", ".."):
        return "would name another path"
    is_text_of_several = group != "body" and kind in ("array", "object") and isinstance(value, str)
    is_typed = isinstance(value, JSON_TYPES[kind]) and (
        kind == "boolean" or type(value) is not bool
    )
    if not is_typed and not is_text_of_several:
        return f"must be of the type {kind}"
    allowed = [decode_printable(raw) for raw in parameter.enum_values or []]
    values = value if isinstance(value, list) else [value]
    if allowed and not {str(each) for each in values} <= {str(each) for each in allowed}:
        return f"is none of its {len(allowed)} allowed values; {LISTED}"
    return ""


def _quoted(name: str) -> str:
    """Return a name for an error, without a text that could pass for the server's own."""
    return f"`{name}`" if _identifier.fullmatch(name) else "`…`"


def _undescribed(endpoint: Endpoint) -> list[ParameterDescriptor]:
    """Return the placeholders of the URL that no parameter of the record describes."""
    described = {each.name for each in endpoint.parameters or [] if each.group != "body"}
    return [
        ParameterDescriptor(group="path", name=name, type="string", required=True)
        for name in path_parameters(endpoint.url)
        if name not in described
    ]


def _json_size(value: Raw | CallParameter) -> int:
    return len(msgspec.json.encode(value))


def _describe(parameter: ParameterDescriptor) -> CallParameter:
    return CallParameter(
        name=clean(parameter.name, MAX_NAME),
        place=parameter.group,
        type=parameter.type,
        required=parameter.required is True,
        example=_value(parameter.example),
        allowed=[
            value
            for raw in (parameter.enum_values or [])[:MAX_ALLOWED]
            if (value := _value(raw)) is not UNSET
        ],
        seller_says=clean(parameter.description or "", MAX_LONG_SAYS),
    )


def _value(raw: Raw | UnsetType) -> Any:
    """Return a value of the seller, UNSET where it is missing, null or long."""
    if raw is UNSET or len(bytes(raw)) > MAX_VALUE:
        return UNSET
    value = decode_printable(raw)
    return UNSET if value is None else value


def _parameter_line(parameter: CallParameter) -> str:
    required = ", required" if parameter.required else ""
    parts = [f"- {parameter.type} in {parameter.place}{required}; seller: {parameter.name}"]
    if parameter.example is not UNSET:
        parts.append(f"example {msgspec.json.encode(parameter.example).decode()}")
    if parameter.allowed:
        parts.append(f"one of {msgspec.json.encode(parameter.allowed).decode()}")
    if parameter.seller_says:
        parts.append(parameter.seller_says)
    return "; ".join(parts)


def _omitted(count: int, things: str) -> list[str]:
    return [f"{count} {things} are too long and left out"] if count else []
