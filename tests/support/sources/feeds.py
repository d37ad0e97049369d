"""An HTTP server of feeds whose behaviour each test defines, and functions that read one feed."""

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
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from indexer.errors import SourceError
from indexer.intake.fetch import Feed, fetch_feeds
from indexer.intake.http import shown_url
from indexer.intake.kept import LINES_SUFFIX
from indexer.intake.lists import read_records
from indexer.options import Limits, SourceOptions
from tests.support.running import Json, service

CERTIFICATE = Path(__file__).with_name("localhost.pem")

Headers = Mapping[str, str]
NO_HEADERS: Headers = MappingProxyType({})


class Request(NamedTuple):
    """A request as received."""

    query: str
    headers: Message
    target: str
    """The method and the path."""
    body: bytes


class Exchange(BaseHTTPRequestHandler):
    """A request, and methods to respond to it."""

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

    def respond(self, body: Any, status: int = 200, headers: Headers = NO_HEADERS) -> None:
        """Send bytes unchanged, and any other value as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if status != 304:
            self.wfile.write(content)

    def respond_compressed(self, body: bytes) -> None:
        """Send bytes with gzip as the content coding."""
        self.respond(gzip.compress(body), headers={"Content-Encoding": "gzip"})

    def respond_truncated(self, body: bytes, length: int) -> None:
        """Send a shorter body than the content length, and close the connection."""
        self.respond(body, headers={"Content-Length": str(length)})
        self.hang_up()

    def hang_up(self) -> None:
        """Close the connection without a response."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def drip(self, start: bytes, piece: bytes) -> None:
        """Send the start, then a piece every 10 ms until the client closes the connection."""
        self.wfile.write(start)
        while not self.server.closing.wait(0.01):
            self.wfile.write(piece)

    def do_GET(self) -> None:
        url, length = urlsplit(self.path), int(self.headers["Content-Length"] or 0)
        target, body = f"{self.command} {url.path}", self.rfile.read(length)
        self.server.requests.append(Request(url.query, self.headers, target, body))
        self.server.behaviour(self)

    do_POST = do_GET  # noqa: N815  # the name that http.server calls

    def log_message(self, *_: object) -> None: ...


Behaviour = Callable[[Exchange], None]


class Server(ThreadingHTTPServer):
    """A server that records its requests in order."""

    daemon_threads = False  # closing the server joins them

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.behaviour = behaviour
        self.requests: list[Request] = []
        self.closing = threading.Event()
        self.errors: list[BaseException] = []

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
        """Record errors of behaviours, except for closed connections."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):
            self.errors.append(error)


def self_signed() -> ssl.SSLContext:
    """Return the TLS of a server with a certificate of its own, for localhost."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    return context


@contextmanager
def misbehaving(behaviour: Behaviour, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Run a server that responds to every request with this behaviour."""
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
    assert server.errors == []


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Use one behaviour for each request in order, and the last for all later requests."""
    remaining = list(behaviours)

    def behave(exchange: Exchange) -> None:
        (remaining.pop(0) if len(remaining) > 1 else remaining[0])(exchange)

    return behave


def failing(status: int, headers: Headers = NO_HEADERS) -> Behaviour:
    """Respond with an error status."""
    return lambda exchange: exchange.respond({"error": "x"}, status, headers)


def sending(body: Any, headers: Headers = NO_HEADERS) -> Behaviour:
    """Respond with the same body to every request."""
    return lambda exchange: exchange.respond(body, headers=headers)


def redirecting(location: str, status: int = 302) -> Behaviour:
    """Respond with a redirect."""
    return lambda exchange: exchange.respond(b"", status, {"Location": location})


def pages_of(
    items: Sequence[Any], most: int = 10, name: str = "items", headers: Headers = NO_HEADERS
) -> Behaviour:
    """Serve pages of at most `most` items, with pagination as in x402 discovery or Ratecard."""

    def behave(exchange: Exchange) -> None:
        limit, offset = min(exchange.limit(most), most), exchange.offset
        page = {name: list(items[offset : offset + limit])}
        pagination = {"total": len(items), "limit": limit, "offset": offset}
        exchange.respond(
            page | (pagination if name == "services" else {"pagination": pagination}),
            headers=headers,
        )

    return behave


def validated(items: Sequence[Any], tag: str = '"one"', **headers: str) -> Behaviour:
    """Serve pages with an ETag, and 304 to conditional requests that match it."""
    pages = pages_of(items, headers={"ETag": tag} | headers)

    def behave(exchange: Exchange) -> None:
        if exchange.headers["If-None-Match"] == tag:
            exchange.respond(b"", 304, {"ETag": tag} | headers)
        else:
            pages(exchange)

    return behave


QUICK = Limits(seconds=30, backoff=0.001, attempts=3)


def resource(number: int, **fields: Any) -> Json:
    """Return a minimal discovered resource."""
    return {"resource": f"https://a.example/{number}", "accepts": [{"amount": "1"}]} | fields


RESOURCES = [resource(number) for number in range(25)]
SERVICES = [service(f"s{number}") for number in range(25)]
LINES = b"".join(json.dumps(record).encode() + b"\n" for record in SERVICES)
WHOLE = pages_of(RESOURCES)


def source_of(url: str, **fields: Any) -> SourceOptions:
    """Return a source that is walked each time it is read, unless `every` says otherwise."""
    source = SourceOptions(name=shown_url(url), url=url, every=0)
    return msgspec.structs.replace(source, **fields)


def fetch_feed(
    source: str | SourceOptions, cache: Path, limits: Limits = QUICK, *, from_scratch: bool = False
) -> Feed:
    """Read one feed."""
    source = source_of(source) if isinstance(source, str) else source
    [feed] = fetch_feeds([source], cache, limits, from_scratch=from_scratch)
    if isinstance(feed, SourceError):
        raise feed
    return feed


def items_of(feed: Feed) -> list[Any]:
    """Return the records of a feed."""
    records = read_records(str(feed.path), is_lines=feed.path.suffix == LINES_SUFFIX)
    return [json.loads(record.text) for record in records]


def failure(behaviour: Behaviour, cache: Path, limits: Limits = QUICK) -> str:
    """Return the error of a feed that cannot be read, after checking that the cache is empty."""
    with misbehaving(behaviour) as server:
        with pytest.raises(SourceError) as raised:
            fetch_feed(server.url, cache, limits)
        assert str(raised.value).startswith(server.origin)
    assert [path for path in cache.rglob("*") if path.is_file()] == []
    return str(raised.value)
