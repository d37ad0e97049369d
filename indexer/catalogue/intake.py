"""Intake: the records of all sources, read, judged against their last copies, and accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from indexer.catalogue.admission import admit
from indexer.catalogue.catalogue import Catalogue, CatalogueEntry
from indexer.catalogue.known_records import Stored
from indexer.catalogue.normaliser import RecordNormaliser, Result
from indexer.catalogue.record import Normalised, given_id
from indexer.catalogue.refused import read_subject
from indexer.documents.document import Document
from indexer.errors import (
    IndexerError,
    InvalidRecord,
    LeftOut,
    SourceError,
    SourceFailed,
    TooManyRejects,
)
from indexer.intake.findings import Findings, State, Tally
from indexer.intake.kept import AcceptedListings, KeptSource, remove_unused
from indexer.intake.records import LISTS, SourceRecord, read_records
from indexer.intake.sources import Input, distinct_name
from indexer.intake.subjects import Subject
from indexer.manifests.reading import read_manifest
from indexer.mpp.reading import read_directory
from indexer.openapi.reading import read_openapi
from indexer.options import DOCUMENTS, BuildOptions, Kind, OnError, Policy
from indexer.progress import Stage
from indexer.sources.denials import Denials
from indexer.x402.discovery import Discovery, SourceResources
from indexer.x402.outline import subject_of
from indexer.x402.readings import ReadResource
from indexer.x402.resource import given_url, read_resource
from indexer.x402.rules import OLD, Rules

OTHER_KIND = "records of another kind"
DUPLICATE = "duplicate listings"
READERS: Mapping[Kind, Callable[[Document], Iterator[SourceRecord]]] = {
    Kind.OPENAPI: read_openapi,
    Kind.MPP: read_directory,
    Kind.MANIFEST: read_manifest,
}
"""The readers of documents, by kind: each yields a resource or a fault for each operation.

