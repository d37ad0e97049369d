"""Whole builds from nothing and after changes, as ratios to plain Whoosh over the same texts."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from service.snapshot.publication import CURRENT
from tests.benchmarks.corpus import make_documents
from tests.benchmarks.indexing.builds import run
from tests.benchmarks.services import (
    call_services,
    change_resources,
    change_services,
    write_resources,
    write_services,
)

WORDS_ALONE = "--no-semantic"
ROUNDS = 3
"""Rounds of all builds and of Whoosh, of which the medians count."""
SHARE = 0.01
HEADINGS = "to CURRENT  ÷ Whoosh  to the end  ÷ Whoosh  processor s  peak MB  indexed anew"


class Run(NamedTuple):
    """A build: seconds until it replaced CURRENT and until it ended, and its processor seconds.

    memory: peak megabytes of its processes
    indexed: services whose texts were indexed anew
    """

    published: float
    ended: float
    processor: float
    memory: float
    indexed: int


def bench_rebuilds(count: int) -> None:
    """Print builds of `count` services as records, then of half as many as resources."""
    with tempfile.TemporaryDirectory(prefix="ratecard-") as name:
        _bench_records(count, Path(name))
    with tempfile.TemporaryDirectory(prefix="ratecard-") as name:
        _bench_resources(count // 2, Path(name))


def _bench_records(count: int, folder: Path) -> None:
    documents = make_documents(count)
    unchanged, changed, called = (
        folder / f"{name}.jsonl" for name in ("unchanged", "changed", "called")
    )
    write_services(unchanged, documents)
    change_services(unchanged, changed, SHARE, documents)
    call_services(unchanged, called)
    runs: dict[str, list[Run]] = {}
    whoosh = []

    def build(name: str, source: Path, out: Path, *options: str) -> None:
        runs.setdefault(name, []).append(_build(source, out, options))

    for number in range(ROUNDS):
        out = folder / f"artifacts{number}"
        whoosh.append(_time_whoosh(count))
        build("from nothing", unchanged, out, WORDS_ALONE)
        build("nothing changed", unchanged, out, WORDS_ALONE)
        build(f"{SHARE:.0%} changed", changed, out, WORDS_ALONE)
        run(["indexer", "rollback", str(out)])
        build("all calls changed", called, out, WORDS_ALONE)
    _print_table(f"{count:,} services with endpoints", runs, median(whoosh))


def _bench_resources(count: int, folder: Path) -> None:
    records, resources, changed = (
        folder / f"{name}.jsonl" for name in ("records", "resources", "changed")
    )
    write_services(records, make_documents(count))
    write_resources(records, resources)
    change_resources(resources, changed, SHARE)
    as_records, from_nothing, after = [], [], []
    for number in range(ROUNDS):
        out = folder / f"artifacts{number}"
        as_records.append(_build(records, folder / f"records{number}", [WORDS_ALONE]))
        from_nothing.append(_build(resources, out, [WORDS_ALONE]))
        after.append(_build(changed, out, [WORDS_ALONE]))
    base, nothing, rebuilt = (
        median(each.ended for each in runs) for runs in (as_records, from_nothing, after)
    )
    print(f"\n{count:,} services as resources      seconds  ratio")
    print(f"{'as records':30} {base:8.1f}")
    print(f"{'as resources, from nothing':30} {nothing:8.1f} {nothing / base:6.2f} of as records")
    change = f"{SHARE:.0%} of the resources changed"
    print(f"{change:30} {rebuilt:8.1f} {rebuilt / nothing:6.2f} of from nothing")


def _time_whoosh(count: int) -> float:
    output, _ = run(["tests.benchmarks.indexing.writers", "Whoosh", str(count)])
    return float(output)


def _build(source: Path, artifacts: Path, options: Sequence[str]) -> Run:
    command = ["indexer", "build", str(source), "--out", str(artifacts), "--json", *options]
    processor, started = _processor_seconds(), time.time()
    output, memory = run(command)
    ended = time.time() - started
    published = (artifacts / CURRENT).stat().st_mtime - started
    processor = _processor_seconds() - processor
    return Run(published, ended, processor, memory, json.loads(output)["indexed"])


def _processor_seconds() -> float:
    """Return the processor time of the processes that this one has waited for."""
    times = os.times()
    return times.children_user + times.children_system


def _print_table(title: str, runs: dict[str, list[Run]], whoosh: float) -> None:
    print(f"\n{title:30} {HEADINGS}")
    for name, own in runs.items():
        published, ended, processor, memory, indexed = map(median, zip(*own, strict=True))
        print(
            f"{name:30} {published:10.1f} {published / whoosh:9.2f} {ended:11.1f} "
            f"{ended / whoosh:9.2f} {processor:12.1f} {memory:8,.0f} {indexed:13,.0f}"
        )
    print(f"{'Whoosh':30} {whoosh:10.1f}")
