"""Writing the tables of `service.snapshot.listings`: which sources name a URL, and its fates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from indexer.derive.columns import RecordColumns, packer
from indexer.derive.ragged import is_first
from indexer.intake.findings import NO_ADVICE, NO_HOST, FateRows, FateSpool, Subject
from service.schema.listings import Advice
from service.snapshot.listings import NO_SOURCE, NOTED
from service.storage.container import write_arrays, writing_arrays
from service.storage.texts import write_texts

NO_TARGET = 0
MAX_REPEATED = 20
"""Rows of one URL in one source."""
NAMED = np.dtype(
    [("url", "<u8"), ("target", "<u8"), ("source", "<i4"), ("service", "<i4"), ("advice", "<i4")]
)
KEY = ("url", "source", "service", "target")

UrlHashes = npt.NDArray[np.uint64]
_named = packer(NAMED)
_encode = msgspec.json.Encoder().encode


class RecordPlace(NamedTuple):
    """The source of a catalogue record, and the key of its position."""

    source: int
    key: int


NO_RECORD = RecordPlace(NO_SOURCE, 0)
"""The place of the record of a discovered service."""


class NamedUrls:
    """Collects the URLs of published resources, or the keys of records without URLs."""

    def __init__(self) -> None:
        self._rows = bytearray()

    def add(self, subject: Subject, source: int, service: int) -> None:
        """Add a resource of a source that a service has; the last URL is that of its endpoint."""
        for url, _ in subject.addresses:
            target = subject.addresses[-1].url
            self._rows += _named.pack(url, target, source, service, int(subject.advice))

    def add_record(self, key: int, source: int, service: int) -> None:
        """Add a record without a URL that a service has, by the key of its position."""
        self._rows += _named.pack(key, NO_TARGET, source, service, int(NO_ADVICE))

    def rows(self) -> FateRows:
        """Return the rows, as NAMED, by URL, source, service and target; each once."""
        rows = np.frombuffer(self._rows, NAMED)
        rows = rows[np.lexsort((rows["target"], rows["service"], rows["source"], rows["url"]))]
        starts = np.flatnonzero(is_first(*(rows[name] for name in KEY)))
        distinct = rows[starts]
        distinct["advice"] = np.bitwise_or.reduceat(rows["advice"], starts)
        return distinct


def write_listings(
    folder: Path,
    columns: RecordColumns,
    urls: NamedUrls,
    records: Sequence[RecordPlace],
    drifted: npt.NDArray[np.bool_],
    fates: FateSpool,
) -> None:
    """Write the tables of the stored services, in listing order.

    records: the place of the record of each service
    drifted: bool[endpoints], whether the 402 of an endpoint has other terms than its listing
    """
    folder.mkdir()
    endpoints = columns.endpoints
    sources = np.asarray([each.source for each in records], np.int32)
    owners = np.repeat(sources, columns.services["endpoints"])
    advice = np.where(owners == NO_SOURCE, 0, endpoints["advice"]).astype(np.uint16)
    advice[drifted] |= np.uint16(Advice.OTHER_TERMS)
    valid = np.flatnonzero(endpoints["address"] != 0).astype(np.int32)
    services = np.repeat(np.arange(len(records)), columns.services["endpoints"])
    for service in np.setdiff1d(np.flatnonzero(sources != NO_SOURCE), services[valid]).tolist():
        urls.add_record(records[service].key, records[service].source, service)
    named = urls.rows()
    by_url = valid[np.argsort(endpoints["address"][valid], kind="stable")]
    by_host = valid[np.argsort(endpoints["host"][valid], kind="stable")]
    unlisted = _sort(fates.rows())
    texts, numbers = _number_texts(unlisted)
    listed = endpoints["address"][by_url]
    others = _others(unlisted, fates.payees(), np.concatenate((listed, named["url"])))
    arrays = {
        "named_urls": named["url"],
        "named_sources": named["source"],
        "named_services": named["service"],
        "named_targets": named["target"],
        "named_advice": named["advice"].astype(np.uint16),
        "unlisted_urls": unlisted["url"],
        "unlisted_sources": unlisted["source"],
        "unlisted_fates": unlisted["fate"].astype(np.uint8),
        "unlisted_advice": unlisted["advice"].astype(np.uint16),
        "unlisted_texts": numbers,
        "endpoint_urls": listed,
        "endpoint_ordinals": by_url,
        "endpoint_advice": advice[by_url],
        "host_names": endpoints["host"][by_host],
        "host_ordinals": by_host,
        "others": others["key"],
        "other_fates": others["fate"].astype(np.uint8),
        "record_sources": sources,
    }
    write_arrays(folder / "listings.arrays", arrays)
    with writing_arrays(folder / "fates.arrays") as writer:
        write_texts(writer, "fates", map(fates.texts.read, texts["number"].tolist()))
    with writing_arrays(folder / "sources.arrays") as writer:
        write_texts(writer, "sources", map(_encode, fates.sources))


def _sort(rows: FateRows) -> FateRows:
    """Return rows by URL, source, fate and text, each once and the first few of a source."""
    order = np.lexsort((rows["text"], rows["fate"], rows["source"], rows["url"]))
    rows = rows[order]
    rows = rows[is_first(rows["url"], rows["source"], rows["fate"], rows["text"])]
    starts = np.flatnonzero(is_first(rows["url"], rows["source"]))
    sizes = np.diff(np.append(starts, len(rows)))
    ranks = np.arange(len(rows)) - np.repeat(starts, sizes)
    kept: FateRows = rows[ranks < MAX_REPEATED]
    return kept


def _number_texts(rows: FateRows) -> tuple[FateRows, npt.NDArray[np.int32]]:
    """Return a row for each text, by its hash, and the number of the text of each row."""
    _, firsts, numbers = np.unique(rows["text"], return_index=True, return_inverse=True)
    return rows[firsts], numbers.astype(np.int32)


def _others(unlisted: FateRows, payees: FateRows, listed: UrlHashes) -> FateRows:
    """Return the hosts and the payees of the URLs that are not listed, with the best fate."""
    rows = unlisted[(unlisted["fate"] != NOTED) & ~np.isin(unlisted["url"], listed)]
    order = np.lexsort((rows["fate"], rows["url"]))
    best = rows[order][is_first(rows["url"][order])]
    paid = payees[np.isin(payees["url"], best["url"])]
    of_paid = np.searchsorted(best["url"], paid["url"])
    hosted = best[best["host"] != NO_HOST]
    pairs = np.concatenate(
        [
            np.stack((hosted["host"], hosted["url"], hosted["fate"].astype(np.uint64)), axis=1),
            np.stack((paid["payee"], paid["url"], best["fate"][of_paid].astype(np.uint64)), axis=1),
        ]
    )
    pairs = np.unique(pairs, axis=0)
    others = np.empty(len(pairs), np.dtype([("key", "<u8"), ("fate", "<i4")]))
    others["key"], others["fate"] = pairs[:, 0], pairs[:, 2]
    return others
