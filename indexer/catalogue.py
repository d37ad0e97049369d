"""The catalogue: records spooled as they are read, then given their ids and their order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from indexer.ids import Identity, derive_ids
from indexer.normalise import Normalised
from indexer.rejects import Reject, Rejects
from service.mapped import open_bytes


class Entry(Struct, gc=False):
    """Where a record is spooled, where it came from, and what decides its id and place."""

    source: int
    position: str
    id: str | None
    domain: str
    enriched: bool
    calls: int
    endpoints: int
    start: int
    stop: int


class Listed(Struct, gc=False):
    """An entry of the listing, with the id that it is found by."""

    id: str
    entry: Entry


class Catalogue:
    """Records of all sources; their text stays on disk, in a spool file."""

    def __init__(self, spool: BinaryIO) -> None:
        self._spool = spool
        self._entries: list[Entry] = []

    def add(self, source: int, position: str, record: Normalised) -> None:
        """Spool one record of the source that `Rejects.tallies` counts at this index."""
        start = self._spool.tell()
        stop = start + self._spool.write(record.text)
        self._entries.append(
            Entry(
                source=source,
                position=position,
                id=record.id,
                domain=record.domain,
                enriched=record.enriched,
                calls=record.calls,
                endpoints=record.endpoints,
                start=start,
                stop=stop,
            )
        )

    def order(self, rejects: Rejects) -> list[Listed]:
        """The services, best known first.

        Of the records of one source that share an id the first stays, of several sources the last.
        """
        services: dict[str, Entry] = {}
        ids = derive_ids(Identity(entry.source, entry.id, entry.domain) for entry in self._entries)
        for service_id, entry in zip(ids, self._entries, strict=True):
            earlier = services.get(service_id)
            if earlier is None:
                services[service_id] = entry
            elif earlier.source == entry.source:
                _reject_duplicate(rejects, service_id, entry, earlier)
            else:
                rejects.tallies[earlier.source].left_out["replaced by a later source"] += 1
                services[service_id] = entry
        return sorted(
            (Listed(service_id, entry) for service_id, entry in services.items()),
            key=lambda listed: (not listed.entry.enriched, -listed.entry.calls, listed.id),
        )

    def texts(self, services: list[Listed]) -> Iterator[bytes]:
        """The JSON of these services, each with its id."""
        self._spool.flush()
        spool = open_bytes(Path(self._spool.name))
        for listed in services:
            text = spool[listed.entry.start : listed.entry.stop]
            if listed.entry.id is None:
                text = b'{"id":"%b",%b' % (listed.id.encode(), text[1:])
            yield text


def _reject_duplicate(rejects: Rejects, service_id: str, entry: Entry, earlier: Entry) -> None:
    tally = rejects.tallies[entry.source]
    reason = f"has the id of {earlier.position}, which is kept"
    reject = Reject(tally.source, entry.position, service_id, "$.id", reason)
    rejects.left_out(tally, "duplicate ids", reject)