Lists are read item by item."""


class Reading(Struct):
    """The content of one source, until the source is accepted.

    left_out: URLs of listings that a new rule of the operator removed, and not the source
    notes: remarks on the source
    kind: of the document that it is, or as the operator names it
    """

    input: Input
    tally: Tally
    entries: list[CatalogueEntry]
    found: SourceResources
    listings: AcceptedListings
    left_out: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    kind: Kind | None = None


class AcceptedInput(NamedTuple):
    """A source that was accepted as it is now, and where its last accepted copy is kept.

    kind: as that of a Reading
    """

    input: Input
    kind: Kind | None
    tally: Tally
    listings: AcceptedListings
    source: KeptSource


class Intake:
    """Reads sources into a catalogue and a discovery."""

    def __init__(
        self,
        options: BuildOptions,
        rules: Rules,
        catalogue: Catalogue,
        discovery: Discovery,
        normaliser: RecordNormaliser,
        findings: Findings,
        now: datetime,
    ) -> None:
        self.accepted: list[AcceptedInput] = []
        self._options, self._rules, self._now = options, rules, now
        self._catalogue, self._discovery = catalogue, discovery
        self._normaliser, self._findings = normaliser, findings
        self._public_names: dict[str, str] = {}

    def read(self, inputs: list[Input], progress: Stage) -> None:
        """Read all sources; raises SourceError for one that fails the build."""
        for each in inputs:
            self._catalogue.sources.append(each.options)
            self._take(each, progress)

    def _take(self, each: Input, progress: Stage) -> None:
        """Read one source, or what stands for it where it has failed."""
        tally = self._findings.tally(each.name, self._public_name(each))
        source = KeptSource(self._options.out, each.options)
        try:
            if each.failure is not None:
                raise each.failure
            reading = self._read(each, tally, progress, self._earlier_rules(source))
            self._judge(reading, source)
        except (SourceError, TooManyRejects) as error:
            last = self._fall_back(each, source, error)
            self._findings.discard(tally)
            tally = self._findings.tally(each.name, self._public_name(each))
            tally.failure = str(error)
            tally.state = State.SKIPPED if last is None else State.LAST
            if last is None:
                return
            reading = self._read(last, tally, progress)
        else:
            self.accepted.append(AcceptedInput(each, reading.kind, tally, reading.listings, source))
        self._findings.notes += reading.notes
        self._catalogue.accept(reading.entries)
        self._discovery.accept(reading.found)

    def _earlier_rules(self, source: KeptSource) -> Rules | None:
        """Return the rules that a source was accepted by, None where they are those of now."""
        policy = None if source.state is None else source.state.policy
        if policy is None or policy == self._rules.decided:
            return None
        return Rules(replace(policy, max_age=None), Denials(policy.deny), self._now)

    def _public_name(self, each: Input) -> str:
        """Return the public name of a source, with a number where another source has it."""
        names = self._public_names
        if each.source_name not in names:
            names[each.source_name] = distinct_name(each.public_name, names.values())
        return names[each.source_name]

    def _read(
        self,
        each: Input,
        tally: Tally,
        progress: Stage,
        earlier: Rules | None = None,
    ) -> Reading:
        """Read a source; listings that `earlier` rules would have admitted are not missed."""
        number = len(self._catalogue.sources) - 1
        found = SourceResources(self._discovery, number, each.name, each.options.trust)
        reading = Reading(each, tally, [], found, AcceptedListings())
        tally.file = each.shown_file
        tally.read_at = each.read_at or self._now
        kind = reading.kind = each.options.kind
        stablecoins = self._rules.policy.stablecoins

        def read_document(kind: Kind, text: bytes) -> Iterator[SourceRecord]:
            reading.kind = kind
            return READERS[kind](Document(text, each.options, self._rules.stablecoins))

        records = read_records(
            each.path,
            each.name,
            is_lines=each.is_lines,
            kind=kind,
            max_items=each.options.max_items,
            note=lambda text: reading.notes.append(f"{each.name}: {text}"),
            read_document=read_document,
        )
        listed = kind if kind in LISTS else None
        for record, result in self._normaliser.normalise(records, listed, stablecoins):
            progress.advance(len(record.text) + 1)
            tally.records += 1
            try:
                self._take_record(reading, record, result)
            except InvalidRecord as fault:
                self._refuse(reading, record, fault)
                is_excused = isinstance(fault, LeftOut) and (
                    fault.rule == OLD or _is_admitted(record, earlier)
                )
                if is_excused and (url := given_url(record.text)):
                    reading.left_out.add(url)
                fault.__traceback__ = None  # refers to the record, which has the fault
        if tally.records and tally.left_out.get(OTHER_KIND) == tally.records:
            raise SourceError(_describe_other_kind(each))
        if each.options.hosts and tally.records and reading.kind not in DOCUMENTS:
            raise SourceError(f"{each.name}: `hosts` is for documents, and this is none; remove it")
        return reading

    def _take_record(self, reading: Reading, record: SourceRecord, result: Result) -> None:
        """Add a record to a reading; raises InvalidRecord."""
        if record.fault:
            raise record.fault
        kind = _kind_of(record, result, reading.input.options.kind)
        readings = self._discovery.readings
        if isinstance(result, ReadResource):
            self._add_resource(reading, record, readings.judge(record, result))
        elif kind is Kind.RESOURCES:
            self._add_resource(reading, record, readings.read(record))
        else:
            self._add_record(reading, record, result or self._normaliser.known.normalise(record))

    def _add_resource(self, reading: Reading, record: SourceRecord, found: ReadResource) -> None:
        outline = found.outline
        worse = reading.found.add(record, found)
        if worse is None:
            reading.tally.published += 1
        else:
            fault = LeftOut(DUPLICATE, "$.resource", "is listed again, newer or more complete")
            subject = subject_of(self._discovery.outline(worse))
            identity = given_id(record.text)
            self._findings.refuse(reading.tally, worse.position, identity, fault, subject)
        for notice in outline.notices:
            identity = given_id(record.text)
            subject = subject_of(outline)
            self._findings.note(reading.tally, record.position, identity, notice, subject)
        if worse is None or worse.position != record.position:
            key = outline.given, outline.method, outline.tool
            reading.listings.add(" ".join(filter(None, key)), outline.payees, outline.price)

    def _add_record(
        self, reading: Reading, record: SourceRecord, valid: Normalised | Stored
    ) -> None:
        """Add a valid record of a catalogue as far as its source may say it; raises LeftOut."""
        facts = valid.facts
        reading.listings.add(facts.id or facts.domain, facts.payees, facts.highest)
        text, faults = admit(record.text, facts, reading.input.options, self._rules)
        for fault, address in faults:
            subject = Subject(() if address is None else (address,))
            place = reading.tally, record.position, given_id(record.text)
            if isinstance(fault, LeftOut):
                self._findings.refuse(*place, fault, subject)
            else:
                self._findings.note(*place, fault, subject)
        if text is not None:
            valid = self._normaliser.known.normalise(SourceRecord(record.position, text))
        reading.entries.append(self._catalogue.spool(reading.found.source, record.position, valid))
        reading.tally.published += 1

    def _refuse(self, reading: Reading, record: SourceRecord, fault: InvalidRecord) -> None:
        subject = read_subject(record.text)
        self._findings.refuse(reading.tally, record.position, given_id(record.text), fault, subject)

    def _judge(self, reading: Reading, source: KeptSource) -> None:
        """Raise SourceFailed for a source that lost or changed too much since it was accepted."""
        each, tally = reading.input, reading.tally
        if not self._options.accept.isdisjoint({each.name, each.source_name}):
            return
        if each.options.url and not tally.records and not source.was_empty():
            advice = f"if that is right, --accept {each.source_name} takes it once"
            raise SourceFailed(f"{each.name}: gives no items; {advice}")
        before = 0.0 if source.state is None else source.state.malformed
        is_of_sellers = reading.kind is not Kind.RECORDS and not reading.entries
        if is_of_sellers and source.state is None:
            before = tally.malformed / max(tally.records, 1)  # sellers write what a feed repeats
            if tally.records and tally.malformed == tally.records:
                before = 0.0
        self._findings.check(tally, self._options.max_rejects, before)
        if source.state is None or each.file is None:
            return
        changes = source.find_changes(reading.listings, each.options.max_removed, reading.left_out)
        if changes:
            details = "\n  ".join(changes)
            raise SourceFailed(
                f"{each.name}: more than {float(each.options.max_removed):.0%} of it changed since "
                f"it was last accepted; look at it, then --accept {each.source_name} takes it once"
                f"\n  {details}"
            )

    def _fall_back(self, each: Input, source: KeptSource, error: IndexerError) -> Input | None:
        """Return the last accepted copy of a failed source, or None to skip it; else raise."""
        if each.options.on_error is OnError.SKIP:
            return None
        if each.options.on_error is OnError.FAIL:
            raise error
        state, copy = source.state, source.copy
        if state is None or copy is None:
            raise type(error)(f"{error}\nthere is no accepted copy of {each.name} yet") from error
        age = (self._now - state.read_at).total_seconds()
        if age > each.options.max_age:
            raise type(error)(
                f"{error}\nthe last accepted copy of {each.name} is {age / 3600:,.0f} hours old, "
                "which is more than its max_age"
            ) from error
        return replace(
            each, path=str(copy), is_lines=state.is_lines, read_at=state.read_at, failure=None
        )


def store_accepted(
    artifacts: Path,
    accepted: Iterable[AcceptedInput],
    policy: Policy,
    findings: Findings,
    now: datetime,
) -> None:
    """Keep published sources for the next build; a fault is noted, as nothing is lost.

    `policy` has the rules that they were read by.
    """
    remove_unused(artifacts)
    for each, _, tally, listings, source in accepted:
        if each.file is None:
            continue
        try:
            source.store(
                each.file,
                listings,
                tally.read_at or now,
                tally.malformed / max(tally.records, 1),
                policy,
                is_lines=each.is_lines,
            )
        except OSError as error:
            findings.notes.append(f"{each.name}: is not kept for the next build: {error}")


def refresh_accepted(artifacts: Path, inputs: Iterable[Input], now: datetime) -> None:
    """Note that sources are still as they were accepted, where nothing changed."""
    for each in inputs:
        with suppress(OSError):
            KeptSource(artifacts, each.options).refresh(each.read_at or now)


def _is_admitted(record: SourceRecord, rules: Rules | None) -> bool:
    """Whether these rules, if any, admit a resource."""
    if rules is None:
        return False
    try:
        read_resource(record, rules)
    except InvalidRecord:
        return False
    return True


def _kind_of(record: SourceRecord, result: Result, declared: Kind | None) -> Kind:
    """Return what a record is; raises LeftOut where its source gives records of another kind."""
    is_resource = record.is_resource if result is None else isinstance(result, ReadResource)
    kind = Kind.RESOURCES if is_resource else Kind.RECORDS
    if declared not in LISTS or declared is kind:
        return kind
    if declared is Kind.RESOURCES and b'"endpoints"' not in record.text:
        return declared
    reason = f"is one of the {kind}, and this source gives {declared} alone"
    raise LeftOut(OTHER_KIND, "$", reason)


def _describe_other_kind(each: Input) -> str:
    if each.options.kind is Kind.RESOURCES:
        return (
            f"{each.name}: gives catalogue records and no resources; if these are to be believed, "
            'name it by --records URL, or kind = "records" in the catalogue file'
        )
    return f"{each.name}: gives resources and no catalogue records; its kind is another one"
