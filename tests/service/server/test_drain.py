"""How the service ends, by request or by accident, and what it does when it cannot keep up."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from itertools import count
from pathlib import Path

import httpx
import pytest

from indexer.__main__ import main
from service.app import create_app
from service.http.load_shedding import INTERVAL
from service.settings import Settings
from tests.support.processes import IDENTITY, Running, kill_worker, running, serving
from tests.support.running import Build, eventually, serve, service, write_lines

OTHERS = ("/v1/services?limit=1", "/v1/services/tidewatch-example", "/v1/ecosystem/overview")
SEARCH = "/v1/search/services?q="
EVERYTHING = (*OTHERS, f"{SEARCH}harbour")


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
        os.killpg(started.process.pid, signal.SIGTERM)
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


def test_nothing_listens_while_what_is_in_flight_is_finished(large: Path) -> None:
    with running(large) as started:
        with begin_reading(started):
            started.process.terminate()
            eventually(lambda: "Shutting down" in started.log)
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
