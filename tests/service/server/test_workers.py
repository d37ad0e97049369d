"""Workers: how many there are, what each has of its own, and that none is left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.processes import Running, running, serving
from tests.support.running import eventually


@contextmanager
def stopped(process: int) -> Iterator[None]:
    """While the body runs, this process does nothing."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def is_empty(group: int) -> bool:
    """Whether a process group has no process any more."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def ends_without_a_trace(started: Running) -> bool:
    """Whether it exits with 0 and leaves no process and no file behind."""
    assert started.ended() == 0
    eventually(lambda: is_empty(started.process.pid), seconds=4)
    return {path.name for path in started.folder.iterdir()} == {"stdout", "stderr"}


def test_workers_are_added_and_removed(sample: Path) -> None:
    with running(sample, workers=2) as started:
        two = set(started.workers)
        started.process.send_signal(signal.SIGTTIN)
        eventually(lambda: serving(started) == 3)
        three = set(started.workers)
        assert (two < three, len(three)) == (True, 3)
        started.process.send_signal(signal.SIGTTOU)
        eventually(lambda: len(started.workers) == 2)
        with started.client() as client:
            assert client.get("/readyz").status_code == 200
        started.process.terminate()
        assert ends_without_a_trace(started)


def test_all_workers_are_replaced_when_asked_to(sample: Path) -> None:
    with running(sample, workers=2) as started:
        before = set(started.workers)
        started.process.send_signal(signal.SIGHUP)
        eventually(lambda: before.isdisjoint(started.workers) and len(started.workers) == 2)
        with started.client() as client:
            assert client.get("/readyz").status_code == 200
        started.process.terminate()
        assert ends_without_a_trace(started)


def test_workers_have_their_settings_in_common_and_the_ids_of_requests_apart(sample: Path) -> None:
    ids = []
    with running(sample, "--max-age", "7", workers=2) as started:
        for other in started.workers:
            with stopped(other), started.client() as client:
                for _ in range(3):
                    response = client.get("/v1/services?limit=1")
                    assert response.headers["cache-control"] == "public, max-age=7"
                    ids.append(response.headers["x-request-id"])
    assert len(set(ids)) == 6


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_told_to_stop_as_it_begins_does(
    number: signal.Signals, sample: Path
) -> None:
    with running(sample, workers=2) as started:
        with stopped(started.workers[0]):  # its supervisor, once it looks, waits for it
            for each in (signal.SIGUSR1, signal.SIGTTIN, number):
                os.kill(started.process.pid, each)
        assert ends_without_a_trace(started)
        assert "increasing the number" in started.log
