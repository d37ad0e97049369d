"""What is seen of each request: its id, its metrics, its log line."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import count
from typing import Any

import msgspec
from msgspec import Struct
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.metrics import Metrics
from service.records import format_timestamp
from service.responses import header

UNROUTED = "none"

_log = logging.getLogger("uvicorn.error")
_request_id = re.compile(rb"[\w.:/+=@-]{1,128}")
_line = msgspec.json.Encoder()


class Line(Struct):
    """One request in the log: times in milliseconds, sizes in bytes as sent."""

    time: str
    id: str
    client: str
    method: str
    target: str
    route: str
    status: int
    bytes: int
    ms: float
    snapshot: str


class Observed:
    """The outermost layer: whatever happens within, the request is counted and its id returned."""

    def __init__(
        self, app: ASGIApp, routes: Mapping[Any, str], metrics: Metrics, *, log: bool
    ) -> None:
        self._app = app
        self._routes = routes
        self._metrics = metrics
        self._log = _stdout() if log else None
        self._numbers = count(1)
        self._prefix = os.urandom(6).hex().encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the request; what fails unexpectedly within is logged with its id."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = self._id_of(scope)
        status, sent = 500, 0

        async def observe(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"].append((b"x-request-id", request_id))
            else:
                sent += len(message.get("body", b""))
            await send(message)

        self._metrics.in_flight.inc()
        try:
            await self._app(scope, receive, observe)
        except Exception:  # noqa: BLE001  # it was answered with 500 within, and is logged here
            _log.exception("request %s failed", request_id.decode())
        finally:
            self._metrics.in_flight.dec()
            route = self._routes.get(scope.get("endpoint"), UNROUTED)
            seconds = time.perf_counter() - started
            self._metrics.observe(route, status, seconds)
            if self._log is not None:
                self._log.info("%s", _describe(scope, request_id, route, status, sent, seconds))

    def _id_of(self, scope: Scope) -> bytes:
        """The id that a gateway gave the request, if it is harmless, or else one of our own."""
        given = header(scope, b"x-request-id")
        if given and _request_id.fullmatch(given):
            return given
        return b"%b-%x" % (self._prefix, next(self._numbers))


def _describe(
    scope: Scope, request_id: bytes, route: str, status: int, sent: int, seconds: float
) -> str:
    """JSON in ASCII, so that nothing a client sends does anything to a terminal."""
    target = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogatepass")
    if scope["query_string"]:
        target = b"%b?%b" % (target, scope["query_string"])
    snapshot = scope.get("snapshot")
    client = scope.get("client")
    line = Line(
        time=format_timestamp(datetime.now(UTC)),
        id=request_id.decode(),
        client=client[0].encode("ascii", "backslashreplace").decode() if client else "",
        method=scope["method"],
        target=target.decode("ascii", "backslashreplace"),
        route=route,
        status=status,
        bytes=0 if scope["method"] == "HEAD" else sent,
        ms=round(seconds * 1000, 3),
        snapshot=snapshot.id if snapshot else "",
    )
    return _line.encode(line).decode()


def _stdout() -> logging.Logger:
    """The log of requests, a line of JSON each; what the server itself says goes to stderr."""
    log = logging.getLogger("ratecard.requests")
    if not log.handlers:
        log.addHandler(logging.StreamHandler(sys.stdout))
        log.setLevel(logging.INFO)
        log.propagate = False
    return log
