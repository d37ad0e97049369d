"""Builds beside other writers of an index: time, memory and size, in one run."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.corpus import make_documents
from tests.benchmarks.services import write_services
from tests.benchmarks.writers import WRITERS
from tests.support.running import ROOT

PAUSE = 0.05
"""Seconds between two looks at the memory of a process."""


def bench_builds(counts: list[int]) -> None:
    """Print a table for each count of services."""
    for count in counts:
        with tempfile.TemporaryDirectory(prefix="ratecard-") as folder:
            bench_build(count, Path(folder))


def bench_build(count: int, folder: Path) -> None:
    """Build from services end to end, and have the other writers write their texts alone."""
    source, artifacts = folder / "services.jsonl", folder / "artifacts"
    write_services(source, make_documents(count))
    command = ["indexer", "build", str(source), "--out", str(artifacts), "--json"]
    said, memory = run(command)
    report = json.loads(said)
    stages = ", ".join(f"{name} {taken:.1f}" for name, taken in report["stages"].items())
    source_size = source.stat().st_size / 1e6
    print(f"\n{count:,} services, {source_size:,.0f} MB; snapshot {report['bytes'] / 1e6:,.0f} MB")
    print(f"stages in seconds: {stages}")
    print("                    seconds   ours / theirs    peak MB")
    ours = report["seconds"]
    print(f"{'Ratecard':16} {ours:10.1f} {'':15} {memory:10,.0f}")
    again = json.loads(run(command)[0])
    print(f"{'  nothing new':16} {again['seconds']:10.1f}")
    for name in WRITERS:
        said, memory = run(["tests.benchmarks.writers", name, str(count)])
        print(f"{name:16} {float(said):10.1f} {ours / float(said):15.2f} {memory:10,.0f}")


def run(command: list[str]) -> tuple[str, float]:
    """What a module of Python prints, and the most megabytes that it and its children held."""
    most = 0
    with subprocess.Popen(
        [sys.executable, "-m", *command], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None:
            most = max(most, sum(map(_resident, _family(process.pid))))
            time.sleep(PAUSE)
        said = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return said, most / 1000


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # it has ended, or this is not Linux
        return [pid]
    return [pid, *(member for child in children for member in _family(int(child)))]


def _resident(pid: int) -> int:
    """Kilobytes in memory, mapped files included."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    lines = [line.split() for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(lines[0][1]) if lines else 0
