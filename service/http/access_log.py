"""The access log: a line of JSON for each request on standard output."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from starlette.types import Scope

from service.http.responses import ResponseWriter
from service.schema.values import format_timestamp


def access_line(scope: Scope, writer: ResponseWriter, seconds: float, snapshot_id: bytes) -> bytes:
    """Return the line of a request: in ASCII, so that no client can control a terminal.

    `ms` is the duration in milliseconds, `bytes` the size of the body sent.
    """
    target = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogatepass")
    if scope["query_string"]:
        target = b"%b?%b" % (target, scope["query_string"])
    client = scope.get("client")
    entry = {
        "time": format_timestamp(datetime.now(UTC)),
        "id": writer.request_id.decode(),
        "client": client[0].encode("ascii", "backslashreplace").decode() if client else "",
        "method": scope["method"],
        "target": target.decode("ascii", "backslashreplace"),
        "route": writer.route,
        "status": writer.status,
        "bytes": 0 if scope["method"] == "HEAD" else writer.size,
        "ms": round(seconds * 1000, 3),
        "snapshot": snapshot_id.decode(),
    }
    return msgspec.json.encode(entry) + b"\n"
