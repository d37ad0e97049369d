"""The bound of `--memory`: kept by all processes of a build together, or refused."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from pathlib import Path

import pytest

from indexer.__main__ import main
from indexer.processes.resources import MIB
from tests.support.memory import tree_memory
from tests.support.running import ROOT, Json, endpoint, payment, service, write_lines

MEMORY = 384
"""MiB: the least with which a build has two workers."""
SERVICES = 2_000
INTERVAL = 0.03  # seconds between two samples
WORDS = ["".join(letters) for letters in itertools.product("abcdefghi", repeat=4)]
WEIGHTS = [*itertools.accumulate(1 / rank for rank in range(1, len(WORDS) + 1))]
"""How often words up to each one occur, as in any language."""


def make_service(number: int, seed: int) -> Json:
    """Return a service of 3 KB with five endpoints."""
    rng = random.Random(seed)  # noqa: S311  # no secret
    endpoints = [
        endpoint() | {"url": f"https://s{number}.example/{n}", "description": _text(rng, 40)}
        for n in range(5)
    ]
    domain = f"s{number}.example"
    return service(f"s{number}", domain=domain, description=_text(rng, 100), endpoints=endpoints)


def _text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, cum_weights=WEIGHTS, k=words))


def peak_memory(*arguments: object) -> tuple[float, int]:
    """Run the indexer; return the peak of the MiB of all its processes, and how many there were."""
    command = [sys.executable, "-m", "indexer", *map(str, arguments), "--quiet"]
    peak = most = 0
    with subprocess.Popen(command, cwd=ROOT) as process:
        while process.returncode is None:
            processes = tree_memory(process.pid)
            peak, most = max(peak, sum(processes)), max(most, len(processes))
            try:
                process.wait(INTERVAL)
            except subprocess.TimeoutExpired:
                continue
    assert process.returncode == 0
    return peak / MIB, most


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the memory of a process")
def test_a_build_and_its_workers_stay_within_the_memory_they_are_given(
    tmp_path: Path, artifacts: Path
) -> None:
    payments = tmp_path / "payments.jsonl"
    write_lines(payments, (payment(tx_hash=f"{number:#x}") for number in range(20_000)))
    services = [make_service(number, seed=number) for number in range(SERVICES)]
    for build in (1, 2):
        for number in range(0, SERVICES, 50):
            services[number] = make_service(number, seed=-build * SERVICES - number)
        source = write_lines(tmp_path / f"{build}.jsonl", services)
        options = ("--transactions", payments, "--jobs", 4, "--memory", f"{MEMORY}M")
        peak, processes = peak_memory("build", source, "--out", artifacts, *options)
        assert processes == 4  # with the one that tracks semaphores for Python
        assert peak <= MEMORY


@pytest.mark.parametrize("command", ["build", "check"])
def test_too_little_memory_is_refused_with_what_is_needed(
    command: str, tmp_path: Path, artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_lines(tmp_path / "source.jsonl", [service("a")])
    arguments = [command, source, "--out", str(artifacts), "--memory"]
    assert main([*arguments, "64M"]) == 2
    message = "--memory 64M is less than the 257M that a build of these sources needs"
    assert capsys.readouterr().err == f"error: {message}\n"
    assert main([*arguments, "257M"]) == 0
