"""Whole builds from nothing and after changes, beside plain Whoosh over the same texts.

`python -m tests.benchmarks.builds COUNT` writes the index of Whoosh alone, and prints its seconds
without those of generating the texts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from service.snapshot.publication import CURRENT
from tests.benchmarks.corpus import Document, make_documents
from tests.benchmarks.services import (
    call_services,
    change_resources,
    change_services,
    write_resources,
    write_services,
)
from tests.support.memory import tree_memory
from tests.support.running import ROOT

ROUNDS = 3
"""Rounds of all builds and of Whoosh, of which the medians count."""
SHARE = 0.01
SAMPLING_INTERVAL = 0.05  # seconds between two samples of the memory of all processes
HEADINGS = "to CURRENT  ÷ Whoosh  to the end  ÷ Whoosh  processor s  peak MB  indexed anew"


class Run(NamedTuple):
    """A build: seconds until it replaced CURRENT and until it ended, and its processor seconds.

    memory: peak megabytes of all processes together
    indexed: services whose texts were indexed anew
    """

    published: float
    ended: float
    processor: float
    memory: float
    indexed: int


def bench_builds(counts: Sequence[int], options: Sequence[str]) -> None:
    """Print builds of so many services as records, and as resources, with options of `build`."""
    for count in counts:
        with tempfile.TemporaryDirectory(prefix="ratecard-") as name:
            _bench(count, Path(name), options)


def _bench(count: int, folder: Path, options: Sequence[str]) -> None:
    documents = make_documents(count)
    sources = "unchanged", "changed", "called", "resources", "changed resources"
    unchanged, changed, called, resources, other = (folder / f"{name}.jsonl" for name in sources)
    write_services(unchanged, documents)
    change_services(unchanged, changed, SHARE, documents)
    call_services(unchanged, called)
    write_resources(unchanged, resources)
    change_resources(resources, other, SHARE)
    runs: dict[str, list[Run]] = {}
    whoosh, report = [], dict[str, Any]()
    for number in range(ROUNDS):
        whoosh.append(float(run(["tests.benchmarks.builds", str(count)])[0]))
        for name, source, out in (
            ("from nothing", unchanged, "records"),
            ("nothing changed", unchanged, "records"),
            (f"{SHARE:.0%} changed", changed, "records"),
            ("all calls changed", called, "records"),
            ("resources, from nothing", resources, "resources"),
            (f"{SHARE:.0%} of resources changed", other, "resources"),
        ):
            each, described = _build(source, folder / f"{out}{number}", options)
            runs.setdefault(name, []).append(each)
            report = report or described
    stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in report["stages"].items())
    print(f"\nsnapshot {report['bytes'] / 1e6:,.0f} MB; stages from nothing, s: {stages}")
    _print_table(f"{count:,} services {' '.join(options)}", runs, median(whoosh))


def _build(source: Path, artifacts: Path, options: Sequence[str]) -> tuple[Run, dict[str, Any]]:
    """Build, and return what it took and its report."""
    command = ["indexer", "build", str(source), "--out", str(artifacts), "--json", *options]
    processor, started = _processor_seconds(), time.time()
    output, memory = run(command)
    ended = time.time() - started
    published = (artifacts / CURRENT).stat().st_mtime - started
    report = json.loads(output)
    processor = _processor_seconds() - processor
    return Run(published, ended, processor, memory, report["indexed"]), report


def run(command: Sequence[str]) -> tuple[str, float]:
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


def _processor_seconds() -> float:
    """Return the processor time of the processes that this one has waited for."""
    times = os.times()
    return times.children_user + times.children_system


def _print_table(title: str, runs: dict[str, list[Run]], whoosh: float) -> None:
    print(f"{title:30} {HEADINGS}")
    for name, own in runs.items():
        published, ended, processor, memory, indexed = map(median, zip(*own, strict=True))
        print(
            f"{name:30} {published:10.1f} {published / whoosh:9.2f} {ended:11.1f} "
            f"{ended / whoosh:9.2f} {processor:12.1f} {memory:8,.0f} {indexed:13,.0f}"
        )
    print(f"{'Whoosh':30} {whoosh:10.1f}")


def write_whoosh(documents: list[Document], folder: Path) -> None:
    """Write with Whoosh as in its documentation: one process, its default analyser, one segment."""
    from whoosh import fields, index

    text = fields.TEXT()
    schema = fields.Schema(name=text, description=text, category=text, number=fields.STORED)
    writer = index.create_in(str(folder), schema).writer()
    for number, each in enumerate(documents):
        writer.add_document(
            name=each.name, description=each.description, category=each.category, number=number
        )
    writer.commit(optimize=True)


if __name__ == "__main__":
    given = make_documents(int(sys.argv[1]))
    with tempfile.TemporaryDirectory(prefix="ratecard-") as target:
        began = time.perf_counter()
        write_whoosh(given, Path(target))
        print(time.perf_counter() - began)
