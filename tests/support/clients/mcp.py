"""Calls of the MCP server: raw messages over HTTP, and the client of the SDK in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import httpx
from mcp import Client
from mcp.server import MCPServer
from mcp.types import CallToolResult

from service.mcp.server import create_server
from service.snapshot.manager import SnapshotManager
from service.snapshot.publication import CURRENT
from tests.support.running import Json

T = TypeVar("T")


class Era(NamedTuple):
    """An era of the protocol: its newest revision, and its name in the client of the SDK."""

    version: str
    mode: str


ERAS = {
    "handshake": Era("2025-11-25", "legacy"),
    "stateless": Era("2026-07-28", "2026-07-28"),
}
ACCEPT = "application/json, text/event-stream"


def headers_of(era: str, method: str, name: str = "") -> dict[str, str]:
    """Return the headers of a message."""
    headers = {"accept": ACCEPT, "mcp-protocol-version": ERAS[era].version, "mcp-method": method}
    return headers | ({"mcp-name": name} if name else {})


def message_of(era: str, method: str, **params: Any) -> Json:
    """Return a request."""
    if era == "stateless":
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": ERAS[era].version,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def post(
    client: httpx.Client,
    method: str,
    *,
    path: str = "/mcp",
    era: str = "stateless",
    headers: dict[str, str] | None = None,
    **params: Any,
) -> httpx.Response:
    """Send a request to the server."""
    name = params.get("name") or params.get("uri") or ""
    return client.post(
        path,
        json=message_of(era, method, **params),
        headers=headers_of(era, method, name) | (headers or {}),
    )


def call(client: httpx.Client, name: str, **arguments: Any) -> Json:
    """Call a tool over HTTP, and return its result."""
    response = post(client, "tools/call", name=name, arguments=arguments)
    assert response.status_code == 200, response.text
    result: Json = response.json()["result"]
    return result


def run_client(artifacts: Path, use: Callable[[Client], Awaitable[T]], era: str = "stateless") -> T:
    """Use the SDK's client with a server in this process."""

    async def run() -> T:
        published = artifacts / CURRENT
        server = _server(artifacts, published.read_text() if published.exists() else "")
        async with Client(server, mode=ERAS[era].mode) as client:
            return await use(client)

    return asyncio.run(run())


@lru_cache(maxsize=1)
def _server(artifacts: Path, _: str) -> MCPServer[SnapshotManager]:
    """Return a server of what is published, which is opened once."""
    snapshots = SnapshotManager(artifacts)
    snapshots.open()
    return create_server(snapshots)


def call_in_process(artifacts: Path, name: str, **arguments: Any) -> CallToolResult:
    """Call a tool of a server in this process."""
    return run_client(artifacts, lambda client: client.call_tool(name, arguments))


def structured(artifacts: Path, name: str, **arguments: Any) -> Json:
    """Call a tool of a server in this process, and return its structured content."""
    result = call_in_process(artifacts, name, **arguments)
    assert not result.is_error, text_of(result)
    content: Json = result.structured_content
    return content


def text_of(result: CallToolResult) -> str:
    """Return the text of a result."""
    (content,) = result.content
    assert content.type == "text"
    return content.text
