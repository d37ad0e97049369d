"""The catalogue: records with their ids, amended and ordered; their texts are in the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from indexer.catalogue.known import KnownResults
from indexer.catalogue.overlays import SUMMARY, Overlay, apply_overlay
from indexer.catalogue.records import MAX_AMENDED, Record, disbelieve, given_id, read_record
from indexer.catalogue.table import ItemTable
from indexer.derive.records import MAX_PAYERS, Annotations, decode_annotations
from indexer.errors import InvalidRecord, LeftOut, SourceError
from indexer.index.popularity import Payers
from indexer.intake.fates import read_subject
from indexer.intake.findings import Findings
from indexer.intake.rules import TakenDown
from indexer.options import Denial, SourceOptions
from indexer.probes.verdicts import DEAD, UNDECIDED
from indexer.snapshot.ecosystem import CountedDemand
from indexer.untrusted import raw_items, raw_members
from service.schema.profiles import Profile


class ListedService(Struct, gc=False):
    """A service: the place of its record in its source, and the values that order it.

    number: of its texts in the table
    given: the id that its record states
    endpoint_payers: by the index of the endpoint
    alive: the verdict of trusted probers
    """

    number: int
    source: int
    position: str
    given: str | None
    domain: str
    name: str
    enriched: bool
    payers: Payers
    endpoints: int
    summary_derived: bool
    trust: int
    discovered: bool = False
    id: str = ""
    endpoint_payers: dict[int, Payers] | None = None
    alive: int = UNDECIDED


class Catalogue:
    """The records of all sources; only the values that order them are in memory.

    sources: the source of each entry, by its number
    records: those that are accepted and have no id yet
    services: those that have one, by it

    No price above `max_price` is believed.
    """

    def __init__(self, table: ItemTable, known: KnownResults, max_price: Decimal) -> None:
        self.table, self.known, self._max_price = table, known, max_price
        self.sources: list[SourceOptions] = []
        self.records: list[ListedService] = []
        self.services: dict[str, ListedService] = {}

    def add(
        self,
        record: Record,
        source: int,
        position: str,
        outputs: Sequence[str] = (),
        number: int | None = None,
    ) -> ListedService:
        """Write a record of a source to the table, for `records` or `services`.

        outputs: names of the output fields of its endpoints, where it does not declare them
        number: of the record that it replaces
        """
        implausible = disbelieve(record, self._max_price)
        annotations = Annotations([*outputs], implausible=implausible).encode()
        return ListedService(
            number=self.table.put_service(record.text, annotations, number=number),
            source=source,
            position=position,
            given=record.id,
            domain=record.domain,
            name=record.name,
            enriched=record.enriched,
            payers=Payers(0, min(record.payers, MAX_PAYERS)),
            endpoints=record.endpoints,
            summary_derived=bool(record.summary),
            trust=self.sources[source].trust,
        )

    def text(self, service: ListedService) -> bytes:
        """Return the JSON of a service."""
        text, _, _ = self.table.service(service.number)
        if service.given is None:
            return b'{"id":"%b",%b' % (service.id.encode(), text[1:])
        return text

    def annotations(self, services: Iterable[ListedService]) -> Iterator[bytes]:
        """Yield the encoded annotations of services."""
        return (self.table.service(each.number)[1] for each in services)

    def demand(self, services: Iterable[ListedService]) -> Iterator[tuple[str, str, bytes]]:
        """Yield the id, the name and the JSON of the demand of services."""
        for each in services:
            yield each.id, each.name, self.table.service(each.number)[2]

    def amend(
        self,
        service: ListedService,
        text: bytes,
        demand: CountedDemand | None,
        overlay: Overlay | None,
    ) -> None:
        """Replace the JSON of a service by a text with its usage, with an overlay applied.

        Payments decide its popularity if there are any; an overlay of the endpoints has the last
        word. Raises SourceError for an overlay that makes the service invalid.
        """
        try:
            if overlay is not None:
                text = apply_overlay(text, overlay, summary_derived=service.summary_derived)
            record = read_record(text, MAX_AMENDED)
        except InvalidRecord as error:
            where = overlay.where if overlay is not None else "the usage from payments"
            raise SourceError(
                f"{where}: makes {service.id} invalid: {error}; nothing was published"
            ) from error
        _, annotations, _ = self.table.service(service.number)
        implausible = disbelieve(record, self._max_price)
        service.given, service.domain, service.name = record.id, record.domain, record.name
        service.enriched, service.endpoints = record.enriched, record.endpoints
        service.payers = Payers(0, min(record.payers, MAX_PAYERS))
        if overlay is not None and overlay.names("endpoints"):
            annotations = Annotations(implausible=implausible).encode()
        elif demand is not None and demand.payers is not None:
            service.payers, service.endpoint_payers = demand.payers, demand.of_endpoints
        counted = b"" if demand is None else demand.text
        self.table.put_service(record.text, annotations, counted, service.number)

    def annotate(
        self, service: ListedService, profile: Profile | None, endpoint_profiles: dict[int, Profile]
    ) -> None:
        """Give a service the profiles of an operator."""
        text, encoded, demand = self.table.service(service.number)
        annotations = decode_annotations(encoded)
        described = replace(annotations, profile=profile, endpoint_profiles=endpoint_profiles)
        self.table.put_service(text, described.encode(), demand, service.number)

    def strip(
        self, service: ListedService, faults: Mapping[int, LeftOut], findings: Findings
    ) -> ListedService:
        """Count endpoints of a record that are not published; returns it without them."""
        text, _, _ = self.table.service(service.number)
        members, tally = raw_members(text), findings.tallies[service.source]
        items = raw_items(members["endpoints"])
        for number, fault in faults.items():
            subject = read_subject(bytes(items[number]))
            findings.refuse(tally, service.position, given_id(text), fault, subject)
        kept = [item for number, item in enumerate(items) if number not in faults]
        members["endpoints"] = Raw(msgspec.json.encode(kept))
        members.pop(SUMMARY, None)  # it was of all endpoints, and is derived again
        record = read_record(msgspec.json.encode(members))
        return self.add(record, service.source, service.position, number=service.number)

    def leave_out(self, service: ListedService, fault: LeftOut, findings: Findings) -> None:
        """Count a record of a source that is not published."""
        subject, tally = read_subject(self.text(service)), findings.tallies[service.source]
        shown = service.id or service.given
        findings.withdraw(tally, service.position, shown, fault, subject)

    def remove(self, service: ListedService, denial: Denial, findings: Findings) -> None:
        """Take a service down; a discovered one is counted by its resources."""
        if not service.discovered:
            self.leave_out(service, TakenDown("$.id", denial), findings)
        del self.services[service.id]

    def order(self) -> list[ListedService]:
        """Return the services in listing order: curated first, then by payers, then by id.

        A dead service is behind its equals by curation and payers.
        """

        def rank(service: ListedService) -> tuple[bool, Payers, bool]:
            return service.enriched, service.payers, service.alive != DEAD

        by_id = sorted(self.services.values(), key=lambda service: service.id)
        return sorted(by_id, key=rank, reverse=True)
