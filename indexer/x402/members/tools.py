"""Paid MCP tools: whose tool an identifier such as `mcp://tool/forecast` names.

Different sellers use one identifier, so that a tool is identified by the identifier and its server,
or else by the payees and the name of the service.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, unquote

from indexer.errors import LeftOut
from indexer.untrusted import line, mapping, text
from service.urls import DEFAULT_PORTS, find_url

MAX_TOOL = 256  # characters
MAX_SLUG = 12
SELLER_DIGITS = 8
SELLERS = "mcp-"
"""How the domains of sellers begin that name no server; no public host has their form."""
SERVER_MEMBERS = ("serverUrl", "server_url", "mcpUrl", "mcp_url", "server", "endpoint")
NO_SELLER = "MCP tools without a seller"

_tool = re.compile(r"mcp://tool/([^/?#\s]{1,768})", re.IGNORECASE)
_no_letter = re.compile(r"[^a-z0-9]+")


def tool_of_url(url: str) -> str:
    """Return the name of the tool that a URL identifies, empty for any other URL."""
    match = _tool.fullmatch(url)
    name = unquote(match[1]) if match else ""
    return name if len(name) <= MAX_TOOL and name.isprintable() else ""


def server_of(values: dict[str, Any], described: dict[str, Any]) -> str:
    """Return the URL of the MCP server that a resource names, or an empty string."""
    extension = mapping(values.get("extensions"), "bazaar")
    info = mapping(extension, "info")
    metadata = values.get("metadata")
    for place in (mapping(info, "input"), info, extension, metadata, described, values):
        for url in _urls(place):
            parsed = find_url(url)
            if parsed is not None and parsed.scheme in DEFAULT_PORTS:
                return url
    return ""


def find_seller(tool: str, payees: Iterable[str], service_name: Any) -> tuple[str, str]:
    """Return a domain for the seller of a tool without a server, and the identity of the tool.

    Tools of one seller have equal sets of payees, so that no other listing adds a payee to a tool.
    Raises LeftOut without payees.
    """
    addresses = sorted(payees)
    if not addresses:
        reason = "names neither the server that sells the tool nor an address that is paid"
        raise LeftOut(NO_SELLER, "$.resource", reason)
    name = line(service_name, MAX_TOOL).casefold()
    digest = hashlib.sha256("\n".join((name, *addresses)).encode()).hexdigest()[:SELLER_DIGITS]
    slug = _no_letter.sub("-", name or addresses[0].lower()).strip("-")[:MAX_SLUG].strip("-")
    domain = f"{SELLERS}{slug}-{digest}" if slug else f"{SELLERS}{digest}"
    return domain, f"mcp://{domain}/tool/{quote(tool, safe='')}"


def is_seller(domain: str) -> bool:
    """Whether a domain stands for a seller, and is no host."""
    return domain.startswith(SELLERS) and "." not in domain


def _urls(place: Any) -> Iterator[str]:
    for name in SERVER_MEMBERS if isinstance(place, dict) else ():
        value = place.get(name)
        yield text(value.get("url") if isinstance(value, dict) else value)
