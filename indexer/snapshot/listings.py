"""Writing the file of `service.snapshot.listings`: the fates of the URLs that sources name."""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from indexer.derive.columns import RecordColumns
from indexer.derive.ragged import first_equal, is_first
from indexer.intake.fates import NO_HOST, FateRows, FateSpool, Subject
from service.arrays.container import narrow, writing_arrays
from service.arrays.texts import write_texts
from service.schema.listings import FATES, Fate, ListingFate
from service.search.postings import Integers, Mask
from service.snapshot.listings import NO_PLACE

NO_SOURCE = -1
"""The source of the record of a discovered service."""
MAX_REPEATED = 20
"""Rows of one URL in one source."""
PUBLISHED, NOTED = FATES.index(Fate.PUBLISHED), FATES.index(Fate.NOTED)
SEVERAL = "is merged with the listings of other sources"
NAMED = np.dtype(
    [("url", "<u8"), ("target", "<u8"), ("source", "<i4"), ("service", "<i4"), ("advice", "<i4")]
)
FATE = np.dtype(
    [("url", "<u8"), ("fate", "<i4"), ("source", "<i4"), ("service", "<i4"), ("endpoint", "<i4")]
)
"""A fate of a URL, by its number in FATES; the last three fields are a row of the file."""
FATE_FIELDS = FATE.names or ()

_named = Struct("<QQiii")
_encode = msgspec.json.Encoder().encode


class RecordPlaces(NamedTuple):
    """The records of services: the source of each, and the hash of its position there.

    sources: NO_SOURCE for discovered services
    """

    sources: npt.NDArray[np.int32]
    positions: npt.NDArray[np.uint64]


class NamedUrls:
    """Collects the URLs of published resources."""

    def __init__(self) -> None:
        self._rows = bytearray()

    def add(self, subject: Subject, source: int, service: int) -> None:
        """Add a resource of a source that a service has; the last URL is that of its endpoint."""
        for url, _ in subject.addresses:
            target = subject.addresses[-1].url
            self._rows += _named.pack(url, target, source, service, int(subject.advice))

    def rows(self) -> FateRows:
        """Return the URLs, as NAMED."""
        return np.frombuffer(self._rows, NAMED)


def write_listings(
    path: Path,
    columns: RecordColumns,
    urls: NamedUrls,
    records: RecordPlaces,
    seen: npt.NDArray[np.uint16],
    fates: FateSpool,
) -> None:
    """Write the file for the stored services, in listing order.

    urls: those of the published resources
    seen: uint16[endpoints], advice that follows from what probers saw
    """
    endpoints, named, unlisted = columns.endpoints, urls.rows(), fates.rows()
    services = np.repeat(np.arange(len(columns.services)), columns.services["endpoints"])
    address, is_url = endpoints["address"], endpoints["address"] != 0
    notes = [
        ListingFate(source=each.name, fate=Fate.NOTED, reason=SEVERAL) for each in fates.sources
    ]
    _, firsts, numbers = np.unique(unlisted["text"], return_index=True, return_inverse=True)
    texts = [*map(_encode, notes), *map(fates.texts.read, unlisted["number"][firsts].tolist())]
    number = numbers + len(notes) - len(texts)
    rows = _in_order(
        _of_resources(columns, named, services),
        _of_records(columns, services, records),
        _of_several_sources(named, len(texts)),
        _rows(unlisted["url"], unlisted["fate"], unlisted["source"], number, NO_PLACE),
    )
    known = np.sort(np.concatenate((rows["url"], address[is_url])))
    known = known[is_first(known)]  # np.unique takes seconds to hash them
    others = unlisted[~_is_in(unlisted["url"], np.concatenate((named["url"], address[is_url])))]
    own_advice = np.where(records.sources[services] == NO_SOURCE, 0, endpoints["advice"])
    own_advice |= seen
    advice = np.zeros(len(known), np.uint16)
    for url, bits in (
        (address[is_url], own_advice[is_url]),
        (named["url"], named["advice"]),
        (others["url"], others["advice"]),
    ):
        np.bitwise_or.at(advice, np.searchsorted(known, url), bits.astype(np.uint16))
    keys, best = _count_others(others[others["fate"] != NOTED], fates.payees())
    with writing_arrays(path) as writer:
        writer.write("urls", known)
        writer.write("first", narrow(np.append(np.searchsorted(rows["url"], known), len(rows))))
        writer.write("advice", advice)
        writer.write("rows", np.stack([rows[name] for name in FATE_FIELDS[2:]], axis=1))
        write_texts(writer, "fates", texts)
        writer.write("sources", np.frombuffer(_encode(fates.sources), np.uint8))
        writer.write("hosts", endpoints["host"])
        writer.write("others", keys)
        writer.write("other_fates", best)


