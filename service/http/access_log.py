"""The access log: a line of JSON for each request on standard output."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from msgspec import Struct
from starlette.types import Scope

from service.http.line_writer import STDOUT, LineWriter
from service.http.responses import ResponseWriter
from service.schema.values import format_timestamp

_encoder = msgspec.json.Encoder()


class LogEntry(Struct):
    """One request; `ms` is its duration in milliseconds, `bytes` the size of the body sent."""

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


class AccessLog:
    """Writes entries to standard output."""

    def __init__(self) -> None:
        self._writer = LineWriter(STDOUT)

    def flush(self) -> None:
        """Write what is queued, but give up on a pipe that nobody reads."""
        self._writer.flush()

    def write(self, scope: Scope, writer: ResponseWriter, seconds: float, snapshot_id: str) -> None:
        """Log a request in ASCII, so that nothing a client sends can control a terminal."""
        target = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogatepass")
        if scope["query_string"]:
            target = b"%b?%b" % (target, scope["query_string"])
        client = scope.get("client")
        entry = LogEntry(
            time=format_timestamp(datetime.now(UTC)),
            id=writer.request_id.decode(),
            client=client[0].encode("ascii", "backslashreplace").decode() if client else "",
            method=scope["method"],
            target=target.decode("ascii", "backslashreplace"),
            route=writer.route,
            status=writer.status,
            bytes=0 if scope["method"] == "HEAD" else writer.size,
            ms=round(seconds * 1000, 3),
            snapshot=snapshot_id,
        )
        self._writer.write(_encoder.encode(entry) + b"\n")
