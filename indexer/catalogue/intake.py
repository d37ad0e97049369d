"""Intake: the records of all sources, read, judged against their last copies, and accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from indexer.catalogue.admission import admit
from indexer.catalogue.catalogue import Catalogue, ListedService
from indexer.catalogue.reading import OTHER_KIND, Result, apply_rules, read_all
from indexer.catalogue.records import Record, given_id, read_record
from indexer.catalogue.table import decode_resource, encode_resource, row_of
from indexer.errors import (
    IndexerError,
    InvalidRecord,
    LeftOut,
    SourceError,
    SourceFailed,
    TooManyRejects,
)
from indexer.intake.fates import Subject, read_subject
from indexer.intake.findings import Findings, State, Tally
from indexer.intake.kept import AcceptedListings, KeptSource, remove_unused
from indexer.intake.lists import LIST_KINDS, SourceRecord, read_records
from indexer.intake.rules import Rules, check_address
from indexer.intake.sources import Input, distinct_name
from indexer.options import DOCUMENTS, BuildOptions, Kind, OnError
from indexer.processes.pool import Pool
from indexer.progress import Stage
from indexer.resources.assets import find_stablecoins
from indexer.resources.documents import Described, Document
from indexer.resources.manifest import read_manifest
from indexer.resources.mpp import read_directory
from indexer.resources.openapi import read_openapi
from indexer.resources.resource import Resource

READERS: Mapping[Kind, Callable[[Document], Iterator[Described]]] = {
    Kind.OPENAPI: read_openapi,
    Kind.MPP: read_directory,
    Kind.MANIFEST: read_manifest,
}
"""The readers of documents, by kind: each yields a resource or a fault for each operation.

