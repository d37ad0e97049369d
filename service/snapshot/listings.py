"""The fates of URLs: which sources name a URL, and why it is listed or not.

`indexer.snapshot.listings` writes `listings.arrays`:

urls: uint64[urls], the hashes of the URLs that sources name, ascending; a record without a URL has
    the hash of its position
first: integer[urls + 1], the first row of each URL; one without any is of an endpoint that an
    overlay added
advice: uint16[urls], bits of Advice to its seller
rows: int32[rows, 3], the fates, the best of each URL first: the source, by its number; the service,
    and its endpoint or NO_ENDPOINT. Of a fate that is stored as JSON, its text, counted from the
    end, and the number of the fate
fates: the `Texts` of fates that are stored as JSON
sources: the JSON of all sources
hosts: uint64[endpoints], the hash of the host of each endpoint
others, other_fates: uint64 and uint8, the hashes of the hosts and of the payees of each URL that is
    not listed, ascending, with the best fate of the URL
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, Struct

from service.conditions import OFFER_KEYS
from service.schema.listings import FATES, Advice, Fate, ListingFate
from service.search.postings import Integers
from service.snapshot.endpoints import Endpoints
from service.storage.container import items_of, open_arrays
from service.storage.texts import IdTable, Texts, equal_hashes, text_hash
from service.urls import ParsedUrl, count_filled, find_url

MAX_TEMPLATES = 5000
"""Endpoints of a host that are compared with a URL, which takes 4 µs each."""
MAX_NOTES = 100
"""Notes of an answer: any number of sources may name one URL."""
CACHED = 4096
"""Hosts and payees whose keys a process remembers, as those of many listings are the same."""
NO_ENDPOINT = -1
NOTED = FATES.index(Fate.NOTED)
MORE = "has {:,} more URLs that are not listed than are kept here; this one may be of them"

_encode = msgspec.json.Encoder().encode


@lru_cache(maxsize=CACHED)
def host_hash(host: str) -> int:
    """Return the key of a host in lower case and ASCII."""
    return text_hash(f"host\n{host}")


@lru_cache(maxsize=CACHED)
def payee_hash(address: str) -> int:
    """Return the key of an address that is paid to."""
    return text_hash(f"payee\n{OFFER_KEYS['payTo'](address)}")


def position_hash(source: str, position: str) -> int:
    """Return the key of a record by its position and the name of its source in reports.

    The position of a line is written `line 3` in files of findings, and `3` in messages.
    """
    return text_hash(f"{source}\n{position.removeprefix('line ')}")


class ListingSource(Struct):
    """A source by its public name.

    is_read: whether it lists services or resources, and not payments or patches
    more: how many of its URLs that are not listed have no row
    """

    name: str
    is_read: bool
    more: int = 0


class UrlFates(NamedTuple):
    """The fates of a URL by source and the notes on it, as JSON texts, and advice to its seller."""

    is_listed: bool
    fates: dict[str, bytes | memoryview]
    notes: list[bytes | memoryview]
    advice: Advice


UNKNOWN_URL = UrlFates(is_listed=False, fates={}, notes=[], advice=Advice(0))


class Listings:
    """The fates of the URLs that sources name."""

    def __init__(self, folder: Path, ids: IdTable, endpoints: Endpoints) -> None:
        self._arrays = arrays = open_arrays(folder / "listings.arrays")
        self._urls, self._others = items_of(arrays["urls"]), items_of(arrays["others"])
        self._texts = Texts(arrays, "fates")
        self.sources = msgspec.json.decode(items_of(arrays["sources"]), type=list[ListingSource])
        self._ids, self._endpoints = ids, endpoints

    @property
    def read_sources(self) -> list[str]:
        """The public names of the sources of services and resources, each once."""
        return [*dict.fromkeys(each.name for each in self.sources if each.is_read)]

    def find(self, key: int) -> UrlFates:
        """Return the fates of a URL, or of the place of a record, by its hash.

        Each source that names the URL has one fate, its best; the others are notes.
        """
        place = bisect_left(self._urls, key)
        if place == len(self._urls) or self._urls[place] != key:
            return UNKNOWN_URL
        span = slice(*self._arrays["first"][place : place + 2].tolist())
        rows: list[list[int]] = self._arrays["rows"][span].tolist()
        fates: dict[str, bytes | memoryview] = {}
        notes: list[bytes | memoryview] = []
        for source, service, endpoint in rows:
            name = self.sources[source].name
            text = self._text(name, service, endpoint)
            if name in fates or (service < 0 and endpoint == NOTED):
                notes.append(text)
            else:
                fates[name] = text
        is_listed = not rows or any(service >= 0 for _, service, _ in rows)
        advice = Advice(int(self._arrays["advice"][place]))
        return UrlFates(is_listed, fates, notes[:MAX_NOTES], advice)

    def _text(self, source: str, service: int, endpoint: int) -> bytes | memoryview:
        """Return a fate as JSON."""
        if service < 0:
            return self._texts.view(len(self._texts) + service)
        number = UNSET if endpoint == NO_ENDPOINT else endpoint
        published = Fate.PUBLISHED
        return _encode(
            ListingFate(source=source, fate=published, service=self._ids[service], endpoint=number)
        )

    def incomplete(self, names: Collection[str]) -> Iterator[bytes]:
        """Yield a note for each source but these that has more records than are kept here."""
        for each in self.sources:
            if each.more and each.is_read and each.name not in names:
                reason = MORE.format(each.more)
                yield _encode(ListingFate(source=each.name, fate=Fate.NOTED, reason=reason))

    def of_host(self, host: str) -> Integers:
        """Return the endpoints of a host in listing order."""
        return np.flatnonzero(self._arrays["hosts"] == np.uint64(host_hash(host)))

    def template_of(self, url: ParsedUrl) -> ParsedUrl | None:
        """Return the listed template with the fewest placeholders that a URL fills in, or None."""
        ordinals = self.of_host(url.host)[:MAX_TEMPLATES].tolist()
        urls = filter(None, map(find_url, map(self._endpoints.url_of, ordinals)))
        filled = [(count_filled(url.identity, each.identity), each) for each in urls]
        calls = (each for each in filled if each[0])
        return min(calls, key=itemgetter(0), default=(0, None))[1]

    def count_others(self, key: int) -> dict[str, int]:
        """Count the URLs of a host or a payee, by its hash, that are not listed, by their fate."""
        places = equal_hashes(self._others, key)
        fates = Counter(self._arrays["other_fates"][places.start : places.stop].tolist())
        return {FATES[fate].value: count for fate, count in sorted(fates.items())}
