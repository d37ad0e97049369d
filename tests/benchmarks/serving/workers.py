"""The cost of an additional worker: its private memory, and the time until it is ready."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from tests.support.running import ROOT

READY = "Application startup complete"
ADDED = 5


def bench_workers(artifacts: Path) -> None:
    """Print the cost of each worker added to two, while these still verify the hashes."""
    command = [sys.executable, "-m", "service", "--artifacts", str(artifacts), "--port", "0"]
    with subprocess.Popen(
        [*command, "--workers", "2"], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as supervisor:
        lines = iter(supervisor.stderr or ())
        try:
            for _ in range(2):
                wait_for_worker(lines)
            times = []
            for _ in range(ADDED):
                started = time.perf_counter()
                supervisor.send_signal(signal.SIGTTIN)
                worker = wait_for_worker(lines)
                times.append(time.perf_counter() - started)
            print(
                f"\none more worker: {private_memory(worker) / 1e6:.0f} MB private, "
                f"ready in {median(times):.2f} s, the slowest of {ADDED} in {max(times):.2f} s"
            )
        finally:
            supervisor.terminate()


def wait_for_worker(lines: Iterator[str]) -> int:
    """Read the log until a worker is ready, and return its process id."""
    worker = 0
    for line in lines:
        match = re.search(r"Started server process \[(\d+)\]", line)
        if match:
            worker = int(match[1])
        if READY in line:
            return worker
    raise SystemExit("the service did not start")


def private_memory(process: int) -> int:
    """Return the unique set size (USS) in bytes."""
    rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
    parts = re.findall(r"^Private_(?:Clean|Dirty):\s+(\d+) kB$", rollup, re.MULTILINE)
    return sum(map(int, parts)) << 10
