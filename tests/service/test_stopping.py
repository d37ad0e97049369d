"""Graceful shutdown, workers and their signals, a crash, and load shedding."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import httpx
import pytest

from service.app import create_app
from service.http.load_shedding import INTERVAL
from service.settings import Settings
from tests.support.processes import (
    IDENTITY,
    REPLACED_WITHIN,
    ServiceProcess,
    count_ready,
    kill_worker,
    run_service,
)
from tests.support.running import (
    ROOT,
    Build,
    build_records,
    eventually,
    serve,
    service,
)

NEVER_SHED = ("/v1/services?limit=1", "/v1/services/tidewatch-example", "/v1/ecosystem/overview")
SEARCH = "/v1/search/services?q="


def read_all(connection: socket.socket) -> bytes:
    """Receive until the server closes the connection."""
    with connection, connection.makefile("rb") as stream:
        return stream.read()


@contextmanager
def stopped(process: int) -> Iterator[None]:
    """Stop a process (SIGSTOP) while the body runs."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def is_empty(group: int) -> bool:
    """Return whether a process group has no process any more."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def stops_cleanly(server: ServiceProcess) -> bool:
    """Return whether the service exits with 0 and leaves no process and no file behind."""
    assert server.wait_for_exit() == 0
    eventually(lambda: is_empty(server.pid))
    return {path.name for path in server.folder.iterdir()} == {"stdout", "stderr"}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts with a page of 20 MB, more than the buffers of a socket hold."""
    records = [service(f"s{n}", name="Harbour", padding="x" * 100_000) for n in range(200)]
    return build_records(tmp_path_factory.mktemp("large"), records)


@pytest.mark.parametrize(
    ("workers", "number"), [(1, signal.SIGTERM), (1, signal.SIGINT), (2, signal.SIGINT)]
)
def test_shutdown_completes_requests_in_flight(
    workers: int, number: signal.Signals, large: Path
) -> None:
    """Signal the whole process group, as a terminal does for Ctrl-C."""
    with run_service(large, workers=workers) as server, server.client() as client:
        expected = client.get("/v1/services?limit=200", headers=IDENTITY).content
        connection = begin_reading(server)
        os.killpg(server.pid, number)
        eventually(lambda: server.log.count("Shutting down") == workers)
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert body == expected
        assert server.wait_for_exit() == 0


def test_ctrl_c_while_the_application_is_imported_is_no_error(sample: Path) -> None:
    program = (
        "import signal, sys, uvicorn; from service.__main__ import main; "
        "uvicorn.main.invoke = lambda _: signal.raise_signal(signal.SIGINT); "
        f"sys.exit(main(['--artifacts', {str(sample)!r}]))"
    )
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_client_that_reads_nothing_does_not_hold_up_the_end(large: Path) -> None:
    with run_service(large, "--timeout-graceful-shutdown", "1") as server, begin_reading(server):
        server.send_signal(signal.SIGTERM)
        assert server.wait() == 0


def test_no_connection_is_accepted_while_requests_in_flight_complete(large: Path) -> None:
    with run_service(large) as server:
        with begin_reading(server):
            server.send_signal(signal.SIGTERM)
            eventually(lambda: "Shutting down" in server.log)
            eventually(server.refuses_connections, seconds=20)
        assert server.wait_for_exit() == 0


def test_a_killed_worker_is_replaced_while_another_serves(sample: Path) -> None:
    with run_service(sample, workers=2) as server, server.client() as client:
        victim, survivor = server.workers

        def is_replaced() -> bool:
            assert client.get("/v1/services").status_code == 200
            return count_ready(server) > 2

        kill_worker(server, victim)
        eventually(is_replaced, REPLACED_WITHIN)
        assert len(server.workers) == 2
        assert survivor in server.workers
        server.send_signal(signal.SIGTERM)
        assert server.wait_for_exit() == 0


def test_sigttin_adds_a_worker_and_sigttou_removes_one(sample: Path) -> None:
    with run_service(sample, workers=2) as server:
        two = set(server.workers)
        server.send_signal(signal.SIGTTIN)
        eventually(lambda: count_ready(server) == 3)
        three = set(server.workers)
        assert (two < three, len(three)) == (True, 3)
        server.send_signal(signal.SIGTTOU)
        eventually(lambda: len(server.workers) == 2)
        with server.client() as client:
            assert client.get("/readyz").status_code == 200
        server.send_signal(signal.SIGTERM)
        assert stops_cleanly(server)


def test_sighup_replaces_all_workers(sample: Path) -> None:
    with run_service(sample, workers=2) as server:
        before = set(server.workers)
        server.send_signal(signal.SIGHUP)
        eventually(lambda: before.isdisjoint(server.workers) and len(server.workers) == 2)
        with server.client() as client:
            assert client.get("/readyz").status_code == 200
        server.send_signal(signal.SIGTERM)
        assert stops_cleanly(server)