Lists are read item by item."""


class Reading(Struct):
    """The content of one source.

    kept: where its last accepted copy is
    notes: remarks on the source
    kind: of the document that it is, or as the operator names it
    """

    input: Input
    tally: Tally
    kept: KeptSource
    entries: list[ListedService] = field(default_factory=list)
    listings: AcceptedListings = field(default_factory=AcceptedListings)
    notes: list[str] = field(default_factory=list)
    kind: Kind | None = None


class Intake:
    """Reads sources into a catalogue and its table."""

    def __init__(
        self,
        options: BuildOptions,
        rules: Rules,
        catalogue: Catalogue,
        pool: Pool,
        findings: Findings,
        now: datetime,
    ) -> None:
        self.accepted: list[Reading] = []
        self._options, self._rules, self._now = options, rules, now
        self._catalogue, self._table = catalogue, catalogue.table
        self._pool, self._findings = pool, findings
        self._public_names: dict[str, str] = {}

    def read(self, inputs: list[Input], progress: Stage) -> None:
        """Read all sources; raises SourceError for one that fails the build."""
        for each in inputs:
            self._catalogue.sources.append(each.options)
            self._take(each, progress)

    def _take(self, each: Input, progress: Stage) -> None:
        """Read one source, or what stands for it where it has failed."""
        tally = self._findings.tally(each.name, self._public_name(each))
        kept, last_item = KeptSource(self._options.out, each.options), self._table.last
        try:
            if each.failure is not None:
                raise each.failure
            reading = Reading(each, tally, kept)
            self._read(reading, progress)
            self._judge(reading)
        except (SourceError, TooManyRejects) as error:
            last = self._fall_back(each, kept, error)
            self._findings.discard(tally)
            self._table.remove_after(last_item)
            tally = self._findings.tally(each.name, self._public_name(each))
            tally.failure = str(error)
            tally.state = State.SKIPPED if last is None else State.LAST
            if last is None:
                return
            reading = Reading(last, tally, kept)
            self._read(reading, progress)
        else:
            self.accepted.append(reading)
        self._findings.notes += reading.notes
        self._catalogue.records += reading.entries

    def _public_name(self, each: Input) -> str:
        """Return the public name of a source, with a number where another source has it."""
        names = self._public_names
        if each.source_name not in names:
            names[each.source_name] = distinct_name(each.public_name, names.values())
        return names[each.source_name]

    def _read(self, reading: Reading, progress: Stage) -> None:
        each, tally = reading.input, reading.tally
        tally.file, tally.read_at = each.shown_file, each.read_at or self._now
        kind = reading.kind = each.options.kind
        stablecoins = self._rules.policy.stablecoins

        def read_document(kind: Kind, text: bytes) -> Iterator[SourceRecord]:
            reading.kind = kind
            check = partial(check_address, rules=Rules(self._rules.policy))  # without denials
            return READERS[kind](Document(text, each.options, find_stablecoins(stablecoins), check))

        records = read_records(
            each.path,
            each.name,
            is_lines=each.is_lines,
            kind=kind,
            max_items=each.options.max_items,
            note=lambda text: reading.notes.append(f"{each.name}: {text}"),
            read_document=read_document,
        )
        listed = kind if kind in LIST_KINDS else None
        known = self._catalogue.known
        for record, result in read_all(self._pool, records, listed, stablecoins, known):
            progress.advance(len(record.text) + 1)
            tally.records += 1
            try:
                self._take_record(reading, record, result)
            except InvalidRecord as fault:
                place = tally, record.position, given_id(record.text)
                self._findings.refuse(*place, fault, read_subject(record.text))
                fault.__traceback__ = None  # refers to the record, which has the fault
        if tally.records and tally.left_out.get(OTHER_KIND) == tally.records:
            raise SourceError(_describe_other_kind(each))
        if reading.kind in DOCUMENTS:  # whose positions are operations and no lines
            tally.file = ""
        if each.options.hosts and tally.records and reading.kind not in DOCUMENTS:
            raise SourceError(f"{each.name}: `hosts` is for documents, and this is none; remove it")

    def _take_record(self, reading: Reading, record: SourceRecord, result: Result) -> None:
        """Add a record to a reading; raises InvalidRecord."""
        if isinstance(result, InvalidRecord):
            raise result
        if isinstance(result, Record):
            self._add_record(reading, record, result)
        elif isinstance(record, Described) and record.resource is not None:
            self._add_resource(reading, record, record.resource)
        else:
            self._add_resource(reading, record, decode_resource(result))

    @property
    def _source(self) -> int:
        """The number of the source that is read."""
        return len(self._catalogue.sources) - 1

    def _add_resource(self, reading: Reading, record: SourceRecord, found: Resource) -> None:
        """Add a resource that the rules admit; raises LeftOut for another one.

        What a source lists is what it states: a new rule of the operator is no loss.
        """
        name = " ".join(filter(None, (found.given, found.method, found.tool)))
        reading.listings.add(name, found.payees, found.price)
        apply_rules(found, self._rules)
        self._rules.check_age(found.updated)
        row = row_of(found, self._source, reading.input.options.trust, record.position)
        text = b"" if isinstance(record, Described) else record.text
        self._table.put_item(row, text, encode_resource(found))
        reading.tally.published += 1
        if found.notices:
            identity, subject = given_id(record.text), found.to_subject()
            for notice in found.notices:
                self._findings.note(reading.tally, record.position, identity, notice, subject)

    def _add_record(self, reading: Reading, record: SourceRecord, valid: Record) -> None:
        """Add a valid record of a catalogue as far as its source may say it; raises LeftOut."""
        reading.listings.add(valid.id or valid.domain, valid.payees, valid.highest)
        text, faults = admit(record.text, valid, reading.input.options, self._rules)
        for fault, address in faults:
            subject = Subject(() if address is None else (address,))
            place = reading.tally, record.position, given_id(record.text)
            if isinstance(fault, LeftOut):
                self._findings.refuse(*place, fault, subject)
            else:
                self._findings.note(*place, fault, subject)
        if text is not None:
            valid = read_record(text)
        reading.entries.append(self._catalogue.add(valid, self._source, record.position))
        reading.tally.published += 1

    def _judge(self, reading: Reading) -> None:
        """Raise SourceFailed for a source that lost or changed too much since it was accepted."""
        each, tally, kept = reading.input, reading.tally, reading.kept
        if not self._options.accept.isdisjoint({each.name, each.source_name}):
            return
        if each.options.url and not tally.records and not kept.was_empty():
            advice = f"if that is right, --accept {each.source_name} takes it once"
            raise SourceFailed(f"{each.name}: gives no items; {advice}")
        before = 0.0 if kept.state is None else kept.state.malformed
        is_of_sellers = reading.kind is not Kind.RECORDS and not reading.entries
        if is_of_sellers and kept.state is None and tally.malformed < tally.records:
            before = tally.malformed / tally.records  # sellers write what a feed repeats
        self._findings.check(tally, self._options.max_rejects, before, each.source_name)
        if kept.state is None or each.file is None:
            return
        changes = kept.find_changes(reading.listings, each.options.max_removed)
        if changes:
            details = "\n  ".join(changes)
            raise SourceFailed(
                f"{each.name}: more than {float(each.options.max_removed):.0%} of it changed since "
                f"it was last accepted; look at it, then --accept {each.source_name} takes it once"
                f"\n  {details}"
            )

    def _fall_back(self, each: Input, kept: KeptSource, error: IndexerError) -> Input | None:
        """Return the last accepted copy of a failed source, or None to skip it; else raise."""
        if each.options.on_error is OnError.SKIP:
            return None
        if each.options.on_error is OnError.FAIL:
            raise error
        state, copy = kept.state, kept.copy
        if state is None or copy is None:
            advice = 'correct the source, or build without it by `on_error = "skip"`'
            raise type(error)(
                f"{error}\n{advice}; there is no earlier copy of {each.name} to serve"
            ) from error
        age = (self._now - state.read_at).total_seconds()
        if age > each.options.max_age:
            raise type(error)(
                f"{error}\nthe last accepted copy of {each.name} is {age / 3600:,.0f} hours old, "
                "which is more than its max_age"
            ) from error
        return replace(each, path=str(copy), read_at=state.read_at, failure=None)


def store_accepted(
    artifacts: Path,
    accepted: Iterable[Reading],
    findings: Findings,
    now: datetime,
) -> None:
    """Keep published sources for the next build; a fault is noted, as nothing is lost."""
    remove_unused(artifacts)
    for each in accepted:
        file, tally = each.input.file, each.tally
        if file is None:
            continue
        malformed = tally.malformed / max(tally.records, 1)
        try:
            each.kept.store(file, each.listings, tally.read_at or now, malformed)
        except OSError as error:
            note = f"{each.input.name}: is not kept for the next build: {error}"
            findings.notes.append(note)


def refresh_accepted(artifacts: Path, inputs: Iterable[Input], now: datetime) -> None:
    """Note that sources are still as they were accepted, where nothing changed."""
    for each in inputs:
        with suppress(OSError):
            KeptSource(artifacts, each.options).refresh(each.read_at or now)


def _describe_other_kind(each: Input) -> str:
    if each.options.kind is Kind.RESOURCES:
        return (
            f"{each.name}: gives catalogue records and no resources; if these are to be believed, "
            'name it by --records URL, or kind = "records" in the catalogue file'
        )
    return f"{each.name}: gives resources and no catalogue records; its kind is another one"
