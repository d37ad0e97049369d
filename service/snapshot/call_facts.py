"""Facts of the listing of an endpoint that callers need: its tool, its example, a sign-in."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec
from msgspec import Raw, Struct, field

from service.schema.discovery import Requirement, ToolFacts

if TYPE_CHECKING:
    from service.snapshot.snapshot import Snapshot

TOOL_URL = "mcp://tool/"


class CallFacts(Struct):
    """The facts of a listing."""

    example_url: str = field(name="exampleUrl", default="")
    tool: ToolFacts | None = None
    requires: list[Requirement] = []


class ListedCall(Struct):
    """The ways to pay that a feed lists, and the facts of the listing."""

    accepts: list[Raw] = []
    ratecard: CallFacts = field(default_factory=CallFacts)


_listed = msgspec.json.Decoder(ListedCall)


def listing_of(snapshot: Snapshot, ordinal: int) -> ListedCall:
    """Return what a feed lists of an endpoint; empty where no feed does."""
    resource = snapshot.endpoints.resource_of(ordinal)
    if resource is None:
        return ListedCall()
    return _listed.decode(snapshot.resources.texts.view(resource))


def tool_of(url: str, facts: CallFacts) -> ToolFacts | None:
    """Return the MCP tool that an endpoint is, by its listing or by its identifier."""
    if facts.tool is not None or not url.startswith(TOOL_URL):
        return facts.tool
    return ToolFacts(name=unquote(url.removeprefix(TOOL_URL)), transport="streamable-http")
