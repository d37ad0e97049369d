"""Servers to compare with: constant responses, and a naive implementation.

`uvicorn tests.benchmarks.serving_peers:constant` sends the bodies of a folder by file name, with
two headers; `…:same_headers` sends the headers of the service; `…:naive` is Starlette with plain
Whoosh and `JSONResponse`. `BENCH_FOLDER` names the folder.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from whoosh import index
from whoosh.qparser import MultifieldParser, OrGroup

from service.api.parameters import DEFAULT_LIMIT

FOLDER = Path(os.environ.get("BENCH_FOLDER", "."))
FIELDS = ["name", "description", "category"]


class Constant:
    """A bare ASGI application, as the upper bound for a server in Python."""

    def __init__(self, folder: Path, *, same_headers: bool) -> None:
        self._responses = {}
        for path in folder.glob("*.json"):
            body = path.read_bytes()
            pairs = [("content-type", "application/json"), ("content-length", str(len(body)))]
            if same_headers:
                pairs = json.loads(path.with_suffix(".headers").read_bytes())
            headers = [(name.encode(), value.encode()) for name, value in pairs]
            self._responses[f"/{path.name}"] = (
                {"type": "http.response.start", "status": 200, "headers": headers},
                {"type": "http.response.body", "body": body},
            )

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the body of this path."""
        if scope["type"] == "http":
            start, body = self._responses[scope["path"]]
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
        return Constant(FOLDER, same_headers=name == "same_headers")
    if name == "naive":
        return make_naive(FOLDER)
    raise AttributeError(name)
