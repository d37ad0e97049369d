"""The time of an MCP search beside that of the same search over HTTP and of the SDK alone."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Mapping
from pathlib import Path
from urllib.parse import urlencode

import msgspec
from mcp.server import MCPServer
from starlette.types import ASGIApp, Message

from indexer.build import build_snapshot
from indexer.catalogue_file import name_source
from indexer.options import BuildOptions
from service.app import create_app
from service.settings import Settings
from tests.benchmarks.corpus import make_documents, make_queries
from tests.benchmarks.services import write_services
from tests.support.clients.mcp import ERAS, headers_of, message_of

QUERIES = 300
LIMIT = 5


def bench_agents(count: int) -> None:
    """Print the median CPU times of calls in turns, over ASGI in this process, by era."""
    documents = make_documents(count)
    queries = [each.words for each in make_queries(documents, QUERIES, seed=1)]
    with tempfile.TemporaryDirectory(prefix="ratecard-") as name:
        source, artifacts = Path(name) / "services.jsonl", Path(name) / "artifacts"
        write_services(source, documents)
        build_snapshot(BuildOptions(sources=(name_source(str(source)),), out=artifacts))
        settings = Settings(artifacts=str(artifacts), mcp=True, max_lag=0)
        print("\n| era | HTTP search ms | empty call of the SDK ms | MCP search ms | ratio |")
        print("|---|---|---|---|---|")
        for era in ERAS:
            asyncio.run(_compare(settings, queries, era))


async def _compare(settings: Settings, queries: list[str], era: str) -> None:
    app, server = create_app(settings), MCPServer("empty", log_level="ERROR")

    @server.tool(structured_output=False)
    async def empty() -> str:
        return ""

    server.streamable_http_app(json_response=True, stateless_http=True)
    manager = server.session_manager
    times: dict[str, list[float]] = {"http": [], "empty": [], "mcp": []}

    async def measure(kind: str, answer: Awaitable[None]) -> None:
        start = time.process_time()
        await answer
        times[kind].append(1000 * (time.process_time() - start))

    async with app.router.lifespan_context(app), manager.run():
        for query in queries:
            await measure("http", _get(app, "/v1/search/endpoints", {"q": query, "limit": LIMIT}))
            await measure("empty", _call(manager.handle_request, era, "empty", {}))
            arguments = {"query": query, "limit": LIMIT}
            await measure("mcp", _call(app, era, "search_endpoints", arguments))
    http, bare, mcp = (statistics.median(times[kind]) for kind in ("http", "empty", "mcp"))
    print(f"| {era} | {http:.2f} | {bare:.2f} | {mcp:.2f} | {mcp / (http + bare):.2f} |")


async def _get(app: ASGIApp, path: str, parameters: Mapping[str, object]) -> None:
    await _send(app, "GET", path, urlencode(parameters).encode(), {}, b"")


async def _call(app: ASGIApp, era: str, name: str, arguments: Mapping[str, object]) -> None:
    message = message_of(era, "tools/call", name=name, arguments=arguments)
    headers = headers_of(era, "tools/call", name) | {"content-type": "application/json"}
    await _send(app, "POST", "/mcp", b"", headers, msgspec.json.encode(message))


async def _send(
    app: ASGIApp, method: str, path: str, query: bytes, headers: dict[str, str], body: bytes
) -> None:
    """Send a request without a client, whose time would hide that of the server."""
    given = {"host": "127.0.0.1:8000"} | headers
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query,
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }
    left = asyncio.Event()
    received = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        if received:
            return received.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)
        await asyncio.sleep(0)

    await app(scope, receive, send)
    if sent[0]["status"] != 200 or any(b'"isError":true' in each.get("body", b"") for each in sent):
        raise SystemExit(f"the request failed: {sent}")
