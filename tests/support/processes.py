"""The service as processes: a supervisor and its workers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from tests.support.running import ROOT, eventually

IDENTITY = {"Accept-Encoding": "identity"}


class Running:
    """A process of the service, in a process group of its own."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self.folder = folder

    @property
    def log(self) -> str:
        """What it said on standard error so far."""
        return (self.folder / "stderr").read_text()

    @property
    def requests(self) -> list[str]:
        """The lines on standard output so far."""
        return (self.folder / "stdout").read_text().splitlines()

    @property
    def port(self) -> int:
        """Where it listens, or 0 as long as it does not."""
        _, _, address = self.log.partition("running on http://127.0.0.1:")
        return int(address.split()[0]) if address else 0

    @property
    def workers(self) -> list[int]:
        """The worker processes that it has at the moment."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in children if is_worker(child)]

    def client(self) -> httpx.Client:
        """A client that connects anew for each request."""
        limits = httpx.Limits(max_keepalive_connections=0)
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", limits=limits, timeout=30)

    def connect(self) -> socket.socket:
        """A connection as such."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def refuses(self) -> bool:
        """Whether nothing listens."""
        try:
            self.connect().close()
        except ConnectionRefusedError:
            return True
        return False

    def ended(self) -> int:
        """Its exit code, once it has ended; whatever it was, it was no crash."""
        code = self.process.wait(30)
        assert "Traceback" not in self.log
        assert "ERROR" not in self.log
        return code


@contextmanager
def running(artifacts: Path, *arguments: str, workers: int = 1) -> Iterator[Running]:
    """Run `python -m service` on a free port until all its workers serve."""
    command = [sys.executable, "-m", "service", "--artifacts", str(artifacts), "--port", "0"]
    inherited = {key: os.environ[key] for key in os.environ if not key.startswith("RATECARD_")}
    with (
        tempfile.TemporaryDirectory() as name,
        Path(name, "stdout").open("wb") as stdout,
        Path(name, "stderr").open("wb") as stderr,
        subprocess.Popen(
            [*command, "--workers", str(workers), *arguments],
            cwd=ROOT,
            stdout=stdout,
            stderr=stderr,
            env=inherited | {"TMPDIR": name},
            start_new_session=True,
        ) as process,
    ):
        started = Running(process, Path(name))
        try:
            eventually(lambda: serving(started) >= workers and started.port > 0)
            yield started
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def serving(started: Running) -> int:
    """How many workers have begun to serve so far."""
    return started.log.count("Application startup complete")


def is_worker(process: str) -> bool:
    """Whether a child of the supervisor is a worker, and alive."""
    try:
        return "spawn_main" in Path(f"/proc/{process}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill_worker(started: Running, worker: int) -> None:
    """Returns when the worker is no more."""
    os.kill(worker, signal.SIGKILL)
    eventually(lambda: worker not in started.workers)
