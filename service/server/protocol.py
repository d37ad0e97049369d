"""Bounds on connections that uvicorn has no options for.

Overrides callbacks alone: those of `asyncio.Protocol` and of httptools, and the two by which
uvicorn says that a response is complete and that a request is malformed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.errors import BadRequest, RatecardError, SlowClient
from service.http.exception_handlers import encode_error
from service.http.middleware import COMMON_HEADERS

MAX_HEAD = 64 * 1024
"""Bytes of a request line with its headers, and of a chunked body between two pieces of data."""
MAX_FIELDS = 100
"""Header fields of a request: each takes far more memory than its bytes."""
TOO_LARGE = f"the request line and headers exceed {MAX_HEAD} bytes or {MAX_FIELDS} fields"
MAX_PIPELINED = 100
"""Requests of one connection that may wait for their responses."""
DEFAULT_TIMEOUT = 30
"""Seconds, where uvicorn's `timeout_graceful_shutdown` is not set."""
LINGER = 1.0
"""Seconds for a refused client to read the response: closing at once would reset the connection."""

ConnectionState = tuple[int, bool, int, int]
"""Heads completed, whether a request is incomplete, bytes that the client has yet to read, and how
often it read what was waiting."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with a size limit for heads and a timeout for clients.

    Closes a connection after one to two timeouts in which the client neither completes a request
    nor reads its response. Responds to a malformed request after those before it, in JSON, and
    ignores everything after it. Reads no further requests while some wait for their responses.
    """

    _timer: asyncio.TimerHandle
    _heads = 0
    _resumes = 0
    _room = MAX_HEAD  # bytes that the current head may still have
    _is_incomplete = True
    _has_body = False
    _has_ended = False
    _refusal: bytes | None = None

    def __init__(self, config: Any, *args: Any, **options: Any) -> None:
        super().__init__(config, *args, **options)
        self._timeout = config.timeout_graceful_shutdown or DEFAULT_TIMEOUT
        self._cycles: deque[RequestResponseCycle] = deque()  # the running one, then those that wait

    def connection_made(  # type: ignore[override]  # uvicorn narrows the transport, too
        self, transport: asyncio.Transport
    ) -> None:
        """Start the timer."""
        super().connection_made(transport)
        self._check_progress(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers, and tell each request that waits; uvicorn tells the last one alone.

        After a reset uvicorn's timer would keep the last request in memory for KEEP_ALIVE seconds.
        """
        self._timer.cancel()
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        for cycle in self._cycles:
            cycle.disconnected = True
            cycle.message_event.set()
        self.pipeline.clear()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn closes at once: None
        """Keep the connection open for the responses to complete requests.

        An incomplete body never completes: its request is ended now, not after a timeout.
        """
        self._has_ended = True
        return len(self._cycles) > (self._has_body and self._is_incomplete)

    def data_received(self, data: bytes) -> None:
        """Parse at most as many bytes at once as the current head may still have."""
        while data and self._refusal is None:
            piece, data = data[: self._room], data[self._room :]
            self._room -= len(piece)
            super().data_received(piece)
            if not self._room or len(self.headers or ()) > MAX_FIELDS:
                self._refuse(RatecardError(TOO_LARGE, "head_too_large"))

    def resume_writing(self) -> None:
        """Count the progress of a client that reads a long response: its buffer fills up again."""
        self._resumes += 1
        super().resume_writing()

    def on_message_begin(self) -> None:
        """Expect a head."""
        self._is_incomplete = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Start the request, or refuse it; an exception stops the parser."""
        if error := self._fault():
            self._refuse(error)
            raise error
        super().on_headers_complete()
        self._cycles.append(self.cycle)
        self._heads += 1
        self._has_body = True
        self._room = MAX_HEAD

    def on_body(self, body: bytes) -> None:
        """Allow more of the body."""
        self._room = MAX_HEAD
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Expect nothing until the next request begins."""
        self._is_incomplete = self._has_body = False
        self._room = MAX_HEAD
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Start the next request, or refuse the bytes after the last one if they are malformed."""
        self._cycles.popleft()
        super().on_response_complete()
        if self.pipeline:
            self.flow.pause_reading()
        if not self._cycles:
            if self._refusal is not None:
                self._send_refusal()
            elif self._has_ended:
                self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Respond to a malformed request in JSON."""
        self._refuse(BadRequest(f"{msg.rstrip('.')}; send HTTP/1.1"))

    def _fault(self) -> RatecardError | None:
        """Return why the request of the current head is refused, or None."""
        if len(self._cycles) >= MAX_PIPELINED:
            return BadRequest("too many requests wait for their responses")
        if len(self.headers) > MAX_FIELDS:
            return RatecardError(TOO_LARGE, "head_too_large")
        hosts = [name for name, _ in self.headers].count(b"host")
        if hosts > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
            return BadRequest("HTTP/1.1 needs one Host header")
        return None

    def _refuse(self, error: RatecardError) -> None:
        if self._refusal is None:
            # A response amid the body of a request that has its own would answer the next request.
            self._refusal = b"" if self._has_body else encode_response(error)
            if not self._cycles:
                self._send_refusal()

    def _send_refusal(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(self._refusal or b"")
            self.transport.write_eof()
            self._timer.cancel()
            self._timer = self.loop.call_later(LINGER, self.transport.abort)

    def _check_progress(self, earlier: ConnectionState | None) -> None:
        is_incomplete = self._is_incomplete or self._room < MAX_HEAD
        unread = self.transport.get_write_buffer_size()
        state = self._heads, is_incomplete, unread, self._resumes
        if state == earlier and (is_incomplete or unread):
            self.transport.abort()
        else:
            self._timer = self.loop.call_later(self._timeout, self._check_progress, state)


class IgnoreClientFaults(logging.Filter):
    """Drops uvicorn's records of malformed requests, upgrades and slow clients.

    Any client can cause them.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep other errors, and records of other modules."""
        if record.exc_info and isinstance(record.exc_info[1], SlowClient):
            return False
        return record.module != "httptools_impl" or record.levelno > logging.WARNING


def encode_response(error: RatecardError) -> bytes:
    """Encode a whole response that ends the connection."""
    body = encode_error(error)
    headers = [
        *COMMON_HEADERS,
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
    ]
    status = b"HTTP/1.1 %d %b" % (error.status, HTTPStatus(error.status).phrase.encode())
    lines = [status, *(b"%b: %b" % header for header in headers)]
    return b"%b\r\n\r\n%b" % (b"\r\n".join(lines), body)
