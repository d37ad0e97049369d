"""An S3 server on this machine."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import httpx
import obstore
from obstore.store import S3Store

from tests.support.origins import POINTER
from tests.support.running import eventually

BUCKET = "catalogue"
INSTALLED = find_spec("moto") is not None


class S3:
    """A running server with one bucket, and the variables by which clients find it."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self.environment = {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
        }

    def is_up(self) -> bool:
        try:
            return httpx.get(self.endpoint).status_code < 500
        except httpx.TransportError:
            return False

    def upload(self, folder: Path, prefix: str) -> None:
        """Put what is in a folder, the pointer last."""
        store = S3Store(
            BUCKET,
            prefix=prefix,
            access_key_id="key",
            secret_access_key="secret",
            region="us-east-1",
            endpoint=self.endpoint,
            client_options={"allow_http": True},
        )
        known = {each["path"] for page in obstore.list(store) for each in page}
        files = [path for path in folder.rglob("*") if path.is_file()]
        for path in sorted(files, key=lambda path: path.name == POINTER):
            key = path.relative_to(folder).as_posix()
            if key not in known or key == POINTER:
                obstore.put(store, key, path)


@contextmanager
def serve_s3() -> Iterator[S3]:
    """Run moto's server on a free port, with an empty bucket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            server = S3(port)
            eventually(server.is_up)
            httpx.put(f"{server.endpoint}/{BUCKET}").raise_for_status()
            yield server
        finally:
            process.kill()