def _rows(*fields: npt.ArrayLike) -> FateRows:
    """Return rows of type FATE; a field that is a number is that of all rows."""
    columns = np.broadcast_arrays(*fields)
    rows = np.empty(len(columns[0]), FATE)
    for name, column in zip(FATE_FIELDS, columns, strict=True):
        rows[name] = column
    return rows


def _of_resources(columns: RecordColumns, named: FateRows, services: Integers) -> FateRows:
    """Return the fates of published resources; `services` are those of the endpoints."""
    urls = np.concatenate((columns.endpoints["address"], named["target"]))
    endpoint = first_equal(urls, np.concatenate((services, named["service"])))[len(services) :]
    places = np.arange(len(services)) - columns.first_endpoints[services]
    places = np.append(places, np.full(len(named), NO_PLACE))  # of those that no endpoint equals
    return _rows(named["url"], PUBLISHED, named["source"], named["service"], places[endpoint])


def _of_records(columns: RecordColumns, services: Integers, records: RecordPlaces) -> FateRows:
    """Return the fates of records by the URLs of their endpoints, or else by their positions."""
    address, (sources, positions) = columns.endpoints["address"], records
    own = np.flatnonzero((address != 0) & (sources[services] != NO_SOURCE))
    owners = services[own]
    places = own - columns.first_endpoints[owners]
    alone = np.setdiff1d(np.flatnonzero(sources != NO_SOURCE), owners)
    return np.concatenate(
        (
            _rows(address[own], PUBLISHED, sources[owners], owners, places),
            _rows(positions[alone], PUBLISHED, sources[alone], alone, NO_PLACE),
        )
    )


def _of_several_sources(named: FateRows, texts: int) -> FateRows:
    """Return the notes on URLs that several sources name; the first texts are these notes."""
    order = np.lexsort((named["source"], named["url"]))
    pairs = named[order][is_first(named["url"][order], named["source"][order])]
    _, urls, counts = np.unique(pairs["url"], return_inverse=True, return_counts=True)
    several = pairs[counts[urls] > 1]
    source = several["source"]
    return _rows(several["url"], NOTED, source, source - texts, NO_PLACE)


def _in_order(*parts: FateRows) -> FateRows:
    """Return rows in the order of their fields, each once, at most MAX_REPEATED of a source."""
    rows = np.concatenate(parts)
    rows = rows[np.lexsort([rows[name] for name in reversed(FATE_FIELDS)])]
    rows = rows[is_first(*(rows[name] for name in FATE_FIELDS))]
    order = np.lexsort((rows["source"], rows["url"]))  # stable: the best of each source first
    starts = np.flatnonzero(is_first(rows["url"][order], rows["source"][order]))
    sizes = np.diff(np.append(starts, len(rows)))
    ranks = np.arange(len(rows)) - np.repeat(starts, sizes)
    return rows[np.sort(order[ranks < MAX_REPEATED])]


def _is_in(hashes: npt.NDArray[np.uint64], others: npt.NDArray[np.uint64]) -> Mask:
    """Return which hashes are among others."""
    others = np.sort(others)
    return np.searchsorted(others, hashes, "left") < np.searchsorted(others, hashes, "right")


def _count_others(
    unlisted: FateRows, payees: FateRows
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]:
    """Return the hosts and the payees of the URLs that are not listed, with the best fates."""
    best = unlisted[np.lexsort((unlisted["fate"], unlisted["url"]))]
    best = best[is_first(best["url"])]
    paid = payees[_is_in(payees["url"], best["url"])]
    of_paid = best[np.searchsorted(best["url"], paid["url"])]
    hosted = best[best["host"] != NO_HOST]
    keys = np.concatenate((hosted["host"], paid["payee"]))
    urls = np.concatenate((hosted["url"], paid["url"]))
    fates = np.concatenate((hosted["fate"], of_paid["fate"]))
    order = np.lexsort((urls, keys))
    order = order[is_first(keys[order], urls[order])]
    return keys[order], fates[order].astype(np.uint8)
