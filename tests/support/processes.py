"""Run the service as a supervisor with workers."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

import httpx

from service.serve import main
from tests.support.running import eventually, forked, open_client, plain_environment

IDENTITY = {"Accept-Encoding": "identity"}


class ServiceProcess:
    """A running service (a supervisor, or a single worker) in its own process group."""

    def __init__(self, process: BaseProcess, folder: Path) -> None:
        self.process = process
        self.folder = folder

    @property
    def log(self) -> str:
        """The standard error so far."""
        return (self.folder / "stderr").read_text()

    @property
    def requests(self) -> list[str]:
        """The lines on standard output so far."""
        return (self.folder / "stdout").read_text().splitlines()

    @property
    def port(self) -> int:
        """The port that the service listens on, or 0 before it listens."""
        _, _, address = self.log.partition("running on http://127.0.0.1:")
        return int(address.split()[0]) if address else 0

    @property
    def pid(self) -> int:
        """The process id, and that of the group."""
        assert self.process.pid is not None
        return self.process.pid

    @property
    def workers(self) -> list[int]:
        """The process ids of the present workers."""
        pid = self.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in children if is_worker(child)]

    @property
    def address(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.port}"

    def client(self) -> httpx.Client:
        """Return a client that opens a connection for each request."""
        return open_client(self.address, limits=httpx.Limits(max_keepalive_connections=0))

    def connect(self) -> socket.socket:
        """Open a TCP connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def refuses_connections(self) -> bool:
        """Return whether the port is closed."""
        try:
            self.connect().close()
        except ConnectionRefusedError:
            return True
        return False

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process alone."""
        os.kill(self.pid, number)

    def wait(self) -> int | None:
        """Wait for the exit and return its code, None after 30 seconds."""
        self.process.join(30)
        return self.process.exitcode

    def wait_for_exit(self) -> int | None:
        """Wait for the exit and return its code; fail when the log has an error or a traceback."""
        code = self.wait()
        assert "Traceback" not in self.log
        assert "ERROR" not in self.log
        return code


@contextmanager
def run_service(artifacts: Path, *arguments: str, workers: int = 1) -> Iterator[ServiceProcess]:
    """Run the service in a fork on a free port, and wait until all workers are ready."""
    command = ["--artifacts", str(artifacts), "--port", "0", "--workers", str(workers), *arguments]
    with tempfile.TemporaryDirectory() as name:
        folder, environ = Path(name), plain_environment() | {"TMPDIR": name}
        outputs = folder / "stdout", folder / "stderr"
        for path in outputs:
            path.touch()
        with forked(_lead_group, command, outputs, environ) as process:
            server = ServiceProcess(process, folder)
            try:
                eventually(lambda: count_ready(server) >= workers and server.port > 0)
                yield server
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(server.pid, signal.SIGKILL)


def _lead_group(arguments: list[str]) -> int:
    """Run the service as the leader of a new process group."""
    os.setsid()
    return main(arguments)


def count_ready(server: ServiceProcess) -> int:
    """Return how many workers have completed their startup so far."""
    return server.log.count("Application startup complete")


def is_worker(process: str) -> bool:
    """Return whether a child process of the supervisor is a live worker."""
    try:
        return "spawn_main" in Path(f"/proc/{process}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


REPLACED_WITHIN = 120.0
"""Seconds for a killed worker to be replaced: a supervisor that has just asked whether it is alive
waits `timeout_worker_healthcheck` of `service.serve.DEFAULTS` for the answer."""


def kill_worker(server: ServiceProcess, worker: int) -> None:
    """Kill a worker, and wait until its process is gone."""
    os.kill(worker, signal.SIGKILL)
    eventually(lambda: worker not in server.workers)
