"""The supervisor adds, removes, replaces and stops its workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.processes import ServiceProcess, count_ready, run_service
from tests.support.running import eventually


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
    eventually(lambda: is_empty(server.process.pid))
    return {path.name for path in server.folder.iterdir()} == {"stdout", "stderr"}


def test_sigttin_adds_a_worker_and_sigttou_removes_one(sample: Path) -> None:
    with run_service(sample, workers=2) as server:
        two = set(server.workers)
        server.process.send_signal(signal.SIGTTIN)
        eventually(lambda: count_ready(server) == 3)
        three = set(server.workers)
        assert (two < three, len(three)) == (True, 3)
        server.process.send_signal(signal.SIGTTOU)
        eventually(lambda: len(server.workers) == 2)
        with server.client() as client:
            assert client.get("/readyz").status_code == 200
        server.process.terminate()
        assert stops_cleanly(server)


def test_sighup_replaces_all_workers(sample: Path) -> None:
    with run_service(sample, workers=2) as server:
        before = set(server.workers)
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: before.isdisjoint(server.workers) and len(server.workers) == 2)
        with server.client() as client:
            assert client.get("/readyz").status_code == 200
        server.process.terminate()
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
                os.kill(server.process.pid, each)
        assert stops_cleanly(server)
        assert "increasing the number" in server.log
