"""The catalogue: records spooled to disk as they are read, then given ids, amended and ordered."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from msgspec import Struct

from indexer.catalogue.derived_ids import Identity, derive_ids
from indexer.catalogue.known_records import KnownRecords, Stored
from indexer.catalogue.overlays import Overlay, apply_overlay
from indexer.catalogue.record import Facts, Normalised
from indexer.errors import InvalidRecord, SourceError
from indexer.record_store import Run, run_of
from indexer.segments.kept import NOT_KEPT, KeptRecords
from indexer.sources.records import SourceRecord
from indexer.sources.rejects import Reject, Rejects

LONGEST_RUN = 256  # records
NO_SOURCE = -1
NO_GROUP = -1


class Entry(Struct, gc=False):
    """A record: its place in its source, and what decides its order.

    Its text is in the spool from `start` to `stop`, or in a `row` of the kept records.

    `group` is the number that `Discovery` gave to the service, or to the discovered service that
    the record replaces, or NO_GROUP.
    """

    source: int
    position: str
    id: str | None
    domain: str
    name: str
    enriched: bool
    calls: int
    endpoints: int
    summary_derived: bool
    start: int = 0
    stop: int = 0
    discovered: bool = False
    group: int = NO_GROUP
    row: int = NOT_KEPT


class Listed(Struct, gc=False):
    """A service of the listing: its id and its entry."""

    id: str
    entry: Entry


class Catalogue:
    """The records of all sources; only what orders them is in memory.

    Discovered services come before all catalogue records, whatever the order of the sources: a
    record that somebody wrote replaces what was discovered.
    """

    def __init__(self, spool: BinaryIO, kept: KeptRecords) -> None:
        self._spool, self._kept = spool, kept
        self._end = 0
        self._discovered: list[Entry] = []
        self._entries: list[Entry] = []
        self._services: dict[str, Entry] = {}

    def add(
        self, source: int, position: str, record: Normalised | Stored, group: int = NO_GROUP
    ) -> None:
        """Add a record of a source, by its index in `Rejects.tallies`, or a discovered service."""
        if isinstance(record, Stored):
            entry = _entry(source, position, record.facts)
            entry.row = record.row
        else:
            entry = self._write(source, position, record)
        entry.discovered, entry.group = group != NO_GROUP, group
        (self._discovered if entry.discovered else self._entries).append(entry)

    def identify(self, rejects: Rejects) -> None:
        """Give every record its id, and resolve duplicate ids.

        Within one source the first record stays, of several sources the last one. All discovered
        services count as one source of their own. A record takes over the group of a service that
        it replaces.
        """
        entries = [*self._discovered, *self._entries]
        ids = derive_ids(
            Identity(NO_SOURCE if entry.discovered else entry.source, entry.id, entry.domain)
            for entry in entries
        )
        for service_id, entry in zip(ids, entries, strict=True):
            earlier = self._services.get(service_id)
            if earlier is not None and not earlier.discovered and earlier.source == entry.source:
                _reject_duplicate(rejects, service_id, entry, earlier)
                continue
            if earlier is not None:
                entry.group = earlier.group if entry.group == NO_GROUP else entry.group
                if not earlier.discovered:
                    rejects.tallies[earlier.source].left_out["replaced by a later source"] += 1
            self._services[service_id] = entry
        self._discovered.clear()
        self._entries.clear()

    @property
    def ids(self) -> list[str]:
        """The ids of the services."""
        return [*self._services]

    def entries(self) -> Iterator[tuple[str, Entry]]:
        """Yield the services with their ids."""
        yield from self._services.items()

    def texts(self, ids: Iterable[str]) -> Iterator[bytes]:
        """Yield the JSON of these services."""
        self._spool.flush()
        for service_id in ids:
            yield self._text(service_id, self._services[service_id])

    def runs(self, ids: Iterable[str]) -> Iterator[Run]:
        """Yield the JSON of these services in runs: consecutive kept records are one."""
        self._spool.flush()
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
        added_calls: int,
        overlay: Overlay | None,
        known: KnownRecords,
        rejects: Rejects,
    ) -> None:
        """Replace the JSON of a service, with an overlay applied, or remove the service.

        `added_calls` bounds the calls that the text adds: endpoints that share an address each
        name all of its calls, which count once. An overlay of the endpoints has the last word.
        Raises SourceError for an overlay that makes the service invalid.
        """
        entry = self._services[service_id]
        try:
            amended: bytes | None = text
            if overlay is not None:
                amended = apply_overlay(text, overlay, summary_derived=entry.summary_derived)
            if amended is None:
                del self._services[service_id]
                if not entry.discovered:
                    rejects.tallies[entry.source].left_out["removed by an overlay"] += 1
                return
            record = known.normalise(SourceRecord(entry.position, amended))
        except InvalidRecord as error:
            where = overlay.where if overlay is not None else "the usage from payments"
            raise SourceError(
                f"{where}: makes {service_id} invalid: {error}; nothing was published"
            ) from error
        amended_entry = self._write(entry.source, entry.position, record)
        if overlay is None or not overlay.names("endpoints"):
            amended_entry.calls = min(amended_entry.calls, entry.calls + added_calls)
        amended_entry.discovered, amended_entry.group = entry.discovered, entry.group
        self._services[service_id] = amended_entry

    def order(self) -> list[Listed]:
        """Return the services in listing order: curated first, then by calls, then by id."""
        return sorted(
            (Listed(service_id, entry) for service_id, entry in self._services.items()),
            key=lambda listed: (not listed.entry.enriched, -listed.entry.calls, listed.id),
        )

    def _text(self, service_id: str, entry: Entry) -> bytes:
        if entry.row != NOT_KEPT:
            return self._kept.run(entry.row, entry.row + 1).content
        text = os.pread(self._spool.fileno(), entry.stop - entry.start, entry.start)
        if entry.id is None:
            text = b'{"id":"%b",%b' % (service_id.encode(), text[1:])
        return text

    def _write(self, source: int, position: str, record: Normalised) -> Entry:
        entry = _entry(source, position, record.facts)
        entry.start = self._end
        self._end += self._spool.write(record.text)
        entry.stop = self._end
        return entry


def _entry(source: int, position: str, facts: Facts) -> Entry:
    return Entry(
        source=source,
        position=position,
        id=facts.id,
        domain=facts.domain,
        name=facts.name,
        enriched=facts.enriched,
        calls=int(facts.calls),
        endpoints=facts.endpoints,
        summary_derived=bool(facts.summary),
    )


def _reject_duplicate(rejects: Rejects, service_id: str, entry: Entry, earlier: Entry) -> None:
    tally = rejects.tallies[entry.source]
    reason = f"has the id of {earlier.position}, which is kept"
    reject = Reject(tally.source, entry.position, service_id, "$.id", reason)
    rejects.left_out(tally, "duplicate ids", reject)
