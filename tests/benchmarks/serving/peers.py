"""Servers to compare with: constant responses, and a naive implementation.

`uvicorn tests.benchmarks.serving.peers:constant` sends recorded responses of the service, with two
headers of its own; `…:same_headers` sends those of the service; `…:naive` is Starlette with plain
Whoosh and `JSONResponse`. `BENCH_FOLDER` names the folder.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from whoosh import index
from whoosh.qparser import MultifieldParser, OrGroup

from service.api.query_string import DEFAULT_LIMIT

FOLDER = Path(os.environ.get("BENCH_FOLDER", "."))
RECORDED = "responses.msgpack"
FIELDS = ["name", "description", "category"]


class Recorded(Struct):
    """A response of the service to a target."""

    path: str
    query: bytes
    headers: list[tuple[str, str]]
    body: bytes


decoder = msgspec.msgpack.Decoder(list[Recorded])


class Constant:
    """A bare ASGI application, as the upper bound for a server in Python."""

    def __init__(self, recorded: list[Recorded], *, same_headers: bool) -> None:
        self._responses = {}
        for each in recorded:
            pairs = [("content-type", "application/json"), ("content-length", str(len(each.body)))]
            headers = [
                (name.encode(), value.encode())
                for name, value in (each.headers if same_headers else pairs)
            ]
            self._responses[each.path, each.query] = (
                {"type": "http.response.start", "status": 200, "headers": headers},
                {"type": "http.response.body", "body": each.body},
            )

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the response to this target."""
        if scope["type"] == "http":
            start, body = self._responses[scope["path"], scope["query_string"]]
            await send(start)
            await send(body)


def make_naive(folder: Path) -> Starlette:
    """Return an application that searches with Whoosh and encodes every response anew."""
    with (folder / "services.jsonl").open() as file:
        records = [json.loads(line) for line in file]
    positions = {record["id"]: number for number, record in enumerate(records)}
    searcher = index.open_dir(folder / "whoosh").searcher()
    parser = MultifieldParser(FIELDS, searcher.schema, group=OrGroup)

    async def fetch(request: Request) -> JSONResponse:
        return JSONResponse({"service": records[positions[request.path_params["id"]]]})

    async def listing(request: Request) -> JSONResponse:
        limit = int(request.query_params.get("limit", DEFAULT_LIMIT))
        page = {"services": records[:limit], "total": len(records), "limit": limit, "offset": 0}
        return JSONResponse(page)

    async def search(request: Request) -> JSONResponse:
        hits = searcher.search(parser.parse(request.query_params["q"]), limit=DEFAULT_LIMIT)
        services = [records[int(hit["number"])] for hit in hits]
        page = {"services": services, "total": len(hits), "limit": DEFAULT_LIMIT, "offset": 0}
        return JSONResponse(page)

    return Starlette(
        routes=[
            Route("/v1/services", listing),
            Route("/v1/search/services", search),
            Route("/v1/services/{id}", fetch),
        ]
    )


def __getattr__(name: str) -> object:
    """Create the application of this name, for uvicorn."""
    if name in ("constant", "same_headers"):
        recorded = decoder.decode((FOLDER / RECORDED).read_bytes())
        return Constant(recorded, same_headers=name == "same_headers")
    if name == "naive":
        return make_naive(FOLDER)
    raise AttributeError(name)
