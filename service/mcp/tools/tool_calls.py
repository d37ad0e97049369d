"""Calls of paid MCP tools, and what has to be done before paying, as how_to_call answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from service.api.documents.curl import body_of
from service.mcp.tools.texts import clean, decode_printable
from service.schema.discovery import Requirement, ToolFacts
from service.schema.records import ParameterDescriptor
from service.urls import MAX_URL

MAX_NAME = 256
MAX_ARGUMENTS = 8000  # bytes

NO_SERVER = "; the listing names no server: find that of the seller"
PAYMENT = (
    "call it without payment: the result is an error with the terms in structuredContent, or as "
    'JSON in its text; sign a payment, repeat the call with it in params._meta["x402/payment"], '
    'and read the receipt in the result\'s _meta["x402/payment-response"]'
)
PAYS_WITH = "TypeScript: @x402/mcp; Python: x402[mcp]"
SIGN_IN = "register or sign in before paying, by {}"
SOME = "; some ways to pay need none"


class ToolCall(Struct, kw_only=True, omit_defaults=True):
    """A call of an MCP tool; `name`, `server` and `arguments` are the seller's."""

    name: str
    server: str = ""
    transport: str
    arguments: dict[str, Any]
    payment: str


def tool_call(
    tool: ToolFacts, parameters: Sequence[ParameterDescriptor], values: dict[str, Raw]
) -> ToolCall:
    """Return a call with these values, and examples of the other required arguments."""
    arguments = msgspec.json.encode(body_of(parameters, values))
    return ToolCall(
        name=clean(tool.name, MAX_NAME),
        server=clean(tool.server, MAX_URL) if tool.server else "",
        transport=tool.transport,
        arguments=decode_printable(arguments) if len(arguments) <= MAX_ARGUMENTS else {},
        payment=PAYMENT,
    )


def tool_lines(call: ToolCall) -> list[str]:
    """Return a call as lines of text, with words of the seller after `seller:` alone."""
    request = {"name": call.name, "arguments": call.arguments}
    tool = f"tools/call {msgspec.json.encode(request).decode()}"
    head = f"MCP tool over {call.transport}{'' if call.server else NO_SERVER}"
    at = f" at {call.server}" if call.server else ""
    return [f"{head}; seller: {tool}{at}", f"payment: {call.payment}"]


def sign_ins(requirements: Sequence[Requirement]) -> list[str]:
    """Return what has to be done before paying, a sentence each."""
    return [
        f"{SIGN_IN.format(' or '.join(each.methods))}{'' if each.some is UNSET else SOME}"
        for each in requirements
    ]
