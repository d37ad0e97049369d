"""A real server of feeds on a free port, which does whatever a test tells it to do."""

from __future__ import annotations

import gzip
import json
import socket
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
PLAIN: Headers = MappingProxyType({})


class Request(NamedTuple):
    """What a server was sent."""

    query: str
    headers: Message


class Exchange(BaseHTTPRequestHandler):
    """One request, to be answered or not."""

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

    def answer(self, body: Any, status: int = 200, headers: Headers = PLAIN) -> None:
        """Send bytes as they are and anything else as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if status != 304:
            self.wfile.write(content)

    def compressed(self, body: bytes) -> None:
        self.answer(gzip.compress(body), headers={"Content-Encoding": "gzip"})

    def cut(self, body: bytes, whole: int) -> None:
        """Promise so many bytes and hang up after fewer."""
        self.answer(body, headers={"Content-Length": str(whole)})
        self.hang_up()

    def hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def drip(self, start: bytes, drop: bytes) -> None:
        """Send a little, and then a drop at a time until nobody is there to read it."""
        self.wfile.write(start)
        while not self.server.closing.wait(0.01):
            self.wfile.write(drop)

    def do_GET(self) -> None:
        self.server.requests.append(Request(urlsplit(self.path).query, self.headers))
        self.server.behaviour(self)

    def log_message(self, *_: object) -> None: ...


Behaviour = Callable[[Exchange], None]


class Server(ThreadingHTTPServer):
    """The server; `requests` are those it was sent, in order."""

    daemon_threads = False  # closing waits for them

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
    def asked(self) -> list[str]:
        """The query strings, in order."""
        return [request.query for request in self.requests]

    def handle_error(self, *_: object) -> None:
        """Remember what went wrong, but for clients that hang up, as they should."""
        fault = sys.exception()
        if fault is not None and not isinstance(fault, ConnectionError):
            self.faults.append(fault)


@contextmanager
def misbehaving(behaviour: Behaviour) -> Iterator[Server]:
    """Run a server that answers every request so."""
    with Server(behaviour) as server:
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
    """Answer the first request by the first behaviour, and so on; the last is for all others."""
    left = list(behaviours)

    def behave(exchange: Exchange) -> None:
        (left.pop(0) if len(left) > 1 else left[0])(exchange)

    return behave


def pages_of(
    items: Sequence[Any], most: int = 10, name: str = "items", headers: Headers = PLAIN
) -> Behaviour:
    """Behave well: pages of at most so many items, with pagination as their servers have it."""

    def behave(exchange: Exchange) -> None:
        limit, offset = min(exchange.limit(most), most), exchange.offset
        page = {name: list(items[offset : offset + limit])}
        where = {"total": len(items), "limit": limit, "offset": offset}
        exchange.answer(
            page | (where if name == "services" else {"pagination": where}), headers=headers
        )

    return behave
