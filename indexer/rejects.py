"""Rejects: the records that were not indexed, counted by source and listed where asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct, field

from indexer.errors import TooManyRejects

SHOWN = 5


class Reject(Struct):
    """One record that was not indexed: where it stands, its id as given, the fault and why."""

    source: str
    position: str
    id: msgspec.Raw | str | None
    path: str
    reason: str

    def __str__(self) -> str:
        line = self.position.removeprefix("line ")
        return f"{self.source}:{line}: {self.path}: {self.reason}"


class Tally(Struct):
    """What one source held: its records, the malformed ones, and those left out by policy."""

    source: str
    records: int = 0
    malformed: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


class Rejects:
    """Collects rejects; `count` of them, the `first` few kept for the summary."""

    def __init__(self, file: BinaryIO | None) -> None:
        self._file = file
        self.count = 0
        self.first: list[Reject] = []
        self.tallies: list[Tally] = []

    def tally(self, source: str) -> Tally:
        """Start counting a source."""
        self.tallies.append(Tally(source))
        return self.tallies[-1]

    def malformed(self, tally: Tally, reject: Reject) -> None:
        """Count and list a malformed record."""
        tally.malformed += 1
        self._list(reject)

    def left_out(self, tally: Tally, policy: str, reject: Reject) -> None:
        """Count under a policy, and list, a record that is well-formed but not wanted."""
        tally.left_out[policy] += 1
        self._list(reject)

    def check(self, allowed: Fraction) -> None:
        """Raise TooManyRejects when more than this share of one source is malformed."""
        for tally in self.tallies:
            if tally.malformed > allowed * tally.records:
                first = "".join(f"\n  {reject}" for reject in self.first)
                raise TooManyRejects(
                    f"{tally.source}: {tally.malformed:,} of {tally.records:,} records are "
                    f"malformed, more than the {float(allowed):.2%} that --max-rejects allows; "
                    f"nothing was published{first}"
                )

    def _list(self, reject: Reject) -> None:
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append(reject)
        if self._file is not None:
            self._file.write(msgspec.json.encode(reject) + b"\n")


@contextmanager
def collect_rejects(path: Path | None) -> Iterator[Rejects]:
    """Collect rejects, listing them in a file of one JSON object a line when a path is given."""
    if path is None:
        yield Rejects(None)
        return
    with path.open("wb") as file:
        yield Rejects(file)
