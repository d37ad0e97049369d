"""Many small builds: the last ones cost what the first ones did, and the result is the same."""

from __future__ import annotations

import json
import os
import random
import shutil
from copy import deepcopy
from itertools import product
from pathlib import Path
from statistics import median

import pytest

from indexer.build import build_snapshot
from indexer.catalogue_file import name_source
from indexer.derive.columns import open_columns
from indexer.derive.reuse import COLUMNS, REUSE
from indexer.options import BuildOptions
from indexer.report import Report
from service.artifacts.publishing import KEPT
from service.snapshot.manifest import File, verify
from tests.benchmarks.corpus import make_documents
from tests.benchmarks.services import change_service, make_service
from tests.support.artifacts import disk_usage, folder
from tests.support.running import SOAK, Json

EARLY = 9 if SOAK else 5
"""Builds after which the history is copied, to time its next builds beside the last ones.

In the short run the "thousandth" build is the eighth, and the "tenth" is the sixth."""
TIMED = 11 if SOAK else 2
"""Builds whose median times are compared."""
BUILDS, SERVICES = (1000, 5000) if SOAK else (EARLY + 1 + TIMED, 40)
MAX_RATIO = 1.3
"""Of the times of late and early builds, in a soak: other work disturbs the short run."""
MAX_DISK = 1.3
"""Bytes of the artifacts folder, in those of as many snapshots as are kept."""
CHANGED, MOVED, RENAMED = 4, 2, 2
"""Services that each build changes, adds and removes, and gives another id."""


class ChangingCatalogue:
    """A catalogue whose services change at random; their number stays the same."""

    def __init__(self) -> None:
        self._rng = random.Random(17)  # noqa: S311  # the same history in every run
        self._documents = make_documents(SERVICES + BUILDS * MOVED)
        self._services: list[Json] = []
        self._added = 0
        self._add(SERVICES)

    def change(self) -> None:
        """Change, remove, add and rename a few services."""
        rng, services = self._rng, self._services
        for service in rng.sample(services, CHANGED):
            change_service(service, rng.choice(self._documents).description, rng)
        for _ in range(MOVED):
            services.pop(rng.randrange(len(services)))
        self._add(MOVED)
        for service in rng.sample(services, RENAMED):
            service["id"] = f"{service['id'].partition('.')[0]}.{rng.randrange(10**9)}"
        rng.shuffle(services)

    def write(self, path: Path) -> None:
        """Write the catalogue as JSON lines."""
        path.write_text("".join(json.dumps(each) + "\n" for each in self._services))

    def _add(self, count: int) -> None:
        for number in range(self._added, self._added + count):
            self._services.append(make_service(number, self._documents[number], self._rng))
        self._added += count


class History:
    """Builds of a catalogue that changes before each of them."""

    def __init__(self, folder: Path, catalogue: ChangingCatalogue) -> None:
        folder.mkdir(exist_ok=True)
        self.source, self.artifacts = folder / "source.jsonl", folder / "artifacts"
        self._catalogue = catalogue

    def build(self) -> Report:
        """Change the catalogue, and build it."""
        self._catalogue.change()
        self._catalogue.write(self.source)
        return build(self.source, self.artifacts)

    def copy(self, folder: Path) -> History:
        """Return a copy that goes on by itself."""
        history = History(folder, deepcopy(self._catalogue))
        # With hard links: files of published snapshots and of the reuse store are never modified.
        shutil.copytree(self.artifacts, history.artifacts, copy_function=os.link)
        return history


@pytest.mark.soak
def test_the_thousandth_build_costs_what_the_tenth_does(tmp_path: Path) -> None:
    history = History(tmp_path / "late", ChangingCatalogue())
    history.build()
    first = disk_usage(history.artifacts)
    for number in range(2, BUILDS - TIMED + 1):
        check(history, history.build(), first)
        if number == EARLY:
            early = history.copy(tmp_path / "early")
    seconds: dict[History, list[float]] = {early: [], history: []}
    for _, (each, own) in product(range(TIMED), seconds.items()):
        report = each.build()
        check(each, report, first)
        own.append(report.seconds)
    from_scratch = tmp_path / "from scratch"
    build(history.source, from_scratch, from_scratch=True)
    assert served_files(history.artifacts) == served_files(from_scratch)
    if SOAK:
        assert median(seconds[history]) <= MAX_RATIO * median(seconds[early])


def check(history: History, report: Report, first: int) -> None:
    """Check what a build left, and the disk, of which its first build took some bytes."""
    assert report.indexed <= CHANGED + MOVED + RENAMED
    assert len(open_columns(history.artifacts / REUSE / COLUMNS).keys) == SERVICES
    assert disk_usage(history.artifacts) < MAX_DISK * KEPT * first


def build(source: Path, artifacts: Path, *, from_scratch: bool = False) -> Report:
    options = BuildOptions(
        sources=(name_source(str(source)),), out=artifacts, from_scratch=from_scratch
    )
    report = build_snapshot(options)
    assert report.services == SERVICES
    return report


def served_files(artifacts: Path) -> dict[str, File]:
    """Verify the published snapshot; return its files."""
    return verify(folder(artifacts)).files
