"""Fates: records that are not listed as they came, as sellers find them.

A seller finds the fate of a record by the URLs and payees that it names, each by its hash.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path, PurePath
from struct import Struct as Layout
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from indexer.errors import InvalidRecord
from indexer.intake.forms import mask_surrogates
from indexer.record_store import Spool
from indexer.text import check_depth, drop_ignorable, shorten
from indexer.untrusted import mapping, objects
from service.arrays.texts import text_hash
from service.schema.listings import FATES, Advice, Fate, ListingFate
from service.snapshot.listings import ListingSource, host_hash, payee_hash, position_hash
from service.urls import ParsedUrl, find_url, with_route

MAX_UNLISTED = 100_000
"""URLs of one source that are not listed, and as many notes: a build keeps no more."""
MAX_URLS = 1_000
"""URLs of one record: more than a discovered service has, and an endless list is cut."""
NO_HOST = 0
NO_ADVICE = Advice(0)
ROW = np.dtype(
    [
        ("url", "<u8"),
        ("host", "<u8"),
        ("text", "<u8"),  # hash of it
        ("number", "<i8"),  # in the spool
        ("source", "<i4"),
        ("fate", "<i4"),
        ("advice", "<i4"),
    ]
)
PAYEE = np.dtype([("payee", "<u8"), ("url", "<u8")])

FateRows = npt.NDArray[np.void]
Place = tuple[str, str]
"""The name of a source in reports, and the position of a record in it."""

# The same layout as the dtypes of these names.
_row, _payee = Layout("<QQQqiii"), Layout("<QQ")
_encode = msgspec.json.Encoder().encode


class Address(NamedTuple):
    """The hashes of a URL in normal form, and of its host."""

    url: int
    host: int


class Subject(NamedTuple):
    """The URLs and the payees of a record, by their hashes, and advice to its seller."""

    addresses: tuple[Address, ...] = ()
    payees: tuple[int, ...] = ()
    advice: Advice = NO_ADVICE


NOTHING = Subject()


def address_of(url: ParsedUrl) -> Address:
    """Return the hashes of a URL."""
    return Address(text_hash(url.key), host_hash(url.host))


def find_address(url: str) -> Address | None:
    """Return the hashes of a URL, None if it is not one."""
    parsed = find_url(url)
    return address_of(parsed) if parsed else None


def read_subject(text: bytes) -> Subject:
    """Return the subject of a record of either kind, valid or not, as far as it can be read."""
    try:
        check_depth(text)
        masked = mask_surrogates(text).decode()  # halves of pairs could not be encoded again
        values = json.loads(masked, parse_int=float)  # of any number of digits
    except (InvalidRecord, ValueError, RecursionError):
        return NOTHING
    endpoints = objects(values, "endpoints", MAX_URLS)
    payers = endpoints or objects(values, "accepts", MAX_URLS)
    urls = [each.get("url") for each in endpoints] or list(_urls_of(values))
    found = [each for url in urls if isinstance(url, str) and (each := find_address(url))]
    paid = [each for entry in payers if isinstance(each := entry.get("payTo"), str) and each]
    return Subject(tuple(dict.fromkeys(found)), tuple(dict.fromkeys(map(payee_hash, paid))))


def _urls_of(values: Any) -> Iterator[Any]:
    """Yield what stands where a resource has its URL, and that with its route template."""
    if isinstance(values, dict):
        route = mapping(mapping(values, "extensions"), "bazaar").get("routeTemplate")
        stated = values.get("resource"), mapping(values, "resource").get("url"), values.get("url")
        for url in stated:
            yield url
            yield with_route(url, route) if isinstance(url, str) else None


class FateSpool:
    """Collects fates by hashes of URLs; their `texts` go to a spool in `folder`."""

    def __init__(self, folder: Path | None = None) -> None:
        self.texts = Spool(folder)
        self._sources: list[ListingSource] = []
        self._counts: list[Counter[bool]] = []
        self._rows: list[bytearray] = []  # one a source
        self._payees: list[bytearray] = []

    @property
    def sources(self) -> list[ListingSource]:
        """The sources, each with the number of its URLs that have no row."""
        for source, counts in zip(self._sources, self._counts, strict=True):
            source.more = max(0, counts[False] - MAX_UNLISTED)
        return self._sources

    def start(self, name: str, public_name: str) -> None:
        """Start the next source; its public name is empty if it lists nothing."""
        shown = shorten(drop_ignorable(public_name or PurePath(name).name))
        self._sources.append(ListingSource(shown, is_read=bool(public_name)))
        self._counts.append(Counter())
        self._rows.append(bytearray())
        self._payees.append(bytearray())

    def discard(self) -> None:
        """Forget the source that was started last."""
        for each in (self._sources, self._counts, self._rows, self._payees):
            each.pop()

    def add(
        self, source: int, fate: Fate, place: Place, path: str, reason: str, subject: Subject
    ) -> None:
        """Add the fate of a record of the source of a number, as its seller sees it.

        A record without a URL is found by its position and the name of its source in reports. Other
        records are not, as a source that is reordered would change the snapshot.
        """
        is_note = fate is Fate.NOTED
        addresses = subject.addresses
        if not addresses and not is_note:
            addresses = (Address(position_hash(*place), NO_HOST),)
        room = max(0, MAX_UNLISTED - self._counts[source][is_note])
        self._counts[source][is_note] += len(addresses)
        if not addresses[:room]:
            return
        shown = ListingFate(
            source=self._sources[source].name,
            fate=fate,
            reason=shorten(drop_ignorable(reason)),
            path=shorten(drop_ignorable(path)) or UNSET,
        )
        text = _encode(shown)
        digest = int.from_bytes(blake2b(text, digest_size=8).digest(), "little")
        code, advice = FATES.index(fate), int(subject.advice)
        rest = digest, self.texts.add(text), source, code, advice
        for url, host in addresses[:room]:
            self._rows[source] += _row.pack(url, host, *rest)
            if not is_note and host != NO_HOST:
                left = MAX_UNLISTED - len(self._payees[source]) // PAYEE.itemsize
                for payee in subject.payees[: max(0, left)]:
                    self._payees[source] += _payee.pack(payee, url)

    def rows(self) -> FateRows:
        """Return the rows, as ROW, in the order in which they came."""
        return np.frombuffer(b"".join(self._rows), ROW)

    def payees(self) -> FateRows:
        """Return the payees of the URLs, as PAYEE."""
        return np.frombuffer(b"".join(self._payees), PAYEE)
