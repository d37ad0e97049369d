"""A server that answers as a cluster would: with canned answers, late, or never."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, Any] | str]
"""A status, and a body as JSON or as it is sent."""


class Stub:
    """A running server; `answer` returns the status and the body for a path.

    requests: the method, the path and the body of each request
    most: the largest number of requests that were answered at a time
    authorizations: the credentials of each request
    """

    def __init__(self, answer: Callable[[str], Answer]) -> None:
        self.answer = answer
        self.most = self.running = 0
        self.authorizations: list[str] = []
        self.lock = threading.Lock()
        self.requests: list[tuple[str, str, bytes]] = []
        self.url = ""


@contextmanager
def run_stub(
    answer: Callable[[str], Answer], context: ssl.SSLContext | None = None
) -> Iterator[Stub]:
    """Run a server on a free port, by TLS with a context."""
    stub = Stub(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self.do_POST()

        def do_PUT(self) -> None:
            self.do_POST()

        def do_DELETE(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            with stub.lock:
                stub.requests.append((self.command, self.path, body))
                stub.running += 1
                stub.most = max(stub.most, stub.running)
                stub.authorizations.append(self.headers.get("authorization", ""))
            status, content = stub.answer(self.path)
            text = (content if isinstance(content, str) else json.dumps(content)).encode()
            with stub.lock:
                stub.running -= 1
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # refused handshakes
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    stub.url = f"http{'s' * bool(context)}://127.0.0.1:{server.server_port}"
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
