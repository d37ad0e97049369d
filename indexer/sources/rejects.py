"""Rejects: the records that were not indexed, counted by source and listed where asked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct, field

from indexer.errors import IndexerError, Misuse, TooManyRejects
from indexer.text import printable

SHOWN = 5
MOST_REASONS = 100
OTHER_REASONS = "for other reasons"
REJECTED = "rejected"
LEFT_OUT = "left out"
NOTED = "noted"


_indexes = re.compile(r"\[\d+\]")


class Reject(Struct):
    """One record that was not indexed as it is: where it stands, its id, the fault and why.

    `fate` says whether it was rejected, left out by policy, or indexed and only noted.
    """

    source: str
    position: str
    id: msgspec.Raw | str | None
    path: str
    reason: str
    fate: str = ""

    def __post_init__(self) -> None:
        self.source = printable(self.source)

    def __str__(self) -> str:
        line = self.position.removeprefix("line ")
        return f"{self.source}:{line}: {self.path}: {self.reason}"


class Tally(Struct):
    """What one source held: its records, the malformed ones, and those left out by policy.

    `noted` counts what is indexed but worth knowing of, `reasons` why records are malformed.
    """

    source: str
    records: int = 0
    malformed: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    noted: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.source = printable(self.source)


class Rejects:
    """Collects rejects; `count` of them, of which `first` keeps a few."""

    def __init__(self, file: BinaryIO | None) -> None:
        self._file = file
        self.count = 0
        self.first: list[Reject] = []
        self.tallies: list[Tally] = []
        self.unused_overlays: list[str] = []
        self.notes: list[str] = []

    def tally(self, source: str) -> Tally:
        """Start counting a source."""
        self.tallies.append(Tally(source))
        return self.tallies[-1]

    def malformed(self, tally: Tally, reject: Reject) -> None:
        """Count and list a malformed record."""
        tally.malformed += 1
        reason = f"{_indexes.sub('[]', reject.path)}: {reject.reason}"
        known = reason in tally.reasons or len(tally.reasons) < MOST_REASONS
        tally.reasons[reason if known else OTHER_REASONS] += 1
        self._list(REJECTED, reject)

    def left_out(self, tally: Tally, policy: str, reject: Reject) -> None:
        """Count under a policy, and list, a record that is well-formed but not wanted."""
        tally.left_out[policy] += 1
        self._list(LEFT_OUT, reject)

    def note(self, tally: Tally, what: str, reject: Reject) -> None:
        """Count under what there is to know, and list, a record that is indexed all the same."""
        tally.noted[what] += 1
        self._list(NOTED, reject)

    def check(self, allowed: Fraction) -> None:
        """Raise TooManyRejects when more than this share of one source is malformed.

        What is listed goes to the disk first: a full one must be met before publishing.
        """
        if self._file is not None:
            self._file.flush()
        for tally in self.tallies:
            if tally.malformed > allowed * tally.records:
                shown = [reject for reject in self.first if reject.fate == REJECTED]
                first = "".join(f"\n  {reject}" for reject in shown)
                raise TooManyRejects(
                    f"{tally.source}: {tally.malformed:,} of {tally.records:,} records are "
                    f"malformed, more than the {float(allowed):.2%} that --max-rejects allows; "
                    f"nothing was published{first}"
                )

    def _list(self, fate: str, reject: Reject) -> None:
        self.count += 1
        reject.fate = fate
        if len(self.first) < SHOWN:
            self.first.append(reject)
        if self._file is not None:
            self._file.write(msgspec.json.encode(reject) + b"\n")


@contextmanager
def collect_rejects(path: Path | None, inputs: Iterable[str] = ()) -> Iterator[Rejects]:
    """Collect rejects, listing them in a file of one JSON object a line when a path is given.

    The file takes its name when the build ends, published or not for too many rejects; a build
    that ends otherwise leaves an earlier file alone. Raises Misuse for a path that is an input.
    """
    if path is None:
        yield Rejects(None)
        return
    if any(_is_same(path, name) for name in inputs):
        raise Misuse(f"--rejects {path}: is a file to read; name another one")
    if path.exists() and not path.is_file():  # a pipe or a device takes them as they come
        with path.open("wb") as file:
            yield Rejects(file)
        return
    path = path.resolve()  # what a link points to is replaced, and not the link
    fresh = path.with_name(f"{path.name}.new")
    try:
        with fresh.open("wb") as file:
            yield Rejects(file)
    except TooManyRejects:
        fresh.replace(path)
        raise
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    try:
        fresh.replace(path)
    except OSError as error:
        raise IndexerError(
            f"--rejects {path}: {error.strerror}; the list is in {fresh}, the snapshot published"
        ) from error


def _is_same(path: Path, name: str) -> bool:
    try:
        return path.samefile(name)
    except OSError:  # one of them does not exist, or is standard input
        return False