def test_workers_share_settings_and_generate_different_request_ids(sample: Path) -> None:
    ids = []
    with run_service(sample, "--max-age", "7", workers=2) as server:
        for other in server.workers:
            with stopped(other), server.client() as client:
                for _ in range(3):
                    response = client.get("/v1/services?limit=1")
                    assert response.headers["cache-control"] == "public, max-age=7"
                    ids.append(response.headers["x-request-id"])
    assert len(set(ids)) == 6


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_still_starting_is_stopped(number: signal.Signals, sample: Path) -> None:
    with run_service(sample, workers=2) as server:
        with stopped(server.workers[0]):  # the supervisor waits for its health check
            for each in (signal.SIGUSR1, signal.SIGTTIN, number):
                server.send_signal(each)
        assert stops_cleanly(server)
        assert "increasing the number" in server.log


def test_workers_end_with_their_supervisor(sample: Path) -> None:
    with run_service(sample, workers=2) as server:
        server.send_signal(signal.SIGKILL)
        eventually(server.refuses_connections)


def test_workers_start_after_the_folder_of_their_metrics_is_removed(sample: Path) -> None:
    with run_service(sample, workers=2) as server, server.client() as client:
        (folder,) = server.folder.glob("ratecard-*")

        def have_counted() -> bool:
            client.get("/healthz")
            return len([*folder.glob("histogram_*.db")]) == 2

        eventually(have_counted)
        shutil.rmtree(folder)
        assert client.get("/metrics").status_code == 200
        server.send_signal(signal.SIGTTIN)
        eventually(lambda: count_ready(server) == 3)
        assert client.get("/metrics").status_code == 200
        assert "Traceback" not in server.log


def test_a_truncated_file_kills_the_service_and_a_restart_serves_the_previous_snapshot(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a", padding="x" * 100_000)]) == 0
    assert build([service("b", padding="x" * 100_000)]) == 0
    current = (artifacts / "CURRENT").read_text().strip()
    records = artifacts / "snapshots" / current / "records.json"
    with run_service(artifacts) as server, server.client() as client:
        os.truncate(records, 0)
        with pytest.raises(httpx.TransportError):
            client.get("/v1/services/b")
        assert server.wait() == -signal.SIGBUS
    with serve(artifacts) as client:
        assert client.get("/v1/services/a").status_code == 200
        ready = client.get("/readyz").json()
        assert ready["refused"]["code"] == "snapshot_damaged"
        assert "records.json has 0 bytes" in ready["refused"]["message"]


def test_while_the_event_loop_lags_only_uncached_searches_are_shed(sample: Path) -> None:
    """Stop the process for a while, which delays requests as a full queue does."""
    with run_service(sample, "--max-lag", "0.05") as server, server.client() as client:
        eventually(lambda: client.get(f"{SEARCH}cached", headers=IDENTITY).status_code == 200)
        server.send_signal(signal.SIGSTOP)
        continue_at = time.monotonic() + INTERVAL + 0.1
        uncached, others = f"{SEARCH}uncached", (f"{SEARCH}cached", *NEVER_SHED)
        connections = {path: request(server, path) for path in (uncached, *others)}
        eventually(lambda: time.monotonic() > continue_at)
        server.send_signal(signal.SIGCONT)
        responses = {path: read_all(connection) for path, connection in connections.items()}
        head, _, body = responses.pop(uncached).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in head.lower()
        assert json.loads(body)["error"]["code"] == "overloaded"
        assert [response[:13] for response in responses.values()] == [b"HTTP/1.1 200 "] * len(
            others
        )
        eventually(lambda: client.get(uncached).status_code == 200)


@pytest.mark.parametrize(("max_lag", "status"), [(0.02, 503), (0, 200)])
def test_the_maximum_lag_is_a_setting(max_lag: float, status: int, sample: Path) -> None:
    app = create_app(Settings(artifacts=str(sample), max_lag=max_lag))
    uncached = (f"{SEARCH}{number}" for number in count())

    async def search_on_a_blocked_loop() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            assert (await client.get(next(uncached))).status_code == 200
            time.sleep(INTERVAL + 0.05)  # blocks the event loop
            assert (await client.get(next(uncached))).status_code == status
            for path in NEVER_SHED:
                assert (await client.get(path)).status_code == 200
            while (await client.get(next(uncached))).status_code != 200:
                await asyncio.sleep(INTERVAL / 10)

    asyncio.run(asyncio.wait_for(search_on_a_blocked_loop(), 30))


def begin_reading(server: ServiceProcess) -> socket.socket:
    """Request the large page, and wait for the first byte of the response."""
    connection = request(server, "/v1/services?limit=200")
    assert connection.recv(1, socket.MSG_PEEK) == b"H"
    return connection


def request(server: ServiceProcess, path: str) -> socket.socket:
    """Send a request on a new connection, without reading the response."""
    connection = server.connect()
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    return connection
