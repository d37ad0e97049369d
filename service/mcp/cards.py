"""The server card (SEP-2127) and the catalogue of a host's AI services, which points to it."""

from __future__ import annotations

from urllib.parse import quote

import msgspec
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from service.cli import version
from service.http.responses import no_store
from service.mcp.server import NAME, TITLE

CARD_PATH = "/mcp/server-card"
CATALOG_PATH = "/.well-known/ai-catalog.json"
CARD_TYPE = "application/mcp-server-card+json"
CATALOG_TYPE = "application/ai-catalog+json"
SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
DESCRIPTION = "Search web APIs that are paid per request (x402), and learn how to call them."


class Cards:
    """Handlers that describe the server at the address that a client used.

    The address is that of the `Host` header if this names one of the hosts, else of the first of
    them: nobody can make a card point elsewhere. Shared caches must not keep the documents.
    """

    def __init__(self, hosts: list[str]) -> None:
        self._hosts = hosts
        self.routes = [Route(CARD_PATH, self.get_card), Route(CATALOG_PATH, self.get_catalog)]

    async def get_card(self, request: Request) -> Response:
        """Return the server card."""
        card = {
            "$schema": SCHEMA,
            "name": f"{_reversed(self._host(request))}/{NAME}",
            "title": TITLE,
            "description": DESCRIPTION,
            "version": version(),
            "remotes": [
                {
                    "type": "streamable-http",
                    "url": f"{self._base(request)}/mcp",
                    "supportedProtocolVersions": list(KNOWN_PROTOCOL_VERSIONS),
                }
            ],
        }
        return no_store(msgspec.json.encode(card), media_type=CARD_TYPE)

    async def get_catalog(self, request: Request) -> Response:
        """Return the catalogue, with the server card as its entry."""
        entry = {
            "identifier": f"urn:air:{_name_of(self._host(request))}:{NAME}",
            "displayName": TITLE,
            "description": DESCRIPTION,
            "type": CARD_TYPE,
            "url": f"{self._base(request)}{CARD_PATH}",
        }
        catalog = {"specVersion": "1.0", "entries": [entry]}
        return no_store(msgspec.json.encode(catalog), media_type=CATALOG_TYPE)

    def _host(self, request: Request) -> str:
        host = request.headers.get("host", "").lower()
        return host if host in self._hosts or _name_of(host) in self._hosts else self._hosts[0]

    def _base(self, request: Request) -> str:
        root_path = request.scope.get("root_path", "").rstrip("/")
        return f"{request.url.scheme}://{self._host(request)}{quote(root_path)}"


def _name_of(host: str) -> str:
    """Return a host without its port."""
    name, _, port = host.rpartition(":")
    return name if port.isdigit() else host


def _reversed(host: str) -> str:
    """Return the reverse DNS name of a host."""
    return ".".join(reversed(_name_of(host).strip("[]").replace(":", "-").split(".")))
