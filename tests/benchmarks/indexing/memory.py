"""The peak of the anonymous memory of all processes of a build, by stage.

Run as `python -m tests.benchmarks.indexing.memory COUNT [OPTION ...]` for other options of `build`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from tests.benchmarks.corpus import make_documents
from tests.benchmarks.services import change_services, write_services
from tests.support.memory import tree_memory
from tests.support.running import ROOT

INTERVAL = 0.02  # seconds between two samples
BOUNDS = ((), ("--memory", "700M"))
"""Options of the builds that are compared."""
Sample = tuple[float, list[int]]
PROGRAM = """
import sys
from indexer import progress
from indexer.__main__ import main
progress.MIN_SECONDS = 0.0
sys.exit(main())
"""
"""A build that prints a line for each stage, however short."""


def bench_memory(count: int, *bounds: Sequence[str]) -> None:
    """Print the peaks of a build from nothing, and of one after 1 % changed, for each bound."""
    documents = make_documents(count)
    with tempfile.TemporaryDirectory(prefix="ratecard-") as name:
        folder = Path(name)
        source, changed = folder / "services.jsonl", folder / "changed.jsonl"
        write_services(source, documents)
        change_services(source, changed, 0.01, documents)
        del documents
        for number, options in enumerate(bounds or BOUNDS):
            for each in (source, changed):
                title = f"{count:,} {each.stem} {' '.join(options)}".strip()
                print(f"\n{title:36} seconds    peak MB = build + workers")
                _bench_build([str(each), "--out", str(folder / str(number)), *options])


def _bench_build(arguments: list[str]) -> None:
    """Print the peak of the sum, and the parts of the sum then, for each stage that ended."""
    samples: list[Sample] = []
    ends: list[tuple[float, str]] = []
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "build", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        reader = threading.Thread(target=_read_ends, args=(process.stderr, ends))
        reader.start()
        while process.poll() is None:
            samples.append((time.monotonic(), tree_memory(process.pid)))
            time.sleep(INTERVAL)
        reader.join()
        end = time.monotonic()
    start = samples[0][0]
    for stop, name in [*ends, (end, "after the last stage")]:
        _print(name, [each for each in samples if start <= each[0] < stop], stop - start)
        start = stop
    _print("whole build", samples, end - samples[0][0])


def _read_ends(lines: IO[str], ends: list[tuple[float, str]]) -> None:
    ends.extend((time.monotonic(), line.rpartition(":")[0] or line.strip()) for line in lines)


def _print(name: str, samples: list[Sample], seconds: float) -> None:
    if not samples:
        return
    _, (own, *workers) = max(samples, key=lambda each: sum(each[1]))
    peak = own + sum(workers)
    parts = " + ".join(f"{size / 1e6:.0f}" for size in (own, *workers))
    print(f"{name:36} {seconds:7.1f} {peak / 1e6:10,.0f} = {parts}")


if __name__ == "__main__":
    _, number, *given = sys.argv
    bench_memory(int(number), given)
