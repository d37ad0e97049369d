"""The access log: a line of JSON for each request on standard output."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from queue import Full, Queue
from typing import Any

import msgspec
from msgspec import Struct
from starlette.types import Scope

from service.http.responses import ResponseWriter
from service.records import format_timestamp

MAX_QUEUED = 10_000  # lines

_encoder = msgspec.json.Encoder()


class Entry(Struct):
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
    """Writes entries in a thread, since a stalled pipe would block the event loop.

    Lines are dropped while more than `MAX_QUEUED` wait for their reader.
    """

    def __init__(self) -> None:
        queue: Queue[Any] = Queue(MAX_QUEUED)
        self._logger = logging.Logger("ratecard.requests", logging.INFO)
        self._logger.addHandler(_DroppingHandler(queue))
        self._listener = QueueListener(queue, logging.StreamHandler(sys.stdout))
        self._listener.start()

    def flush(self) -> None:
        """Write what is queued."""
        self._listener.stop()
        self._listener.start()

    def write(self, scope: Scope, writer: ResponseWriter, seconds: float, snapshot_id: str) -> None:
        """Log a request in ASCII, so that nothing a client sends can control a terminal."""
        target = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogatepass")
        if scope["query_string"]:
            target = b"%b?%b" % (target, scope["query_string"])
        client = scope.get("client")
        entry = Entry(
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
        self._logger.info(_encoder.encode(entry).decode())


class _DroppingHandler(QueueHandler):
    def enqueue(self, record: logging.LogRecord) -> None:
        with suppress(Full):
            self.queue.put_nowait(record)
