"""Origins to follow: a bucket in a folder, and a server of it that fails on demand."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

import msgspec
import obstore

from indexer.publishing.bucket import open_bucket
from indexer.publishing.push import put_copy
from service.artifacts.downloads import DOWNLOADS, read_download
from service.replicas.store import open_store
from service.snapshot.manifest import FORMAT
from tests.support.artifacts import current
from tests.support.running import Json

POINTER = f"pointer-{FORMAT}.json"


def push(
    artifacts: Path,
    bucket: Path,
    sign: Callable[[bytes], str] | None = None,
    **changes: object,
) -> Json:
    """Put the published snapshot into a folder, and its patches; return the pointer."""
    snapshot_id = current(artifacts)
    downloads = artifacts / DOWNLOADS / snapshot_id
    put_copy(open_bucket(f"file://{bucket}"), downloads, datetime.now(UTC))
    download = read_download(downloads)
    digest = download.manifest
    index = hashlib.sha256(msgspec.json.encode(download.patch_index)).hexdigest()
    patches = {"base": download.base, "index": index} if download.base else None
    pointer = {
        "format": FORMAT,
        "id": snapshot_id,
        "manifest": digest,
        "serial": serial_of(bucket) + 1,
        "published_at": datetime.now(UTC).isoformat(),
        "kept": [{"id": snapshot_id, "manifest": digest, "patches": patches}],
    } | changes
    put_pointer(bucket, pointer, sign)
    return pointer


def put_pointer(bucket: Path, pointer: Json, sign: Callable[[bytes], str] | None = None) -> None:
    """Replace the pointer of a folder."""
    text = json.dumps(pointer)
    signature = sign(text.encode()) if sign else None
    content = json.dumps({"pointer": text, "signature": signature})
    fresh = bucket / "pointer.new"
    fresh.write_text(content)
    fresh.replace(bucket / POINTER)


def upload(folder: Path, url: str) -> None:
    """Put what is in a folder into a store, the pointer last."""
    store = open_store(url)
    known = {each["path"] for page in obstore.list(store) for each in page}
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: path.name == POINTER):
        key = path.relative_to(folder).as_posix()
        if key not in known or key == POINTER:
            obstore.put(store, key, path)


def serial_of(bucket: Path) -> int:
    """Return the serial of the pointer, 0 without one."""
    path = bucket / POINTER
    if not path.exists():
        return 0
    serial: int = json.loads(json.loads(path.read_text())["pointer"])["serial"]
    return serial


class OriginServer:
    """Serves the layout of a bucket over HTTP, as another Ratecard does; fails on demand.

    answer_with: a status to answer a path with, as 500, and `body` and `location` with it
    is_endless: whether the body of such an answer never ends
    cut: returns after how many bytes of the body of a path the connection is closed, or None
    spoil: changes the body of a path
    """

    def __init__(self, bucket: Path) -> None:
        self.bucket = bucket
        self.answer_with: Callable[[str], int | None] = lambda _: None
        self.body = b""
        self.location = ""
        self.is_endless = False
        self.cut: Callable[[str], int | None] = lambda _: None
        self.spoil: Callable[[str, bytes], bytes] = lambda _, body: body
        self.requests: list[tuple[str, int]] = []
        """Each path that was asked for, and the bytes of the body that were sent."""
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def bytes_of(self, prefix: str) -> int:
        """Return the bytes that were sent of paths with a prefix."""
        return sum(size for path, size in self.requests if path.startswith(prefix))


@contextmanager
def serve_origin(bucket: Path) -> Iterator[OriginServer]:
    """Serve a folder below `/v1/snapshots/`."""
    origin = OriginServer(bucket)
    handler = type("Handler", (_Handler,), {"origin": origin})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        origin.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield origin
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    origin: OriginServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_HEAD(self) -> None:
        self._respond(with_body=False)

    def do_GET(self) -> None:
        self._respond(with_body=True)

    def _respond(self, *, with_body: bool) -> None:
        path = self.path.removeprefix("/v1/snapshots/")
        status = self.origin.answer_with(path)
        if status and self.origin.is_endless:
            self._send_without_end(status)
            return
        file = self.origin.bucket / path
        if status or not file.is_file():
            headers = {"Location": self.origin.location} if self.origin.location else {}
            body = self.origin.body if status and with_body else b""
            self._send(status or 404, body, len(body), headers)
            return
        content = file.read_bytes()
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        if self.headers.get("If-None-Match") == etag:
            self._send(304, b"")
            return
        headers = {"ETag": etag}
        start, end = 0, len(content)
        if given := self.headers.get("Range"):
            first, _, last = given.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or end) + 1, end)
            if start >= end:
                self._send(416, b"")
                return
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(content)}"
        body = self.origin.spoil(path, content)[start:end]
        self._send(206 if given else 200, body if with_body else b"", len(body), headers)

    def _send_without_end(self, status: int) -> None:
        self.send_response(status)
        self.end_headers()
        self.origin.requests.append((self.path, 0))
        self.close_connection = True
        with suppress(OSError):
            while True:
                self.wfile.write(bytes(1 << 20))
                path, sent = self.origin.requests[-1]
                self.origin.requests[-1] = path, sent + (1 << 20)

    def _send(
        self, status: int, body: bytes, length: int = 0, headers: dict[str, str] | None = None
    ) -> None:
        path = self.path.removeprefix("/v1/snapshots/")
        cut = self.origin.cut(path) if body else None
        sent = body if cut is None else body[:cut]
        self.origin.requests.append((path, len(sent)))
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(sent)
        if cut is not None:
            self.close_connection = True
            self.connection.close()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def cutting_proxy(port: int, limit: Callable[[], int | None]) -> Iterator[str]:
    """Forward connections to a port, and cut each after as many bytes as `limit` returns.

    Yields the URL of the proxy. A connection without a limit is not cut.
    """

    class Forward(StreamRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(("127.0.0.1", port)) as upstream:
                back = threading.Thread(target=copy, args=(self.connection, upstream, None))
                back.start()
                copy(upstream, self.connection, limit())
                for end in (upstream, self.connection):
                    with suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
                back.join()

    class Server(ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Forward) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def copy(source: socket.socket, target: socket.socket, limit: int | None) -> None:
    """Copy bytes until either end is closed, or until so many were copied."""
    with suppress(OSError):
        while limit is None or limit > 0:
            content = source.recv(1 << 16 if limit is None else min(1 << 16, limit))
            if not content:
                break
            target.sendall(content)
            if limit is not None:
                limit -= len(content)
