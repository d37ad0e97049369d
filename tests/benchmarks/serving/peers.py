"""Bare servers of recorded responses, to compare with.

`uvicorn tests.benchmarks.serving.peers:constant` sends recorded responses of the service, with two
headers of its own; `…:same_headers` sends those of the service. `BENCH_FOLDER` names the folder.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct
from starlette.types import Receive, Scope, Send

FOLDER = Path(os.environ.get("BENCH_FOLDER", "."))
RECORDED = "responses.msgpack"


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


def __getattr__(name: str) -> object:
    """Create the application of this name, for uvicorn."""
    if name in ("constant", "same_headers"):
        recorded = decoder.decode((FOLDER / RECORDED).read_bytes())
        return Constant(recorded, same_headers=name == "same_headers")
    raise AttributeError(name)
