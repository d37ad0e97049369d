"""The catalogue: records spooled as they are read, then given their ids, changes and order."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO

from msgspec import Struct

from indexer.catalogue.derived_ids import Identity, derive_ids
from indexer.catalogue.overlays import Overlay, apply_overlay
from indexer.catalogue.record import Normalised, normalise
from indexer.errors import InvalidRecord, SourceError
from indexer.sources.records import SourceRecord
from indexer.sources.rejects import Reject, Rejects

NO_SOURCE = -1


class Entry(Struct, gc=False):
    """Where a record is spooled, where it came from, and what decides its id and place."""

    source: int
    position: str
    id: str | None
    domain: str
    name: str
    enriched: bool
    calls: int
    endpoints: int
    summary_derived: bool
    discovered: bool
    start: int
    stop: int


class Listed(Struct, gc=False):
    """An entry of the listing, with the id that it is found by."""

    id: str
    entry: Entry


class Catalogue:
    """Records of all sources; their text stays on disk, in a spool file.

    What is discovered comes before any catalogue record, whatever the order of the sources: a
    record that somebody wrote of a service replaces what was found out about it.
    """

    def __init__(self, spool: BinaryIO) -> None:
        self._spool = spool
        self._discovered: list[Entry] = []
        self._entries: list[Entry] = []
        self._services: dict[str, Entry] = {}

    def add(
        self, source: int, position: str, record: Normalised, *, discovered: bool = False
    ) -> None:
        """Spool one record of the source that `Rejects.tallies` counts at this index."""
        entries = self._discovered if discovered else self._entries
        entries.append(self._spooled(source, position, record, discovered))

    def identify(self, rejects: Rejects) -> None:
        """Give every record its id.

        Of the records of one source that share an id the first stays, of several sources the last.
        What is discovered is of no one source, also where a file holds catalogue records beside it.
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
                by = "a catalogue record" if earlier.discovered else "a later source"
                rejects.tallies[earlier.source].left_out[f"replaced by {by}"] += 1
            self._services[service_id] = entry
        self._discovered.clear()
        self._entries.clear()

    def overlay(self, overlays: Mapping[str, Overlay], rejects: Rejects) -> None:
        """Apply overlays to the services of their ids.

        Raises SourceError for one that makes a service invalid.
        """
        for service_id, overlay in overlays.items():
            entry = self._services.get(service_id)
            if entry is None:
                rejects.unused_overlays.append(f"{overlay.where}: {service_id}")
                continue
            text = self._text(service_id, entry)
            try:
                patched = apply_overlay(text, overlay, summary_derived=entry.summary_derived)
                if patched is None:
                    del self._services[service_id]
                    rejects.tallies[entry.source].left_out["removed by an overlay"] += 1
                else:
                    record = normalise(SourceRecord(entry.position, patched))
                    spooled = self._spooled(entry.source, entry.position, record, entry.discovered)
                    self._services[service_id] = spooled
            except InvalidRecord as fault:
                raise SourceError(
                    f"{overlay.where}: makes {service_id} invalid: {fault}; nothing was published"
                ) from fault

    @property
    def ids(self) -> list[str]:
        """The ids of the services."""
        return [*self._services]

    def texts(self, ids: Iterable[str]) -> Iterator[bytes]:
        """The JSON of these services."""
        for service_id in ids:
            yield self._text(service_id, self._services[service_id])

    def replace(self, service_id: str, text: bytes, added_calls: int = 0) -> None:
        """Replace the JSON of a service, which makes at most so many calls more.

        They count once, also where several endpoints say that each of them got all.
        """
        entry = self._services[service_id]
        record = normalise(SourceRecord(entry.position, text))
        replaced = self._spooled(entry.source, entry.position, record, entry.discovered)
        replaced.calls = min(replaced.calls, entry.calls + added_calls)
        replaced.summary_derived |= entry.summary_derived
        self._services[service_id] = replaced

    def order(self) -> list[Listed]:
        """The services, best known first."""
        return sorted(
            (Listed(service_id, entry) for service_id, entry in self._services.items()),
            key=lambda listed: (not listed.entry.enriched, -listed.entry.calls, listed.id),
        )

    def _spooled(self, source: int, position: str, record: Normalised, discovered: bool) -> Entry:
        start = self._spool.tell()
        stop = start + self._spool.write(record.text)
        return Entry(
            source=source,
            position=position,
            id=record.id,
            domain=record.domain,
            name=record.name,
            enriched=record.enriched,
            calls=record.calls,
            endpoints=record.endpoints,
            summary_derived=record.summary_derived,
            discovered=discovered,
            start=start,
            stop=stop,
        )

    def _text(self, service_id: str, entry: Entry) -> bytes:
        self._spool.flush()
        text = os.pread(self._spool.fileno(), entry.stop - entry.start, entry.start)
        return text if entry.id is not None else b'{"id":"%b",%b' % (service_id.encode(), text[1:])


def _reject_duplicate(rejects: Rejects, service_id: str, entry: Entry, earlier: Entry) -> None:
    tally = rejects.tallies[entry.source]
    reason = f"has the id of {earlier.position}, which is kept"
    reject = Reject(tally.source, entry.position, service_id, "$.id", reason)
    rejects.left_out(tally, "duplicate ids", reject)
