"""Logs that never block: a queue of lines, and a thread that writes them to a file descriptor."""

from __future__ import annotations

import json
import logging
import os
import time
from contextlib import suppress
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from queue import Full, Queue
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.types import Scope

from service.http.responses import ResponseWriter
from service.schema.values import format_timestamp

MAX_QUEUED = 10_000  # lines
FLUSH_TIMEOUT = 1.0  # seconds
STDOUT, STDERR = 1, 2
QUERY = "ratecard.query"
"""Scope key of the words of a search that has a body."""


class LineHandler(QueueHandler):
    """Queues lines, and drops them while the queue is full. The first line starts the thread."""

    def __init__(self, descriptor: int) -> None:
        self._lines: Queue[logging.LogRecord] = Queue(MAX_QUEUED)
        super().__init__(self._lines)
        self._descriptor = descriptor
        self._listener: QueueListener | None = None

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue a line."""
        with suppress(Full):
            self._lines.put_nowait(record)
        if self._listener is None:
            listener = _LineListener(self._lines, self._descriptor)
            with suppress(RuntimeError):  # too many threads; the next line tries again
                listener.start()
                self._listener = listener

    def flush(self) -> None:
        """Write the queued lines and end the thread; give up on a pipe that nobody reads.

        `logging` calls this when the process exits.
        """
        deadline = time.monotonic() + FLUSH_TIMEOUT
        while self._lines.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(FLUSH_TIMEOUT / 100)
        if self._listener is not None and not self._lines.unfinished_tasks:
            self._listener.stop()
            self._listener = None


class _LineListener(QueueListener):
    """Writes lines without the buffers of `sys`, whose locks the interpreter needs to exit."""

    def __init__(self, queue: Queue[logging.LogRecord], descriptor: int) -> None:
        super().__init__(queue)
        self._descriptor = descriptor

    def handle(self, record: logging.LogRecord) -> None:
        line = record.getMessage().encode("ascii", "backslashreplace") + b"\n"
        with suppress(OSError):  # the reader has gone
            while line:
                line = line[os.write(self._descriptor, line) :]


def log_query(request: Request | None, query: str, cursor: str | None) -> None:
    """Have the access log show the words of a body, unless a cursor asks for a later page."""
    if request is not None and not cursor:  # MCP over standard input has no request
        request.scope[QUERY] = query


def access_record(
    scope: Scope, writer: ResponseWriter, seconds: float, request_id: bytes
) -> logging.LogRecord:
    """Return the access log's line of JSON for a request.

    The line is ASCII, so that no client can control a terminal. `ms` is the duration in
    milliseconds, `bytes` the size of the body sent.
    """
    target = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogatepass")
    if scope["query_string"]:
        target = b"%b?%b" % (target, scope["query_string"])
    client = scope.get("client")
    entry = {
        "time": format_timestamp(datetime.now(UTC)),
        "id": request_id.decode(),
        "client": client[0].encode("ascii", "backslashreplace").decode() if client else "",
        "method": scope["method"],
        "target": target.decode() if target.isascii() else quote(target, "/?&=+%"),
        "route": writer.route,
        "status": writer.status,
        "bytes": 0 if scope["method"] == "HEAD" else writer.size,
        "ms": round(seconds * 1000, 3),
        "snapshot": writer.snapshot_id.decode(),
    }
    if QUERY in scope:
        entry["query"] = msgspec.Raw(json.dumps(scope[QUERY].replace("\x7f", " ")).encode())
    return logging.makeLogRecord({"msg": msgspec.json.encode(entry).decode()})
