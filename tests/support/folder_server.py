"""A static host of a folder over HTTP, which fails on demand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple


class Served(NamedTuple):
    """A request: its path, the first byte of its range, and the bytes that were sent."""

    path: str
    start: int
    bytes: int


class FolderServer:
    """Serves the files of a folder.

    status: of the answer for a path, None for the file
    cut: after how many bytes of a body the connection is closed, None for a whole one
    spoil: changes the body of a path
    location: of a redirect, `*` for the name of the file
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self.status: Callable[[str], int | None] = lambda _: None
        self.cut: Callable[[str], int | None] = lambda _: None
        self.spoil: Callable[[str, bytes], bytes] = lambda _, body: body
        self.has_ranges = True
        self.location = ""
        self.served: list[Served] = []
        self.targets: list[str] = []
        self.authorizations: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/current.json"

    def bytes_of(self, suffix: str) -> int:
        """Return the bytes that were sent of paths with a suffix."""
        return sum(each.bytes for each in self.served if each.path.endswith(suffix))


@contextmanager
def serve_folder(folder: Path) -> Iterator[FolderServer]:
    """Serve a folder on a free port."""
    origin = FolderServer(folder)
    handler = type("Handler", (_Handler,), {"origin": origin})
    with _Server(("127.0.0.1", 0), handler) as server:
        origin.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield origin
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that close their connections."""


class _Handler(BaseHTTPRequestHandler):
    origin: FolderServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        origin, path = self.origin, self.path.partition("?")[0].lstrip("/")
        origin.targets.append(self.path)
        origin.authorizations.append(self.headers["Authorization"])
        file, status = origin.folder / path, origin.status(path)
        if status or not file.is_file():
            self._send(path, status or 404, b"")
            return
        body, start = origin.spoil(path, file.read_bytes()), 0
        given = self.headers["Range"] if origin.has_ranges else None
        if given is not None:
            start = int(given.removeprefix("bytes=").rstrip("-"))
            if start >= len(body):
                self._send(path, 416, b"", start)
                return
        self._send(path, 200 if given is None else 206, body[start:], start)

    def _send(self, path: str, status: int, body: bytes, start: int = 0) -> None:
        cut = self.origin.cut(path)
        sent = body if cut is None else body[:cut]
        self.origin.served.append(Served(path, start, len(sent)))
        self.send_response(status)
        if self.origin.location:
            self.send_header("Location", self.origin.location.replace("*", Path(path).name))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(sent)
        if cut is not None:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""
