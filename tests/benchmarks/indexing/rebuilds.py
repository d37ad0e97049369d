"""Time, memory and disk of builds after changes, compared with a build from nothing and Whoosh."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from service.publishing.artifacts import KEPT
from tests.benchmarks.corpus import make_documents
from tests.benchmarks.indexing.builds import run
from tests.benchmarks.services import change_services, write_services
from tests.support.artifacts import disk_usage

WHOOSH = "Whoosh"
NO_DOWNLOADS = "--no-downloads"
SERVICES_ALONE = ("--no-endpoints", "--no-semantic", NO_DOWNLOADS)
MODES = {"with endpoints and vectors": (NO_DOWNLOADS,), "services alone": SERVICES_ALONE}
"""Options of the builds of each table. `--parts downloads` measures downloads."""
SHARES = (0.001, 0.01, 0.1, 0.5)
HEADINGS = f"seconds  ÷ nothing  ÷ {WHOOSH}  processor s  peak MB  disk ÷ {KEPT}  indexed anew"
SMALLER = 5
"""How many times fewer services the smaller catalogue has that is built from nothing."""
ROUNDS = 2
"""Builds from nothing in turns with Whoosh, of which the shortest counts."""


class Rebuild(NamedTuple):
    """A build: its report, and the bytes of the artifacts folder after it.

    processor: seconds that its processes ran, which other work on the machine changes less
    memory: peak megabytes of its processes
    """

    report: dict[str, float]
    processor: float
    memory: float
    disk: int

    @property
    def seconds(self) -> float:
        """The seconds that the build took."""
        return self.report["seconds"]


def bench_rebuilds(count: int) -> None:
    """Print builds from nothing beside plain Whoosh, then a table of rebuilds for each mode."""
    print(f"\nfrom nothing, services alone: Ratecard s  {WHOOSH} s  ÷ {WHOOSH}")
    _bench_from_nothing(count // SMALLER)
    whoosh = _bench_from_nothing(count)
    with tempfile.TemporaryDirectory(prefix="ratecard-") as name:
        folder = Path(name)
        sources = _write_sources(count, folder)
        for mode, options in MODES.items():
            print(f"\n{f'{count:,} {mode}':34} {HEADINGS}")
            _bench_mode(sources, folder / mode, options, whoosh)


def _bench_from_nothing(count: int) -> float:
    """Time both in turns, and print the shortest times; return that of Whoosh."""
    ours, theirs = [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(prefix="ratecard-") as name:
            source = Path(name) / "services.jsonl"
            write_services(source, make_documents(count))
            ours.append(_build(source, Path(name) / "artifacts", SERVICES_ALONE).seconds)
        output, _ = run(["tests.benchmarks.indexing.writers", WHOOSH, str(count)])
        theirs.append(float(output))
    seconds, whoosh = min(ours), min(theirs)
    print(f"{count:28,} {seconds:11.1f} {whoosh:9.1f} {seconds / whoosh:9.2f}")
    return whoosh


def _write_sources(count: int, folder: Path) -> dict[str, Path]:
    """Write services, and the same with a share of them changed; return the files by their name."""
    documents = make_documents(count)
    unchanged = folder / "unchanged.jsonl"
    write_services(unchanged, documents)
    sources = {"nothing changed": unchanged}
    for share in SHARES:
        name = f"{100 * share:g} % changed"
        sources[name] = folder / f"{share}.jsonl"
        change_services(unchanged, sources[name], share, documents)
    return sources


def _bench_mode(
    sources: dict[str, Path], artifacts: Path, options: Sequence[str], whoosh: float
) -> None:
    """Build from nothing, then each source after the unchanged one."""
    source, *_ = sources.values()
    first = _build(source, artifacts, options)
    _print("from nothing", first, first, whoosh)
    for name, changed in sources.items():
        _print(name, _build(changed, artifacts, options), first, whoosh)
        if changed != source:
            run(["indexer", "rollback", str(artifacts)])


def _build(source: Path, artifacts: Path, options: Sequence[str]) -> Rebuild:
    command = ["indexer", "build", str(source), "--out", str(artifacts), "--json", *options]
    before = _processor_seconds()
    output, memory = run(command)
    processor = _processor_seconds() - before
    return Rebuild(json.loads(output), processor, memory, disk_usage(artifacts))


def _processor_seconds() -> float:
    """Return the processor time of the processes that this one has waited for."""
    times = os.times()
    return times.children_user + times.children_system


def _print(name: str, build: Rebuild, first: Rebuild, whoosh: float) -> None:
    nothing, peer = build.seconds / first.seconds, build.seconds / whoosh
    disk, indexed = build.disk / first.disk / KEPT, build.report["indexed"]
    print(
        f"{name:33} {build.seconds:8.1f} {nothing:10.2f} {peer:9.2f} "
        f"{build.processor:12.1f} {build.memory:8,.0f} "
        f"{disk:9.2f} {indexed:13,}"
    )
