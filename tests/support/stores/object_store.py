"""An S3 server on this machine: versitygw where `make servers` built it, otherwise moto's."""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.support.running import ROOT, eventually

VERSITYGW = next(
    (
        path
        for folder in (ROOT / "build", ROOT.parent)
        if (path := folder / "servers/versitygw").exists()
    ),
    None,
)
SERVER = "versitygw" if VERSITYGW else "moto"
BUCKET = "ratecard"
REGION = "us-east-1"
ATTEMPTS = 5
UNTIL_STDIN_ENDS = """
exec 3<&0
"$@" < /dev/null 3<&- &
server=$!
{ read -r _ <&3; kill -9 $server; } 2> /dev/null &
wait $server
"""
"""A shell that runs a command until its standard input ends, also when pytest is killed."""


class ObjectStore(NamedTuple):
    """A running S3 server with an empty bucket."""

    server: str
    """The program: `versitygw` or `moto`."""
    endpoint: str
    access_key: str
    secret_key: str
    objects: Path
    """Where versitygw keeps the objects, as files whose time is when they were put."""

    def url(self, prefix: str) -> str:
        """Return the URL of a prefix of the bucket."""
        return f"s3://{BUCKET}/{prefix}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead a client to the server."""
        return self.environment_of(self.endpoint)

    def environment_of(self, endpoint: str) -> dict[str, str]:
        """Return the variables that lead a client to the server, through another address."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": REGION,
        }


@contextmanager
def run_object_store(folder: Path) -> Iterator[ObjectStore]:
    """Run an S3 server that keeps its objects in a folder; it ends with this process."""
    keys = secrets.token_hex(10).upper(), secrets.token_hex(20)
    start = _start_versitygw if VERSITYGW else _start_moto
    for attempt in range(ATTEMPTS):
        port = _free_port()
        process = start(folder, port, *keys)
        try:
            eventually(lambda: process.poll() is not None or _answers(port))  # noqa: B023
            if process.poll() is None:
                store = ObjectStore(
                    SERVER, f"http://127.0.0.1:{port}", *keys, folder / "objects" / BUCKET
                )
                if not VERSITYGW:
                    httpx.put(f"{store.endpoint}/{BUCKET}", trust_env=False).raise_for_status()
                yield store
                return
        finally:
            process.communicate()
        assert attempt + 1 < ATTEMPTS, (folder / "log").read_text()


def _start_versitygw(
    folder: Path, port: int, access_key: str, secret_key: str
) -> subprocess.Popen[bytes]:
    for name in (f"objects/{BUCKET}", "metadata"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    command = [str(VERSITYGW), "--port", f"127.0.0.1:{port}", "--region", REGION, "--quiet"]
    backend = ["posix", "--sidecar", str(folder / "metadata"), str(folder / "objects")]
    return _start(folder, *command, *backend, access_key=access_key, secret_key=secret_key)


def _start_moto(folder: Path, port: int, *_: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    return _start(folder, *command)


def _start(
    folder: Path, *command: str, access_key: str = "", secret_key: str = ""
) -> subprocess.Popen[bytes]:
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            ["/bin/sh", "-c", UNTIL_STDIN_ENDS, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={"ROOT_ACCESS_KEY": access_key, "ROOT_SECRET_KEY": secret_key},
        )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True
