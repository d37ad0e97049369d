"""An S3 server on this machine: versitygw where `make clients` has built it, otherwise moto's."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import httpx

from tests.support.clients.published import CLIENTS
from tests.support.running import eventually

BUCKET = "catalogue"
VERSITYGW = CLIENTS / "versitygw"
SERVER = "versitygw" if VERSITYGW.exists() else "moto"
INSTALLED = VERSITYGW.exists() or find_spec("moto") is not None


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


@contextmanager
def serve_s3() -> Iterator[S3]:
    """Run a server on a free port, with an empty bucket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = S3(port)
    with tempfile.TemporaryDirectory(prefix="ratecard-s3-") as name:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        if SERVER == "versitygw":
            folder = Path(name)
            (folder / "objects" / BUCKET).mkdir(parents=True)  # a bucket is a folder
            (folder / "metadata").mkdir()
            command = [str(VERSITYGW), "--port", f"127.0.0.1:{port}", "--quiet", "posix"]
            command += ["--sidecar", str(folder / "metadata"), str(folder / "objects")]
        with subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"ROOT_ACCESS_KEY": "key", "ROOT_SECRET_KEY": "secret"},
        ) as process:
            try:
                eventually(server.is_up)
                if SERVER == "moto":
                    httpx.put(f"{server.endpoint}/{BUCKET}").raise_for_status()
                yield server
            finally:
                process.kill()
