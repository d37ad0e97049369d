"""Writing the file of `service.snapshot.listings`: the fates of the URLs that sources name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from indexer.derive.columns import RecordColumns
from indexer.derive.ragged import first_equal, is_first
from indexer.intake.findings import NO_HOST, FateRows, FateSpool, Subject
from service.arrays.container import narrow, writing_arrays
from service.arrays.texts import write_texts
from service.schema.listings import FATES, Advice, Fate, ListingFate
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

Columns = tuple[npt.ArrayLike, ...]
"""Columns of fates: the hash of the URL, the fate, and those of `rows` in the file."""

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
    drifted: Mask,
    fates: FateSpool,
) -> None:
    """Write the file for the stored services, in listing order.

    urls: those of the published resources
    drifted: bool[endpoints], whether the 402 of an endpoint has other terms than its listing
    """
    endpoints, named, unlisted = columns.endpoints, urls.rows(), fates.rows()
    services = np.repeat(np.arange(len(columns.services)), columns.services["endpoints"])
    address, is_url = endpoints["address"], endpoints["address"] != 0
    own_advice = np.where(records.sources[services] == NO_SOURCE, 0, endpoints["advice"])
    own_advice[drifted] |= np.uint32(Advice.OTHER_TERMS)
    listed = np.sort(np.concatenate((named["url"], address[is_url])))
    below, upto = (np.searchsorted(listed, unlisted["url"], side) for side in ("left", "right"))
    others = unlisted[below == upto]
    _, firsts, numbers = np.unique(unlisted["text"], return_index=True, return_inverse=True)
    notes = (
        ListingFate(source=each.name, fate=Fate.NOTED, reason=SEVERAL) for each in fates.sources
    )
    texts = [*map(_encode, notes), *map(fates.texts.read, unlisted["number"][firsts].tolist())]
    of_text = numbers + len(fates.sources) - len(texts), NO_PLACE
    url, _, *rows = _sorted(
        *_published(columns, named, services, records),
        _merged(named, len(texts)),
        (unlisted["url"], unlisted["fate"], unlisted["source"], *of_text),
    )
    known = np.sort(np.concatenate((url, address[is_url])))  # np.unique takes seconds to hash them
    known = known[is_first(known)]
    advice = np.zeros(len(known), np.uint16)
    advised = ((address[is_url], own_advice[is_url]), *(_advice(each) for each in (named, others)))
    for keys, bits in advised:
        np.bitwise_or.at(advice, np.searchsorted(known, keys), bits.astype(np.uint16))
    keys, best = _others(others[others["fate"] != NOTED], fates.payees())
    with writing_arrays(path) as writer:
        writer.write("urls", known)
        writer.write("first", narrow(np.append(np.searchsorted(url, known), len(url))))
        writer.write("advice", advice)
        writer.write("rows", np.stack(rows, axis=1).astype(np.int32))
        write_texts(writer, "fates", texts)
        writer.write("sources", np.frombuffer(_encode(fates.sources), np.uint8))
        writer.write("hosts", endpoints["host"])
        writer.write("others", keys)
        writer.write("other_fates", best)


def _published(
    columns: RecordColumns,
    named: FateRows,
    services: Integers,
    records: RecordPlaces,
) -> Iterator[Columns]:
    """Yield the fates of published resources, of records, and of those without a URL."""
    endpoints, (sources, positions) = columns.endpoints, records
    places = np.arange(len(services)) - columns.first_endpoints[services]
    same_service = np.concatenate((services, named["service"]))
    rows = first_equal(np.concatenate((endpoints["address"], named["target"])), same_service)
    numbers = np.append(places, np.full(len(named), NO_PLACE))[rows[len(services) :]]
    yield named["url"], PUBLISHED, named["source"], named["service"], numbers
    own = np.flatnonzero((endpoints["address"] != 0) & (sources[services] != NO_SOURCE))
    owners = services[own]
    yield endpoints["address"][own], PUBLISHED, sources[owners], owners, places[own]
    is_alone = sources != NO_SOURCE
    is_alone[owners] = False
    alone = np.flatnonzero(is_alone)
    yield positions[alone], PUBLISHED, sources[alone], alone, NO_PLACE


def _merged(named: FateRows, texts: int) -> Columns:
    """Return the notes on URLs that several sources name; the first texts are these notes."""
    order = np.lexsort((named["source"], named["url"]))
    pairs = named[order][is_first(named["url"][order], named["source"][order])]
    _, urls, counts = np.unique(pairs["url"], return_inverse=True, return_counts=True)
    several = pairs[counts[urls] > 1]
    return several["url"], NOTED, several["source"], several["source"] - texts, NO_PLACE


def _sorted(*parts: Columns) -> list[npt.NDArray[Any]]:
    """Return fates in the order of their columns, each once and the first few of a source."""
    broadcast = [np.broadcast_arrays(*part) for part in parts]
    columns = [np.concatenate(column) for column in zip(*broadcast, strict=True)]
    url, fate, source, service, endpoint = columns
    keys = url, fate << 32 | source, service << 32 | (endpoint - NO_PLACE)
    order = np.lexsort(keys[::-1])
    order = order[is_first(*(key[order] for key in keys))]
    url, source = url[order], source[order]
    by_source = np.lexsort((source, url))  # stable: the best first
    starts = np.flatnonzero(is_first(url[by_source], source[by_source]))
    sizes = np.diff(np.append(starts, len(order)))
    ranks = np.arange(len(order)) - np.repeat(starts, sizes)
    order = order[np.sort(by_source[ranks < MAX_REPEATED])]
    return [column[order] for column in columns]


def _advice(rows: FateRows) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    return rows["url"], rows["advice"]


def _others(
    unlisted: FateRows, payees: FateRows
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]:
    """Return the hosts and the payees of the URLs that are not listed, with the best fates."""
    best = unlisted[np.lexsort((unlisted["fate"], unlisted["url"]))]
    best = best[is_first(best["url"])]
    paid = payees[np.isin(payees["url"], best["url"])]
    of_paid = best[np.searchsorted(best["url"], paid["url"])]
    hosted = best[best["host"] != NO_HOST]
    keys = np.concatenate((hosted["host"], paid["payee"]))
    urls = np.concatenate((hosted["url"], paid["url"]))
    fates = np.concatenate((hosted["fate"], of_paid["fate"]))
    order = np.lexsort((urls, keys))
    order = order[is_first(keys[order], urls[order])]
    return keys[order], fates[order].astype(np.uint8)
