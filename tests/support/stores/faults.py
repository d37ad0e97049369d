"""A proxy in front of any HTTP origin that fails by a plan."""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "date", "server"}


class Fault(NamedTuple):
    """The fault of a request.

    status: answer this; nothing reaches the origin
    lost: the origin gets the request, and the connection is closed instead of its answer
    cut: the connection is closed after so many bytes of the body of the answer
    truncate: the body of the answer ends after so many bytes, and its head says so
    delay: wait so many seconds first
    """

    status: int | None = None
    lost: bool = False
    cut: int | None = None
    truncate: int | None = None
    delay: float = 0


NONE = Fault()
Plan = Callable[[str, str], Fault]
"""The fault of a request, by its method and path."""


def random_plan(seed: int, rate: float, faults: Sequence[Fault] = ()) -> Plan:
    """Return a plan by which a share of all requests fail, in an order that the seed decides."""
    generator = random.Random(seed)  # noqa: S311  # not for cryptography
    lock = threading.Lock()

    def plan(_method: str, _path: str) -> Fault:
        with lock:
            if generator.random() >= rate:
                return NONE
            return generator.choice(faults) if faults else _any_fault(generator)

    return plan


def _any_fault(generator: random.Random) -> Fault:
    return generator.choice(
        [
            Fault(status=500),
            Fault(status=503),
            Fault(lost=True),
            Fault(cut=generator.randrange(5000)),
            Fault(delay=0.05),
        ]
    )


class FaultProxy:
    """A running proxy: `plan` may be replaced at any time, `requests` has what was asked."""

    def __init__(self, origin: str) -> None:
        self.origin = urlsplit(origin)
        self.plan: Plan = lambda _method, _path: NONE
        self.requests: list[tuple[str, str, Fault]] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def fault_of(self, method: str, path: str) -> Fault:
        """Return what happens to a request, and keep it in mind."""
        fault = self.plan(method, path)
        self.requests.append((method, path, fault))
        return fault


@contextmanager
def run_fault_proxy(origin: str) -> Iterator[FaultProxy]:
    """Run a proxy of an origin on a free port; it passes everything until it gets a plan."""
    proxy = FaultProxy(origin)
    handler = type("Handler", (_Handler,), {"proxy": proxy})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        proxy.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    proxy: FaultProxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 60

    def do_GET(self) -> None:
        self._pass_on()

    def do_HEAD(self) -> None:
        self._pass_on()

    def do_PUT(self) -> None:
        self._pass_on()

    def do_POST(self) -> None:
        self._pass_on()

    def do_DELETE(self) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        # The whole body is read before anything is answered, so that no reset hides the answer.
        size = int(self.headers.get("Content-Length", 0))
        try:
            body = self.rfile.read(size)
        except OSError:
            body = b""
        if len(body) < size:
            self._close()  # the client was killed
            return
        fault = self.proxy.fault_of(self.command, self.path)
        time.sleep(fault.delay)
        try:
            if fault.status is not None:
                self._respond(fault.status, [], b"fault")
                return
            status, headers, answer = self._forward(body)
            if fault.lost:
                self._close()
                return
            if fault.truncate is not None:
                answer = answer[: fault.truncate]
            self._respond(status, headers, answer, fault.cut)
        except (OSError, http.client.HTTPException):
            self._close()  # the client or the origin is gone

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        # The header Host stays what the client signed.
        host, port = self.proxy.origin.hostname, self.proxy.origin.port
        assert host is not None
        connection = http.client.HTTPConnection(host, port, timeout=60)
        try:
            connection.putrequest(
                self.command, self.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in self.headers.items():
                if name.lower() not in HOP_BY_HOP - {"date"}:
                    connection.putheader(name, value)
            connection.endheaders(body or None)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()

    def _respond(
        self, status: int, headers: list[tuple[str, str]], body: bytes, cut: int | None = None
    ) -> None:
        self.send_response(status)
        length = str(len(body))
        for name, value in headers:
            if self.command == "HEAD" and name.lower() == "content-length":
                length = value
            elif name.lower() not in HOP_BY_HOP | {"content-length"}:
                self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body if cut is None else body[:cut])
        if cut is not None and cut < len(body):
            self._close()

    def _close(self) -> None:
        self.close_connection = True
        self.connection.close()

    def log_message(self, *_: object) -> None:
        """Say nothing."""
