"""A good client beside forty hostile ones, behind the documented nginx.

It notices no more of them than of honest searchers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np
import pytest

from tests.support.gateways import BOUNDS, INSTANCES, TWO_SERVICES, nginx
from tests.support.hostile_clients import HOSTILE, WORDS, search
from tests.support.memory import anonymous_memory
from tests.support.processes import ServiceProcess, run_service
from tests.support.running import ROOT, SOAK, Json, endpoint, run_indexer, service, write_lines

SECONDS = float(os.environ.get("RATECARD_SOAK_SECONDS", "600" if SOAK else "2"))
"""How long the hostile clients run; the honest ones run a tenth of it, at least as long as 10 s."""
IS_LONG = SECONDS >= 20
"""Whether times and memory are compared: other work disturbs a short run, and memory has yet to
settle."""
CLIENTS = 40
MAX_RATIO = 1.5
"""Of the 99th percentiles of the good client's times."""
MIN_ANSWERED = 0.999
MAX_GROWTH = 16 << 20
"""Bytes of anonymous memory that the second half of the time may add."""
SERVICES, ENDPOINTS = 1500, 1000
CACHE_BYTES = 8 << 20


class Times(NamedTuple):
    """Seconds of each response to the good client, and how many responses were not 200."""

    seconds: list[float]
    failures: int

    @property
    def p99(self) -> float:
        return float(np.percentile(self.seconds, 99))


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish services of which a page of 200 has some megabytes, and one of many endpoints."""
    folder = tmp_path_factory.mktemp("hostile")
    rng = np.random.default_rng(1)
    records = [
        service(
            f"s{number}",
            name=" ".join(rng.choice(WORDS, 3)),
            description=" ".join(rng.choice(WORDS, 200)),
            unknown=rng.bytes(5000).hex(),
        )
        for number in range(SERVICES)
    ]
    described: list[Json] = [
        endpoint() | {"description": " ".join(rng.choice(WORDS, 100))} for _ in range(ENDPOINTS)
    ]
    records.append(service("many", endpoints=described))
    source = write_lines(folder / "services.jsonl", records)
    out = ("--out", folder / "artifacts", "--jobs", "1", "--quiet")
    process = run_indexer("build", source, *out)
    assert process.returncode == 0, process.stderr
    return folder / "artifacts"


@contextmanager
def clients(port: int, seconds: float, names: Sequence[str]) -> Iterator[None]:
    """Run clients of these kinds in a process of their own."""
    program = "tests.support.hostile_clients"
    command = [sys.executable, "-m", program, str(port), str(seconds), *names]
    with subprocess.Popen(command, cwd=ROOT) as process:
        yield
        assert process.wait() == 0


def visit(server: ServiceProcess, port: int, seconds: float, memory: list[int]) -> Times:
    """Send one request after another, and sample the memory of the service between them."""
    times, failures = [], 0
    numbers = count()
    end = time.monotonic() + seconds
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        while time.monotonic() < end:
            number = next(numbers)
            for path in (
                f"/v1/search/services?q=weather+{number}",
                f"/v1/services?offset={number % SERVICES}",
                f"/v1/services/s{number % SERVICES}",
                "/healthz",
            ):
                started = time.perf_counter()
                status = client.get(path).status_code
                times.append(time.perf_counter() - started)
                failures += status != 200
            memory.append(anonymous_memory(server.pid))
            time.sleep(0.05)  # within the rate of the gateway
    return Times(times, failures)


@pytest.mark.soak
def test_a_good_client_notices_no_more_of_hostile_clients_than_of_honest_ones(
    artifacts: Path, tmp_path: Path
) -> None:
    honest = [search.__name__] * CLIENTS
    hostile = [client.__name__ for client in HOSTILE] * (CLIENTS // len(HOSTILE))
    options = ("--mcp", "--cache-bytes", str(CACHE_BYTES))
    memory: list[int] = []
    with (
        run_service(artifacts, *options) as server,
        nginx(
            tmp_path / "nginx",
            BOUNDS + INSTANCES,
            dict.fromkeys(TWO_SERVICES, f"127.0.0.1:{server.port}"),
        ) as gateway,
    ):
        port = gateway.base_url.port or 80
        seconds = max(SECONDS / 10, min(SECONDS, 10))
        with clients(port, seconds, honest):
            beside_honest = visit(server, port, seconds, [])
        with clients(port, SECONDS, hostile):
            beside_hostile = visit(server, port, SECONDS, memory)
        log = server.log
    assert "Traceback" not in log
    assert "ERROR" not in log
    assert beside_hostile.failures <= (1 - MIN_ANSWERED) * len(beside_hostile.seconds)
    if IS_LONG:
        half = len(memory) // 2
        assert max(memory[half:]) < max(memory[:half]) + MAX_GROWTH
        assert beside_hostile.p99 < MAX_RATIO * beside_honest.p99
