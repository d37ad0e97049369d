"""Prints how many functions of the project each kind of request calls, and how often it plans.

Run `python -m tests.walks`; with `--names` it also lists the functions. The sample catalogue is
built to a temporary folder and asked over ASGI in this process. Only the first walk has a cached
response and a parsed query; all else is warm. Comprehensions, generator expressions and templates
do not count, so that all versions of Python count alike.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import NamedTuple

import httpx

import service
from service.app import create_app
from service.search.lexicon import Lexicon
from service.settings import Settings
from tests.support.clients.mcp import headers_of, message_of
from tests.support.running import SEEDS

HOME = Path(*service.__path__).parent
PACKAGES = (str(HOME / "service"), str(HOME / "indexer"))
PLAN = Lexicon.expand.__code__
"""The function that plans a query: each request calls it once at most."""
FILTERS = {"max_price_usd": 0.05, "network": "Base"}


class Request(NamedTuple):
    """A request of the service: a path, or a call of an MCP tool with its arguments."""

    path: str
    arguments: Mapping[str, object] | None = None


def _both(template: str, warm_up: str, counted: str) -> tuple[Request, Request]:
    return Request(template.format(warm_up)), Request(template.format(counted))


WALKS = {
    "search, cached": _both("/v1/search/services?q={}", "weather", "weather"),
    "search, one filter": _both("/v1/search/services?network=Base&q={}", "maps", "tide+forecast"),
    "get by id": _both("/v1/services/{}", "glyphlift-example", "switchyard-example"),
    "list": _both("/v1/services?limit={}", "3", "4"),
    "page of services": _both("/?q={}", "images", "translate+speech"),
    "page of endpoints": _both("/endpoints?q={}", "images", "news+today"),
    "MCP search_endpoints": (
        Request("search_endpoints", {"query": "stocks", **FILTERS}),
        Request("search_endpoints", {"query": "price of gold", **FILTERS}),
    ),
    "discovery search": _both("/discovery/search?query={}", "maps", "bank+holidays"),
}
"""A request that warms up, and one of which the functions are counted, by the name of a walk."""


class Count(NamedTuple):
    """The functions that a walk called, and how often each."""

    calls: Counter[CodeType]

    def __str__(self) -> str:
        modules = {code.co_filename for code in self.calls}
        counts = (self.calls.total(), len(self.calls), len(modules), self.calls[PLAN])
        return "".join(f"{count:>10,}" for count in counts)


async def count_walks(artifacts: Path) -> dict[str, Count]:
    """Return the counts of all walks, by their names."""
    app = create_app(Settings(artifacts=str(artifacts), mcp=True, max_lag=0))
    transport = httpx.ASGITransport(app)
    counts = {}
    client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")
    async with app.router.lifespan_context(app), client:
        for name, (warm_up, counted) in WALKS.items():
            await _send(client, warm_up)
            counts[name] = await _count(client, counted)
    return counts


async def _count(client: httpx.AsyncClient, request: Request) -> Count:
    frames: dict[FrameType, None] = {}  # in order; a coroutine that is resumed keeps its frame

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGES):
            frames[frame] = None

    sys.setprofile(profile)
    try:
        await _send(client, request)
    finally:
        sys.setprofile(None)
    codes = (frame.f_code for frame in frames)
    return Count(Counter(code for code in codes if _is_function(code)))


def _is_function(code: CodeType) -> bool:
    is_expression = code.co_name.startswith("<") and code.co_name != "<lambda>"
    return code.co_filename.endswith(".py") and not is_expression


async def _send(client: httpx.AsyncClient, request: Request) -> None:
    if request.arguments is None:
        response = await client.get(request.path)
    else:
        call = {"name": request.path, "arguments": request.arguments}
        message = message_of("stateless", "tools/call", **call)
        headers = headers_of("stateless", "tools/call", request.path)
        response = await client.post("/mcp", json=message, headers=headers)
    response.raise_for_status()
    if '"isError":true' in response.text:
        raise RuntimeError(response.text)


def _build(folder: Path) -> None:
    options = ("--transactions", SEEDS / "transactions.jsonl", "--out", folder)
    sources = (SEEDS / "services.jsonl", SEEDS / "resources.jsonl", *options)
    command = [sys.executable, "-m", "indexer", "build", *map(str, sources)]
    subprocess.run(command, check=True, capture_output=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--names", action="store_true", help="list the functions of each walk")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        _build(Path(folder))
        counts = asyncio.run(count_walks(Path(folder)))
    columns = ("calls", "functions", "modules", "plans")
    print(f"{'walk':24}" + "".join(f"{column:>10}" for column in columns))
    for name, count in counts.items():
        print(f"{name:24}{count}")
    if options.names:
        for name, count in counts.items():
            print(f"\n{name}")
            for code, calls in count.calls.items():
                print(f"{calls:7} {Path(code.co_filename).relative_to(HOME)} {code.co_qualname}")


if __name__ == "__main__":
    main()
