"""Findings: records that are not published as they came, counted by source and listed in a file.

Findings on records of sources are published too, as fates.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from fractions import Fraction
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct, field

from indexer.errors import IndexerError, InvalidRecord, LeftOut, Misuse, TooManyRejects
from indexer.intake.fates import NO_HOST, NOTHING, Address, FateSpool, Subject
from indexer.text import count_of, printable
from service.arrays.texts import text_hash
from service.schema.listings import Fate
from service.urls import key_of

MAX_EXAMPLES = 5
MAX_REASONS = 100
OTHER_REASONS = "for other reasons"

GivenIdentity = msgspec.Raw | str | None
"""The id of a record, or else its domain or its URL."""

_indexes = re.compile(r"\[\d+\]")
_encode = msgspec.json.Encoder().encode


class State(StrEnum):
    """Which copy of a source was read."""

    CURRENT = "current"
    LAST = "last"
    SKIPPED = "skipped"


class Notice(Struct, frozen=True, array_like=True):
    """A remark for the operator on a record that is indexed nevertheless."""

    kind: str
    path: str
    reason: str


class Conflict(Struct, frozen=True, order=True):
    """Two sources that name different payees for one entry of a URL; the first one is served."""

    url: str
    served: str
    served_payee: str
    other: str
    other_payee: str

    def __str__(self) -> str:
        return (
            f"{self.url} pays {self.served_payee} by {self.served}, "
            f"and {self.other_payee} by {self.other}"
        )


class Finding(Struct):
    """A record that is not published as it came: its place, its id, and why, at a JSON path.

    REJECTED records are malformed, LEFT_OUT ones excluded by a rule, NOTED ones published.
    """

    source: str
    position: str
    id: GivenIdentity
    path: str
    reason: str
    fate: Fate

    def __str__(self) -> str:
        line = self.position.removeprefix("line ")
        place = f"{self.source}:{line}" if line else self.source
        return f"{place}: {self.path}: {self.reason}"


class Tally(Struct):
    """The counts of one source: records, malformed ones by reason, left out and noted ones.

    file: the text that positions of a feed are lines of, empty for files of the operator
    state: which copy was read, and why not the current one
    read_at: when that copy was read
    is_unchanged: whether it is byte for byte what was last accepted
    """

    source: str = field(name="name")
    file: str = ""
    records: int = 0
    published: int = 0
    malformed: int = field(name="rejected", default=0)
    reasons: dict[str, int] = field(default_factory=Counter)
    left_out: dict[str, int] = field(name="leftOut", default_factory=Counter)
    noted: dict[str, int] = field(default_factory=Counter)
    state: State = State.CURRENT
    failure: str = ""
    read_at: datetime | None = field(name="readAt", default=None)
    is_unchanged: bool = field(name="unchanged", default=False)

    def __post_init__(self) -> None:
        self.source = printable(self.source)

    @property
    def as_of(self) -> str:
        """When the copy that was read was current, to the minute."""
        return "an unknown time" if self.read_at is None else f"{self.read_at:%Y-%m-%d %H:%M} UTC"

    @property
    def by_fate(self) -> dict[Fate, dict[str, int]]:
        """The counts by reason of records that were not published as they came."""
        return {Fate.NOTED: self.noted, Fate.LEFT_OUT: self.left_out, Fate.REJECTED: self.reasons}

    def find(self, reason: str) -> bool:
        """Whether a reason, or one that is not told apart, was counted."""
        return any(reason in each or each == OTHER_REASONS for each in self.reasons)


class Findings:
    """Collects findings: counts all, keeps the first few by source and writes each to a file.

    Findings on records of sources also go to `fates`, which are published; `folder` is for these.
    """

    def __init__(self, file: BinaryIO | None, folder: Path | None = None) -> None:
        self._file = file
        self.fates = FateSpool(folder)
        self._numbers: dict[int, int] = {}
        self._examples: dict[tuple[int, Fate], list[Finding]] = {}
        self.count = 0
        self._mark = 0, 0  # the count, and the end of the file, when a source was started
        self.tallies: list[Tally] = []
        self.unused_overlays: list[str] = []
        self.unused_denials: list[str] = []
        self.notes: list[str] = []

    def tally(self, source: str, public_name: str = "") -> Tally:
        """Start the counts of a source; without a public name nobody asks for its records."""
        tally = Tally(source)
        end = self._file.tell() if self._file is not None and self._file.seekable() else 0
        self._mark = self.count, end
        self._numbers[id(tally)] = len(self.tallies)
        self.tallies.append(tally)
        self.fates.start(source, public_name)
        return tally

    def discard(self, tally: Tally) -> None:
        """Forget the findings of the source whose counts were started last."""
        self.tallies.pop()
        self.fates.discard()
        self.count, end = self._mark
        for fate in Fate:
            self._examples.pop((id(tally), fate), None)
        if self._file is not None and self._file.seekable():
            self._file.seek(end)
            self._file.truncate()

    def examples(self, tally: Tally, fate: Fate) -> list[Finding]:
        """Return the first findings of a source and a fate."""
        return self._examples.get((id(tally), fate), [])

    def first(self) -> list[Finding]:
        """Return the first findings, of as many sources and fates as there is room for."""
        fates = (Fate.REJECTED, Fate.LEFT_OUT, Fate.NOTED)
        groups = (self.examples(tally, fate) for fate in fates for tally in self.tallies)
        in_turns = chain.from_iterable(zip_longest(*groups))
        return [*islice(filter(None, in_turns), MAX_EXAMPLES)]

    def refuse(
        self,
        tally: Tally,
        position: str,
        identity: GivenIdentity,
        fault: InvalidRecord,
        subject: Subject = NOTHING,
    ) -> None:
        """Add a record that is malformed, or one that a rule leaves out; `subject` is its own."""
        fate = Fate.LEFT_OUT if isinstance(fault, LeftOut) else Fate.REJECTED
        finding = Finding(tally.source, position, identity, fault.path, fault.reason, fate)
        if isinstance(fault, LeftOut):
            tally.left_out[fault.rule] += 1
            self._add(tally, finding, subject, fault.shown)
            return
        tally.malformed += 1
        reason = f"{_indexes.sub('[]', fault.path)}: {fault.reason}"
        is_counted = reason in tally.reasons or len(tally.reasons) < MAX_REASONS
        tally.reasons[reason if is_counted else OTHER_REASONS] += 1
        self._add(tally, finding, subject)

    def withdraw(
        self,
        tally: Tally,
        position: str,
        identity: GivenIdentity,
        fault: LeftOut,
        subject: Subject = NOTHING,
    ) -> None:
        """Add a record that counted as published until another one was read."""
        tally.published -= 1
        self.refuse(tally, position, identity, fault, subject)

    def note(
        self, tally: Tally, position: str, identity: GivenIdentity, notice: Notice, subject: Subject
    ) -> None:
        """Add a record that is published and worth knowing of."""
        is_counted = notice.kind in tally.noted or len(tally.noted) < MAX_REASONS
        tally.noted[notice.kind if is_counted else OTHER_REASONS] += 1
        place = tally.source, position, identity, notice.path, notice.reason
        self._add(tally, Finding(*place, Fate.NOTED), subject)

    def note_conflict(self, conflict: Conflict) -> None:
        """Add a source that names another payee than the one that is served."""
        names = [each.source for each in self.tallies]
        tally = self.tallies[names.index(conflict.other)]
        served = self.fates.sources[names.index(conflict.served)].name
        tally.noted["conflicting payees"] += 1
        reason = (
            f"names the payee {conflict.other_payee}; {conflict.served_payee} is served, from "
            f"{served}"
        )
        finding = Finding(conflict.other, "", conflict.url, "$.accepts", str(conflict), Fate.NOTED)
        subject = Subject((Address(text_hash(key_of(conflict.url)), NO_HOST),))
        self._add(tally, finding, subject, ("$.accepts", reason))

    def check(self, tally: Tally, allowed: Fraction, before: float = 0.0, name: str = "") -> None:
        """Raise TooManyRejects when the malformed share of a source grew by more than this share.

        before: the share of the last accepted copy
        name: by which --accept takes the source, empty where nothing does
        """
        if tally.malformed > (allowed + Fraction(before)) * tally.records:
            lines = "".join(f"\n  {each}" for each in self.examples(tally, Fate.REJECTED))
            advice = f"; if that is right, --accept {name} takes it once" if name else ""
            raise TooManyRejects(
                f"{tally.source}: {tally.malformed:,} of {count_of(tally.records, 'record')} "
                f"{'is' if tally.malformed == 1 else 'are'} malformed, more than the "
                f"{float(allowed):.2%} that --max-rejects allows{advice}{lines}"
            )

    def flush(self) -> None:
        """Write what is buffered, so that a full disk ends the build before it publishes."""
        if self._file is not None:
            self._file.flush()

    def _add(
        self,
        tally: Tally,
        finding: Finding,
        subject: Subject = NOTHING,
        shown: tuple[str, str] | None = None,
    ) -> None:
        self.count += 1
        path, reason = shown or (finding.path, finding.reason)
        place = finding.source, finding.position
        self.fates.add(self._numbers[id(tally)], finding.fate, place, path, reason, subject)
        examples = self._examples.setdefault((id(tally), finding.fate), [])
        if len(examples) < MAX_EXAMPLES:
            examples.append(finding)
        if self._file is not None:
            self._file.write(_encode(finding) + b"\n")


@contextmanager
def collect_findings(
    path: Path | None, inputs: Iterable[str] = (), folder: Path | None = None
) -> Iterator[Findings]:
    """Collect findings, as JSON lines in a file when a path is given; `folder` is for a spool.

    The file replaces an earlier one when the body ends or raises TooManyRejects; any other
    exception leaves the earlier one alone. Raises Misuse for a path that is one of the inputs.
    """
    if path is None:
        yield Findings(None, folder)
        return
    if path.exists() and any(Path(each).exists() and path.samefile(each) for each in inputs):
        raise Misuse(f"--rejects {path}: is a file to read; name another one")
    if path.exists() and not path.is_file():  # a pipe or a device cannot be replaced
        with path.open("wb") as file:
            yield Findings(file, folder)
        return
    path = path.resolve()  # replace the target of a symbolic link and not the link
    fresh = path.with_name(f"{path.name}.new")
    try:
        with fresh.open("wb") as file:
            yield Findings(file, folder)
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
