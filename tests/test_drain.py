"""How the service ends, by request or by accident, and what it does when it cannot keep up."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import httpx
import pytest

from indexer.__main__ import main
from service.app import create_app
from service.overload import INTERVAL
from service.settings import Settings
from tests.conftest import Build
from tests.running import ROOT, eventually, serve, service, write_lines

OTHERS = ("/v1/services?limit=1", "/v1/services/tidewatch-example", "/v1/ecosystem/overview")
SEARCH = "/v1/search/services?q="
EVERYTHING = (*OTHERS, f"{SEARCH}harbour")
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
        return [int(child) for child in children if is_worker(child, pid)]

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


def is_worker(process: str, supervisor: int) -> bool:
    """Whether a child of the supervisor is a copy of it, and alive."""
    commands = [Path(f"/proc/{one}/cmdline") for one in (process, supervisor)]
    try:
        return len({command.read_text() for command in commands}) == 1
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill_worker(started: Running, worker: int) -> None:
    """Returns when the worker is no more."""
    os.kill(worker, signal.SIGKILL)
    eventually(lambda: worker not in started.workers)


def read_all(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    with connection, connection.makefile("rb") as stream:
        return stream.read()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts of which a page of 200 has 20 MB: more than sockets hold for who reads none."""
    folder = tmp_path_factory.mktemp("large")
    records = [service(f"s{n}", name="Harbour", padding="x" * 100_000) for n in range(200)]
    source = write_lines(folder / "large.jsonl", records)
    assert main(["build", source, "--out", str(folder / "artifacts"), "--quiet"]) == 0
    return folder / "artifacts"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_second_sigterm_ends_the_drain(workers: int, sample: Path) -> None:
    with running(sample, "--drain", "600", workers=workers) as started:
        with started.client() as client:
            started.process.terminate()
            eventually(lambda: client.get("/readyz").status_code == 503)
        started.process.terminate()
        eventually(lambda: started.process.poll() is not None, seconds=4)
        assert started.ended() == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_while_draining_only_readiness_is_refused(workers: int, sample: Path) -> None:
    with running(sample, "--drain", "600", workers=workers) as started:
        with started.client() as client:
            assert client.get("/readyz").json()["status"] == "ready"
            started.process.terminate()
            eventually(lambda: started.log.count("draining: not ready for more") == workers)
            for path in [*EVERYTHING, "/healthz", "/metrics"] * workers:
                assert client.get(path).status_code == 200
                refused = client.get("/readyz")
                assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
                assert int(refused.headers["retry-after"]) > 0
        os.killpg(started.process.pid, signal.SIGTERM)
        assert started.ended() == 0


def test_a_drain_ends_by_itself(sample: Path) -> None:
    with running(sample, "--drain", "0.2") as started:
        started.process.terminate()
        assert started.ended() == 0
        assert started.log.count("stopping in 0.2 seconds") == 1
        assert started.refuses()


@pytest.mark.parametrize(
    ("workers", "number"), [(1, signal.SIGTERM), (1, signal.SIGINT), (2, signal.SIGINT)]
)
def test_a_request_in_flight_is_finished(workers: int, number: signal.Signals, large: Path) -> None:
    """SIGINT goes to all processes at once, as Ctrl-C does in a terminal."""
    with running(large, workers=workers) as started, started.client() as client:
        expected = client.get("/v1/services?limit=200", headers=IDENTITY).content
        connection = begin_reading(started)
        os.killpg(started.process.pid, number)
        eventually(lambda: started.log.count("Shutting down") == workers)
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert body == expected
        assert started.ended() == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_nothing_listens_while_what_is_in_flight_is_finished(workers: int, large: Path) -> None:
    with running(large, workers=workers) as started:
        with begin_reading(started):
            started.process.terminate()
            eventually(lambda: started.log.count("Shutting down") == workers)
            eventually(started.refuses, seconds=4)
        assert started.ended() == 0


def test_a_worker_that_dies_is_replaced_while_requests_are_answered(sample: Path) -> None:
    with running(sample, workers=2) as started, started.client() as client:
        victim, survivor = started.workers

        def replaced() -> bool:
            assert client.get("/v1/services").status_code == 200
            return serving(started) > 2

        kill_worker(started, victim)
        eventually(replaced)
        assert len(started.workers) == 2
        assert survivor in started.workers
        started.process.terminate()
        assert started.ended() == 0


def test_a_file_cut_short_under_the_service_ends_it_and_the_next_serves_what_was_before(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a", padding="x" * 100_000)]) == 0
    assert build([service("b", padding="x" * 100_000)]) == 0
    current = (artifacts / "CURRENT").read_text().strip()
    records = artifacts / "snapshots" / current / "records.json"
    with running(artifacts) as started, started.client() as client:
        os.truncate(records, 0)
        with pytest.raises(httpx.TransportError):
            client.get("/v1/services/b")
        assert started.process.wait(30) == -signal.SIGBUS
    with serve(artifacts) as client:
        assert client.get("/v1/services/a").status_code == 200
        ready = client.get("/readyz").json()
        assert ready["refused"]["code"] == "snapshot_damaged"
        assert "records.json has 0 bytes" in ready["refused"]["message"]


def test_new_searches_are_refused_while_the_loop_is_late_and_nothing_else_is(sample: Path) -> None:
    """The process is stopped for a while: to those who wait, that is what a full queue is."""
    with running(sample, "--max-lag", "0.05") as started, started.client() as client:
        eventually(lambda: client.get(f"{SEARCH}known", headers=IDENTITY).status_code == 200)
        os.kill(started.process.pid, signal.SIGSTOP)
        late = time.monotonic() + INTERVAL + 0.1
        new, others = f"{SEARCH}new", (f"{SEARCH}known", *OTHERS)
        waiting = {path: ask(started, path) for path in (new, *others)}
        eventually(lambda: time.monotonic() > late)
        os.kill(started.process.pid, signal.SIGCONT)
        answers = {path: read_all(connection) for path, connection in waiting.items()}
        head, _, body = answers.pop(new).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in head.lower()
        assert json.loads(body)["error"]["code"] == "overloaded"
        assert [answer[:13] for answer in answers.values()] == [b"HTTP/1.1 200 "] * len(others)
        eventually(lambda: client.get(new).status_code == 200)


@pytest.mark.parametrize(("max_lag", "status"), [(0.02, 503), (0, 200)])
def test_how_late_the_loop_may_be_is_a_setting(max_lag: float, status: int, sample: Path) -> None:
    app = create_app(Settings(artifacts=str(sample), max_lag=max_lag))
    new = (f"{SEARCH}{number}" for number in count())

    async def ask_a_blocked_loop() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            assert (await client.get(next(new))).status_code == 200
            time.sleep(INTERVAL + 0.05)  # what blocks the loop
            assert (await client.get(next(new))).status_code == status
            for path in OTHERS:
                assert (await client.get(path)).status_code == 200
            while (await client.get(next(new))).status_code != 200:
                await asyncio.sleep(INTERVAL / 10)

    asyncio.run(asyncio.wait_for(ask_a_blocked_loop(), 30))


def begin_reading(started: Running) -> socket.socket:
    """Ask for the large page; it is on its way when the first byte is there."""
    connection = ask(started, "/v1/services?limit=200")
    assert connection.recv(1, socket.MSG_PEEK) == b"H"
    return connection


def ask(started: Running, path: str) -> socket.socket:
    connection = started.connect()
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    return connection
