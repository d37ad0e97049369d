"""The fates of URLs: which sources name a URL, and why it is listed or not.

`indexer.snapshot.listings` writes `listings.arrays`:

urls: uint64[urls], the hashes of the URLs that sources name, ascending; a record without a URL has
    the hash of its position
first: integer[urls + 1], the first row of each URL; one without any is of an endpoint that an
    overlay added
advice: uint16[urls], bits of Advice to its seller
rows: int32[rows, 3], the fates, the best of each URL first: the source, by its number; the service,
    and its endpoint or NO_PLACE; or the text of the fate, counted from the end of `fates`
fates: the `Texts` of fates that are stored as JSON
sources: the JSON of all sources
hosts: uint64[endpoints], the hash of the host of each endpoint
others, other_fates: uint64 and uint8, the hashes of the hosts and of the payees of each URL that is
    not listed, ascending, with the best fate of the URL
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Container
from functools import lru_cache
from operator import itemgetter
from pathlib import Path

import msgspec
import numpy as np
from msgspec import UNSET, Struct

from service.arrays.container import items_of, open_arrays
from service.arrays.texts import IdTable, Texts, equal_hashes, text_hash
from service.conditions import PAYEE
from service.schema.listings import (
    ADVICE,
    FATES,
    NOT_NAMED,
    Advice,
    Fate,
    ListingAdvice,
    ListingFate,
    ListingReport,
)
from service.search.postings import Integers
from service.snapshot.endpoints import Endpoints
from service.urls import ParsedUrl, count_filled, find_url

MAX_TEMPLATES = 5000
"""Endpoints of a host that are compared with a URL, which takes some 15 µs each."""
MAX_NOTES = 100
"""Notes of an answer: any number of sources may name one URL."""
CACHED = 4096
"""Hosts and payees whose keys a process remembers, as those of many listings are the same."""
NO_PLACE = -1
MORE = "has {:,} more URLs that are not listed than are kept here; this one may be of them"

INVITATION = "no source of this catalogue names the URL; it is listed once one of them does"


@lru_cache(maxsize=CACHED)
def host_hash(host: str) -> int:
    """Return the key of a host in lower case and ASCII."""
    return text_hash(f"host\n{host}")


@lru_cache(maxsize=CACHED)
def payee_hash(address: str) -> int:
    """Return the key of an address that is paid to."""
    return text_hash(f"payee\n{PAYEE.key(address)}")


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


_sources = msgspec.json.Decoder(list[ListingSource])
_fate = msgspec.json.Decoder(ListingFate)


class Listings:
    """The fates of the URLs that sources name."""

    def __init__(self, folder: Path, ids: IdTable, endpoints: Endpoints) -> None:
        self._arrays = arrays = open_arrays(folder / "listings.arrays")
        self._urls, self._others = items_of(arrays["urls"]), items_of(arrays["others"])
        self._texts = Texts(arrays, "fates")
        self._sources = _sources.decode(items_of(arrays["sources"]))
        self._ids, self._endpoints = ids, endpoints

    def explain_url(self, url: ParsedUrl) -> ListingReport:
        """Return the fates of a URL, or of the listed template that it fills in."""
        own = self.explain(text_hash(url.key), url.identity)
        template = None if own.listed else self._template_of(url)
        if template is None:
            return own
        report = self.explain(text_hash(template.key), url.identity)
        report.template = template.identity
        report.notes += [*own.fates, *(each for each in own.notes if each not in report.notes)]
        return report

    def explain(self, key: int, url: str = "") -> ListingReport:
        """Return the fates of a URL, or of the place of a record, by its hash.

        Each source that names the URL has one fate, its best; the others are notes.
        """
        place = bisect_left(self._urls, key)
        if place == len(self._urls) or self._urls[place] != key:
            return ListingReport(url, False, [], self._incomplete({}), [self._invite()])
        span = slice(*self._arrays["first"][place : place + 2].tolist())
        rows = [self._fate_of(*row) for row in self._arrays["rows"][span].tolist()]
        fates: dict[str, ListingFate] = {}
        notes: list[ListingFate] = []
        for row in rows:
            if row.source in fates or row.fate is Fate.NOTED:
                notes.append(row)
            else:
                fates[row.source] = row
        is_listed = not rows or any(each.fate is Fate.PUBLISHED for each in rows)
        notes = notes[:MAX_NOTES] + self._incomplete(fates)
        bits = Advice(int(self._arrays["advice"][place]))
        advice = [ListingAdvice(str(bit.name).lower(), ADVICE[bit]) for bit in bits]
        return ListingReport(url, is_listed, [*fates.values()], notes, advice)

    def _fate_of(self, source: int, service: int, endpoint: int) -> ListingFate:
        """Return the fate of a row."""
        if service < 0:
            return _fate.decode(self._texts.view(len(self._texts) + service))
        return ListingFate(
            source=self._sources[source].name,
            fate=Fate.PUBLISHED,
            service=self._ids[service],
            endpoint=UNSET if endpoint == NO_PLACE else endpoint,
        )

    def _incomplete(self, names: Container[str]) -> list[ListingFate]:
        """Return a note for each source but these that has more records than are kept here."""
        return [
            ListingFate(source=each.name, fate=Fate.NOTED, reason=MORE.format(each.more))
            for each in self._sources
            if each.more and each.is_read and each.name not in names
        ]

    def _invite(self) -> ListingAdvice:
        names = dict.fromkeys(each.name for each in self._sources if each.is_read)
        return ListingAdvice(NOT_NAMED, f"{INVITATION}: {', '.join(names)}")

    def of_host(self, host: str) -> Integers:
        """Return the endpoints of a host in listing order."""
        return np.flatnonzero(self._arrays["hosts"] == np.uint64(host_hash(host)))

    def _template_of(self, url: ParsedUrl) -> ParsedUrl | None:
        """Return the listed template with the fewest placeholders that a URL fills in, or None."""
        ordinals = self.of_host(url.host)[:MAX_TEMPLATES].tolist()
        urls = [*filter(None, map(find_url, map(self._endpoints.url_of, ordinals)))]
        filled = count_filled(url.identity, (each.identity for each in urls))
        calls = (each for each in zip(filled, urls, strict=True) if each[0])
        return min(calls, key=itemgetter(0), default=(0, None))[1]

    def count_others(self, key: int) -> dict[str, int]:
        """Count the URLs of a host or a payee, by its hash, that are not listed, by their fate."""
        places = equal_hashes(self._others, key)
        fates = Counter(self._arrays["other_fates"][places.start : places.stop].tolist())
        return {FATES[fate].value: count for fate, count in sorted(fates.items())}
