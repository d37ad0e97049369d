"""Time, memory and size of builds, compared with other index writers."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.corpus import make_documents
from tests.benchmarks.indexing.writers import WRITERS
from tests.benchmarks.services import write_services
from tests.support.memory import tree_memory
from tests.support.running import ROOT

SAMPLING_INTERVAL = 0.05
"""Seconds between two samples of the memory of a process."""


def bench_builds(counts: list[int]) -> None:
    """Print a table for each number of services."""
    for count in counts:
        with tempfile.TemporaryDirectory(prefix="ratecard-") as folder:
            bench_build(count, Path(folder))


def bench_build(count: int, folder: Path) -> None:
    """Build a catalogue end to end; run the other writers over its texts only."""
    source, artifacts = folder / "services.jsonl", folder / "artifacts"
    write_services(source, make_documents(count))
    command = ["indexer", "build", str(source), "--out", str(artifacts), "--json"]
    output, memory = run(command)
    report = json.loads(output)
    stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in report["stages"].items())
    source_size = source.stat().st_size / 1e6
    print(f"\n{count:,} services, {source_size:,.0f} MB; snapshot {report['bytes'] / 1e6:,.0f} MB")
    print(f"stages in seconds: {stages}")
    print("                    seconds   ours / theirs    peak MB")
    ours = report["seconds"]
    print(f"{'Ratecard':16} {ours:10.1f} {'':15} {memory:10,.0f}")
    unchanged = json.loads(run(command)[0])
    print(f"{'  unchanged':16} {unchanged['seconds']:10.1f}")
    for name in WRITERS:
        output, memory = run(["tests.benchmarks.indexing.writers", name, str(count)])
        print(f"{name:16} {float(output):10.1f} {ours / float(output):15.2f} {memory:10,.0f}")


def run(command: list[str]) -> tuple[str, float]:
    """Run a Python module; return its output, and the peak megabytes of all its processes."""
    peak = 0
    with subprocess.Popen(
        [sys.executable, "-m", *command], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None:
            peak = max(peak, sum(tree_memory(process.pid)))
            time.sleep(SAMPLING_INTERVAL)
        output = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} exited with {process.returncode}")
    return output, peak / 1e6
