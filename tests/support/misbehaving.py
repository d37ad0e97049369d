"""An HTTP server of feeds on a free port, whose behaviour each test defines."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

Headers = Mapping[str, str]
NO_HEADERS: Headers = MappingProxyType({})


class Request(NamedTuple):
    """A request as received."""

    query: str
    headers: Message


class Exchange(BaseHTTPRequestHandler):
    """A request and the means to answer it."""

    protocol_version = "HTTP/1.1"
    timeout = 10
    disable_nagle_algorithm = True
    server: Server

    @property
    def parameters(self) -> dict[str, str]:
        return {name: values[-1] for name, values in parse_qs(urlsplit(self.path).query).items()}

    @property
    def offset(self) -> int:
        return int(self.parameters.get("offset", "0"))

    def limit(self, default: int) -> int:
        return int(self.parameters.get("limit", default))

    def answer(self, body: Any, status: int = 200, headers: Headers = NO_HEADERS) -> None:
        """Send bytes unchanged, and any other value as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if status != 304:
            self.wfile.write(content)

    def compressed(self, body: bytes) -> None:
        """Send bytes with gzip as the content coding."""
        self.answer(gzip.compress(body), headers={"Content-Encoding": "gzip"})

    def cut(self, body: bytes, length: int) -> None:
        """Announce a longer body than is sent, and hang up."""
        self.answer(body, headers={"Content-Length": str(length)})
        self.hang_up()

    def hang_up(self) -> None:
        """Close the connection without an answer."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def drip(self, start: bytes, drop: bytes) -> None:
        """Send a start, then one drop after another until the client hangs up."""
        self.wfile.write(start)
        while not self.server.closing.wait(0.01):
            self.wfile.write(drop)

    def do_GET(self) -> None:
        self.server.requests.append(Request(urlsplit(self.path).query, self.headers))
        self.server.behaviour(self)

    def log_message(self, *_: object) -> None: ...


Behaviour = Callable[[Exchange], None]


class Server(ThreadingHTTPServer):
    """A server that records its `requests` in order."""

    daemon_threads = False  # closing the server joins them

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.behaviour = behaviour
        self.requests: list[Request] = []
        self.closing = threading.Event()
        self.faults: list[BaseException] = []

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def url(self) -> str:
        return f"{self.origin}/discovery/resources"

    @property
    def queries(self) -> list[str]:
        """The query strings of all requests."""
        return [request.query for request in self.requests]

    def handle_error(self, *_: object) -> None:
        """Record errors of behaviours; a client that hangs up is not one."""
        fault = sys.exception()
        if fault is not None and not isinstance(fault, ConnectionError):
            self.faults.append(fault)


@contextmanager
def misbehaving(behaviour: Behaviour, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Run a server that answers every request with this behaviour."""
    with Server(behaviour) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()
    assert server.faults == []


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Use one behaviour for each request in order, and the last for all that follow."""
    left = list(behaviours)

    def behave(exchange: Exchange) -> None:
        (left.pop(0) if len(left) > 1 else left[0])(exchange)

    return behave


def failing(status: int, headers: Headers = NO_HEADERS) -> Behaviour:
    """Answer with an error status."""
    return lambda exchange: exchange.answer({"error": "x"}, status, headers)


def saying(body: Any, headers: Headers = NO_HEADERS) -> Behaviour:
    """Answer with the same body, whatever the request."""
    return lambda exchange: exchange.answer(body, headers=headers)


def redirecting(location: str, status: int = 302) -> Behaviour:
    """Answer with a redirect."""
    return lambda exchange: exchange.answer(b"", status, {"Location": location})


def pages_of(
    items: Sequence[Any], most: int = 10, name: str = "items", headers: Headers = NO_HEADERS
) -> Behaviour:
    """Serve pages of at most `most` items, with the pagination that such servers state."""

    def behave(exchange: Exchange) -> None:
        limit, offset = min(exchange.limit(most), most), exchange.offset
        page = {name: list(items[offset : offset + limit])}
        where = {"total": len(items), "limit": limit, "offset": offset}
        exchange.answer(
            page | (where if name == "services" else {"pagination": where}), headers=headers
        )

    return behave


def validated(items: Sequence[Any], tag: str = '"one"', **headers: str) -> Behaviour:
    """Serve pages with an ETag, and 304 to requests that send it back."""
    pages = pages_of(items, headers={"ETag": tag} | headers)

    def behave(exchange: Exchange) -> None:
        if exchange.headers["If-None-Match"] == tag:
            exchange.answer(b"", 304, {"ETag": tag} | headers)
        else:
            pages(exchange)

    return behave
