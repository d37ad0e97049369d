"""The catalogue: records spooled to disk as they are read, then given ids, amended and ordered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from indexer.catalogue.derived_ids import Identity, ascii_domain, derive_ids, plain_id
from indexer.catalogue.known_records import NOT_KEPT, KnownRecords, Stored
from indexer.catalogue.overlays import Overlay, apply_overlay
from indexer.catalogue.record import Normalised, disbelieve
from indexer.catalogue.refused import read_subject
from indexer.columns.annotations import Annotations, decode_annotations
from indexer.columns.records import MAX_PAYERS
from indexer.errors import InvalidRecord, LeftOut, SourceError
from indexer.intake.findings import Findings
from indexer.intake.records import SourceRecord
from indexer.options import Denial, SourceOptions
from indexer.probes.verdicts import DEAD, UNDECIDED
from indexer.record_store import RecordRun, Spool, run_of
from indexer.search.popularity import Payers
from indexer.segments.reuse import KeptRecords
from indexer.snapshot.demand import CountedDemand, DemandRow
from indexer.sources.decisions import Decisions
from indexer.sources.denials import TakenDown
from indexer.x402.discovery import Discovery, Grouped
from indexer.x402.endpoints import read_endpoints
from service.schema.profiles import Profile

LONGEST_RUN = 256  # records
NO_GROUP = 0
"""The number of the group without resources, which `Discovery` keeps as its first."""
OUTRANKED = "listed by a more trusted source"
HIDDEN = "hidden by a catalogue record"
REPLACED = "replaced by a later source"
DUPLICATE_ID = "duplicate ids"


Describe = Callable[[Mapping[str, str]], Iterable[tuple[Grouped, Normalised | Stored]]]
"""Returns the discovered services with their records, for ids by key."""


class CatalogueEntry(Struct, gc=False):
    """A record: its place in its source, and the values that order it.

    text_number: of the text in the spool, unless it is a `row` of the kept records
    group: the number by which `Discovery` finds the resources of the service, or NO_GROUP
    demand_number, annotations_number: of the JSON of the demand and of the annotations there
    endpoint_payers: by the index of the endpoint
    alive: the verdict of trusted probers
    """

    source: int
    position: str
    id: str | None
    domain: str
    name: str
    enriched: bool
    payers: Payers
    endpoints: int
    summary_derived: bool
    text_number: int | None = None
    discovered: bool = False
    group: int = NO_GROUP
    row: int = NOT_KEPT
    trust: int = 0
    demand_number: int | None = None
    annotations_number: int | None = None
    endpoint_payers: dict[int, Payers] | None = None
    alive: int = UNDECIDED


class ListedService(Struct, gc=False):
    """A service of the listing: its id and its entry."""

    id: str
    entry: CatalogueEntry


class Catalogue:
    """The records of all sources; only the values that order them are in memory.

    The records are spooled to `folder`; `sources` has the source of each entry, by its number. No
    price above `max_price` is believed.
    """

    def __init__(self, folder: Path, kept: KeptRecords, max_price: Decimal) -> None:
        self._spool, self._kept = Spool(folder), kept
        self._max_price = max_price
        self._records: list[CatalogueEntry] = []
        self._services: dict[str, CatalogueEntry] = {}
        self.sources: list[SourceOptions] = []

    def spool(self, source: int, position: str, record: Normalised | Stored) -> CatalogueEntry:
        """Write a record of a source to the spool; returns its entry, for `accept`."""
        facts = record.facts
        entry = CatalogueEntry(
            source=source,
            position=position,
            id=facts.id,
            domain=facts.domain,
            name=facts.name,
            enriched=facts.enriched,
            payers=Payers(0, min(int(facts.payers), MAX_PAYERS)),
            endpoints=facts.endpoints,
            summary_derived=bool(facts.summary),
            trust=self.sources[source].trust,
        )
        implausible: list[int] = []
        if facts.highest > self._max_price:
            if isinstance(record, Stored):
                record = Normalised(self._kept_text(record.row), facts)
            text, implausible = disbelieve(record, self._max_price)
            record = Normalised(text, facts)
        if isinstance(record, Stored):
            entry.row = record.row
        else:
            entry.text_number = self._spool.add(record.text)
        self._annotate(entry, Annotations(facts.outputs, implausible=implausible))
        return entry

    def accept(self, entries: Iterable[CatalogueEntry]) -> None:
        """Add the records of a source."""
        self._records += entries

    def identify(
        self,
        discovery: Discovery,
        decisions: Decisions,
        taken_down: Collection[str],
        describe: Describe,
        findings: Findings,
    ) -> None:
        """Give every service its id, and a record the discovered resources that it names.

        Of the records with one id the most trusted stays, among equals that of the last source,
        within one source the first. A record of a host that a more trusted source lists is left
        out. The resources of a host that no record names become a service, or several with paths,
        unless a source hides them; `describe` returns their records.
        """
        domains = _Domains(discovery, decisions)
        records = []
        for entry in self._records:
            domain = domains.of(entry)
            if outranking := self._outranking(entry, domain, discovery):
                reason = f"a more trusted source lists {outranking}"
                self._leave_out(findings, entry, entry.id, LeftOut(OUTRANKED, "$.id", reason))
            else:
                records.append((entry, domain))
        identities = [Identity(entry.id, entry.domain, entry.trust) for entry, _ in records]
        keys = {key: domain for domain in domains.all for key in discovery.keys(domain)}
        identities += [
            Identity(None, key, discovery.trust_of(domain), is_rest=True)
            for key, domain in keys.items()
        ]
        ids = derive_ids(identities, decisions, taken_down)
        for service_id, (entry, _) in zip(ids[: len(records)], records, strict=True):
            self._enter(service_id, entry, findings)
        for service_id, entry in sorted(self._services.items(), key=lambda item: -item[1].trust):
            if domain := domains.of(entry):
                text = self._text(service_id, entry)
                entry.group = discovery.claim(domain, read_endpoints(text), entry.trust)
        for service_id, entry in self._services.items():
            if self.sources[entry.source].hides and (domain := domains.of(entry)):
                reason = f"is none of the endpoints that the record of {service_id} names"
                discovery.drop(domain, HIDDEN, reason)
        rests = dict(zip(keys, ids[len(records) :], strict=True))
        for service, record in describe(rests):
            entry = self.spool(service.source, service.position, record)
            entry.discovered, entry.group, entry.trust = True, service.group, service.trust
            self._services[rests[service.key]] = entry
        self._records.clear()

    def _outranking(self, entry: CatalogueEntry, domain: str, discovery: Discovery) -> str:
        """Return the domain or a URL of a record that a more trusted source lists, or nothing."""
        if entry.trust >= discovery.greatest_trust:
            return ""
        if domain and discovery.trust_of(domain) > entry.trust:
            return domain
        urls = {url for url, _ in read_endpoints(self._text("", entry))} & discovery.trusts.keys()
        return min((url for url in urls if discovery.trusts[url] > entry.trust), default="")

    def _enter(self, service_id: str, entry: CatalogueEntry, findings: Findings) -> None:
        """Make an entry the service of an id, unless another one stays."""
        earlier = self._services.get(service_id)
        if earlier is not None and earlier.source == entry.source:
            reason = f"has the id of {earlier.position}, which is kept"
            self._leave_out(findings, entry, service_id, LeftOut(DUPLICATE_ID, "$.id", reason))
            return
        if earlier is not None and earlier.trust > entry.trust:
            reason = f"a more trusted source has {service_id}"
            self._leave_out(findings, entry, service_id, LeftOut(OUTRANKED, "$.id", reason))
            return
        if earlier is not None:
            rule = REPLACED if earlier.trust == entry.trust else OUTRANKED
            reason = f"another source has {service_id}, which is kept"
            self._leave_out(findings, earlier, service_id, LeftOut(rule, "$.id", reason))
        self._services[service_id] = entry

    @property
    def ids(self) -> list[str]:
        """The ids of the services."""
        return [*self._services]

    def entries(self) -> Iterator[tuple[str, CatalogueEntry]]:
        """Yield the services with their ids."""
        yield from self._services.items()

    def texts(self, ids: Iterable[str]) -> Iterator[bytes]:
        """Yield the JSON of these services."""
        for service_id in ids:
            yield self._text(service_id, self._services[service_id])

    def runs(self, ids: Iterable[str]) -> Iterator[RecordRun]:
        """Yield the JSON of these services in runs: consecutive kept records are one."""
        start = stop = 0
        for service_id in ids:
            entry = self._services[service_id]
            if entry.row == stop and start < stop < start + LONGEST_RUN:
                stop += 1
                continue
            if start < stop:
                yield self._kept.run(start, stop)
            start, stop = entry.row, entry.row + 1  # an empty run if it is not kept
            if entry.row == NOT_KEPT:
                start = stop = 0
                yield run_of(self._text(service_id, entry))
        if start < stop:
            yield self._kept.run(start, stop)

    def amend(
        self,
        service_id: str,
        text: bytes,
        demand: CountedDemand | None,
        overlay: Overlay | None,
        known: KnownRecords,
    ) -> None:
        """Replace the JSON of a service by a text with its usage, with an overlay applied.

        Payments decide its popularity if there are any; an overlay of the endpoints has the last
        word. Raises SourceError for an overlay that makes the service invalid.
        """
        entry = self._services[service_id]
        try:
            if overlay is not None:
                text = apply_overlay(text, overlay, summary_derived=entry.summary_derived)
            record = known.normalise(SourceRecord(entry.position, text))
        except InvalidRecord as error:
            where = overlay.where if overlay is not None else "the usage from payments"
            raise SourceError(
                f"{where}: makes {service_id} invalid: {error}; nothing was published"
            ) from error
        amended = self.spool(entry.source, entry.position, record)
        has_own_endpoints = overlay is not None and overlay.names("endpoints")
        if demand is not None:
            amended.demand_number = self._spool.add(demand.text)
            if demand.payers is not None and not has_own_endpoints:
                amended.payers, amended.endpoint_payers = demand.payers, demand.of_endpoints
        if not has_own_endpoints:
            amended.annotations_number = entry.annotations_number
        amended.discovered, amended.group = entry.discovered, entry.group
        amended.trust = entry.trust
        self._services[service_id] = amended

    def annotate(
        self, service_id: str, profile: Profile | None, endpoint_profiles: dict[int, Profile]
    ) -> None:
        """Give a service the profiles of an operator."""
        entry = self._services[service_id]
        annotations = decode_annotations(self._annotations(entry))
        described = replace(annotations, profile=profile, endpoint_profiles=endpoint_profiles)
        self._annotate(entry, described)

    def remove(self, service_id: str, denial: Denial, findings: Findings) -> None:
        """Take a service down; a discovered one is counted by its resources."""
        entry = self._services[service_id]
        if not entry.discovered:
            self._leave_out(findings, entry, service_id, TakenDown("$.id", denial))
        del self._services[service_id]

    def order(self) -> list[ListedService]:
        """Return the services in listing order: curated first, then by payers, then by id.

        A dead service is behind its equals by curation and payers.
        """
        by_id = sorted(
            (ListedService(service_id, entry) for service_id, entry in self._services.items()),
            key=lambda listed: listed.id,
        )

        def rank(listed: ListedService) -> tuple[bool, Payers, bool]:
            entry = listed.entry
            return entry.enriched, entry.payers, entry.alive != DEAD

        return sorted(by_id, key=rank, reverse=True)

    def demand(self, listing: Iterable[ListedService]) -> Iterator[DemandRow]:
        """Yield the demand of services."""
        for each in listing:
            yield DemandRow(each.id, each.entry.name, self._read(each.entry.demand_number))

    def _leave_out(
        self, findings: Findings, entry: CatalogueEntry, service_id: str | None, fault: LeftOut
    ) -> None:
        subject = read_subject(self._text(service_id or "", entry))
        tally = findings.tallies[entry.source]
        findings.withdraw(tally, entry.position, service_id, fault, subject)

    def annotations(self, ids: Iterable[str]) -> Iterator[bytes]:
        """Yield the encoded annotations of these services."""
        for service_id in ids:
            yield self._annotations(self._services[service_id])

    def _annotations(self, entry: CatalogueEntry) -> bytes:
        return self._read(entry.annotations_number)

    def _text(self, service_id: str, entry: CatalogueEntry) -> bytes:
        if entry.row != NOT_KEPT:
            return self._kept_text(entry.row)
        text = self._read(entry.text_number)
        if entry.id is None:
            text = b'{"id":"%b",%b' % (service_id.encode(), text[1:])
        return text

    def _kept_text(self, row: int) -> bytes:
        return bytes(self._kept.run(row, row + 1).content)

    def _annotate(self, entry: CatalogueEntry, annotations: Annotations) -> None:
        """Set the annotations of a service, unless there are none."""
        if text := annotations.encode():
            entry.annotations_number = self._spool.add(text)

    def _read(self, number: int | None) -> bytes:
        return b"" if number is None else self._spool.read(number)


class _Domains:
    """The domains of discovered resources, looked up by those and the ids of records."""

    def __init__(self, discovery: Discovery, decisions: Decisions) -> None:
        self.all = dict.fromkeys(discovery.domains())
        self._by_id: dict[str, str] = {}
        for domain in self.all:
            plain = plain_id(domain)
            if plain not in self._by_id or decisions.owner_of(plain) == domain:
                self._by_id[plain] = domain

    def of(self, entry: CatalogueEntry) -> str:
        """Return the domain whose resources a record may name, or an empty string."""
        if not entry.domain:
            return self._by_id.get(entry.id or "", "")
        with suppress(ValueError):
            if (domain := ascii_domain(entry.domain)) in self.all:
                return domain
        return ""
