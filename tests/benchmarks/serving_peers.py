"""Peers of the service: constant responses, and a naive implementation.

`uvicorn tests.benchmarks.serving_peers:constant` sends the bodies of a folder by file name, with
two headers; `…:same_headers` with those that the service sends; `…:naive` is Starlette with plain
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
    """A bare ASGI application: the least that a server written in Python has to do."""

    def __init__(self, folder: Path, *, same_headers: bool) -> None:
        self._answers = {}
        for path in folder.glob("*.json"):
            body = path.read_bytes()
            pairs = [("content-type", "application/json"), ("content-length", str(len(body)))]
            if same_headers:
                pairs = json.loads(path.with_suffix(".headers").read_bytes())
            headers = [(name.encode(), value.encode()) for name, value in pairs]
            self._answers[f"/{path.name}"] = (
                {"type": "http.response.start", "status": 200, "headers": headers},
                {"type": "http.response.body", "body": body},
            )

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the body that the path names."""
        if scope["type"] == "http":
            start, body = self._answers[scope["path"]]
            await send(start)
            await send(body)


def make_naive(folder: Path) -> Starlette:
    """Records in a list, an index on disk, everything else done for each request."""
    with (folder / "services.jsonl").open() as file:
        records = [json.loads(line) for line in file]
    places = {record["id"]: number for number, record in enumerate(records)}
    searcher = index.open_dir(folder / "whoosh").searcher()
    parser = MultifieldParser(FIELDS, searcher.schema, group=OrGroup)

    async def fetch(request: Request) -> JSONResponse:
        return JSONResponse({"service": records[places[request.path_params["id"]]]})

    async def listing(request: Request) -> JSONResponse:
        limit = int(request.query_params.get("limit", DEFAULT_LIMIT))
        page = {"services": records[:limit], "total": len(records), "limit": limit, "offset": 0}
        return JSONResponse(page)

    async def search(request: Request) -> JSONResponse:
        hits = searcher.search(parser.parse(request.query_params["q"]), limit=DEFAULT_LIMIT)
        found = [records[int(hit["number"])] for hit in hits]
        page = {"services": found, "total": len(hits), "limit": DEFAULT_LIMIT, "offset": 0}
        return JSONResponse(page)

    return Starlette(
        routes=[
            Route("/v1/services", listing),
            Route("/v1/search/services", search),
            Route("/v1/services/{id}", fetch),
        ]
    )


def __getattr__(name: str) -> object:
    """Create the application that uvicorn asks for."""
    if name in ("constant", "same_headers"):
        return Constant(FOLDER, same_headers=name == "same_headers")
    if name == "naive":
        return make_naive(FOLDER)
    raise AttributeError(name)
