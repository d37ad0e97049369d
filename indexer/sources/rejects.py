"""Rejects: the records that are not indexed as they are, counted by source and listed in a file."""

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

MAX_EXAMPLES = 5
MAX_REASONS = 100
OTHER_REASONS = "for other reasons"
REJECTED = "rejected"
LEFT_OUT = "left out"
NOTED = "noted"

_indexes = re.compile(r"\[\d+\]")


class Reject(Struct):
    """A record that is not indexed as it is: its place, its id, and the fault at a JSON path.

    `fate` is REJECTED for a malformed record, LEFT_OUT for one that a policy excludes and NOTED
    for one that is indexed all the same.
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
    """The counts of one source: records, malformed ones by reason, filtered and noted ones."""

    source: str = field(name="name")
    records: int = 0
    malformed: int = field(name="rejected", default=0)
    reasons: dict[str, int] = field(default_factory=Counter)
    left_out: dict[str, int] = field(name="leftOut", default_factory=Counter)
    noted: dict[str, int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.source = printable(self.source)


class Rejects:
    """Collects rejects: counts all, keeps the first few and writes each to a file, if any."""

    def __init__(self, file: BinaryIO | None) -> None:
        self._file = file
        self.count = 0
        self.first: list[Reject] = []
        self.tallies: list[Tally] = []
        self.unused_overlays: list[str] = []
        self.notes: list[str] = []

    def tally(self, source: str) -> Tally:
        """Start the counts of a source."""
        self.tallies.append(Tally(source))
        return self.tallies[-1]

    def malformed(self, tally: Tally, reject: Reject) -> None:
        """Add a malformed record."""
        tally.malformed += 1
        reason = f"{_indexes.sub('[]', reject.path)}: {reject.reason}"
        is_counted = reason in tally.reasons or len(tally.reasons) < MAX_REASONS
        tally.reasons[reason if is_counted else OTHER_REASONS] += 1
        self._add(REJECTED, reject)

    def left_out(self, tally: Tally, policy: str, reject: Reject) -> None:
        """Add a well-formed record that a policy excludes."""
        tally.left_out[policy] += 1
        self._add(LEFT_OUT, reject)

    def note(self, tally: Tally, kind: str, reject: Reject) -> None:
        """Add a record that is indexed and worth knowing of."""
        tally.noted[kind] += 1
        self._add(NOTED, reject)

    def check(self, allowed: Fraction) -> None:
        """Raise TooManyRejects when more than this share of one source is malformed.

        The file is flushed first, so that a full disk ends the build before it publishes.
        """
        if self._file is not None:
            self._file.flush()
        for tally in self.tallies:
            if tally.malformed > allowed * tally.records:
                examples = [reject for reject in self.first if reject.fate == REJECTED]
                lines = "".join(f"\n  {reject}" for reject in examples)
                raise TooManyRejects(
                    f"{tally.source}: {tally.malformed:,} of {tally.records:,} records are "
                    f"malformed, more than the {float(allowed):.2%} that --max-rejects allows; "
                    f"nothing was published{lines}"
                )

    def _add(self, fate: str, reject: Reject) -> None:
        self.count += 1
        reject.fate = fate
        if len(self.first) < MAX_EXAMPLES:
            self.first.append(reject)
        if self._file is not None:
            self._file.write(msgspec.json.encode(reject) + b"\n")


@contextmanager
def collect_rejects(path: Path | None, inputs: Iterable[str] = ()) -> Iterator[Rejects]:
    """Collect rejects, as JSON lines in a file when a path is given.

    The file replaces an earlier one when the body ends or raises TooManyRejects; any other
    exception leaves the earlier one alone. Raises Misuse for a path that is one of the inputs.
    """
    if path is None:
        yield Rejects(None)
        return
    if any(_is_same(path, name) for name in inputs):
        raise Misuse(f"--rejects {path}: is a file to read; name another one")
    if path.exists() and not path.is_file():  # a pipe or a device cannot be replaced
        with path.open("wb") as file:
            yield Rejects(file)
        return
    path = path.resolve()  # replace the target of a symbolic link and not the link
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
