"""The log of requests: a line of JSON for each."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import msgspec
from msgspec import Struct
from starlette.types import Scope

from service.records import format_timestamp

_line = msgspec.json.Encoder()


class Line(Struct):
    """One request: its time in milliseconds, its size in bytes as sent."""

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


class RequestLog:
    """Writes to standard output; what the server itself has to say goes to standard error."""

    def __init__(self) -> None:
        self._log = logging.getLogger("ratecard.requests")
        if not self._log.handlers:
            self._log.addHandler(logging.StreamHandler(sys.stdout))
            self._log.setLevel(logging.INFO)
            self._log.propagate = False

    def write(
        self, scope: Scope, request_id: bytes, route: str, status: int, sent: int, seconds: float
    ) -> None:
        """Write a line, in ASCII, so that nothing a client sends does anything to a terminal."""
        target = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogatepass")
        if scope["query_string"]:
            target = b"%b?%b" % (target, scope["query_string"])
        client, serving = scope.get("client"), scope.get("serving")
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
            snapshot=serving.snapshot.id if serving else "",
        )
        self._log.info("%s", _line.encode(line).decode())
