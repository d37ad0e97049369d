"""The fates of URLs: which sources name a URL, and why it is listed or not.

Texts of fates are stored JSON; rows are found by hashes of URLs, hosts and payees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, Struct, UnsetType

from service.conditions import OFFER_KEYS
from service.schema.listings import FATES, Advice, Fate, ListingFate
from service.search.postings import Integers
from service.snapshot.endpoints import Endpoints
from service.storage.container import open_arrays
from service.storage.texts import IdTable, Texts, text_hash
from service.urls import ParsedUrl, count_filled, find_url

MAX_TEMPLATES = 5000
"""Endpoints of a host that are compared with a URL, which takes 4 µs each."""
MAX_NOTES = 100
"""Notes of an answer: a source may name one URL any number of times."""
CACHED = 4096
"""Hosts and payees whose keys a process remembers, as those of many listings are the same."""
NO_SOURCE = -1
PUBLISHED = FATES.index(Fate.PUBLISHED)
NOTED = FATES.index(Fate.NOTED)
MORE = "has {:,} more URLs that are not listed than are kept here; this one may be of them"
SEVERAL = "is merged with the listings of other sources"

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
    """The fates of a URL and the notes on it, as JSON texts, and the advice to its seller.

    sources: the names of the sources that have a fate
    """

    is_listed: bool
    sources: list[str]
    fates: list[bytes | memoryview]
    notes: list[bytes | memoryview]
    advice: Advice


class _Row(NamedTuple):
    """A fate of a URL in a source, and its JSON text."""

    source: int
    fate: int
    text: bytes | memoryview


_source = msgspec.json.Decoder(ListingSource)


class Listings:
    """The fates of the URLs that sources name, by hashes of URLs in normal form, hosts and payees.

    Rows are in the order of their hashes, then of sources. A record without a URL has the key of
    its position.

    named_urls: of the resources that are published; named_sources and named_services of each,
        named_targets the URL that its endpoint has (the route template, if there is one), and
        named_advice to its seller, as bits
    unlisted_urls: of records that are not published, or noted; unlisted_sources, unlisted_fates
        (1 left out, 2 rejected, 3 noted) and unlisted_advice of each, and unlisted_texts, its row
        of the fates
    endpoint_urls: of the endpoints; endpoint_ordinals and endpoint_advice of each
    host_names, host_ordinals: the hosts of the endpoints, and the endpoint of each
    others, other_fates: the hosts and the payees of the URLs that are not listed, once for each,
        and the best fate of the URL
    record_sources: the source of the record of each service, or -1
    """

    def __init__(self, folder: Path, ids: IdTable, endpoints: Endpoints) -> None:
        self._arrays = open_arrays(folder / "listings.arrays")
        self._texts = Texts(open_arrays(folder / "fates.arrays"), "fates")
        sources = Texts(open_arrays(folder / "sources.arrays"), "sources")
        self.sources = [_source.decode(sources.view(row)) for row in range(len(sources))]
        self._ids, self._endpoints = ids, endpoints

    @property
    def read_sources(self) -> list[str]:
        """The public names of the sources of services and resources, each once."""
        return [*dict.fromkeys(each.name for each in self.sources if each.is_read)]

    def find(self, key: int) -> UrlFates:
        """Return the fates of a URL, or of the place of a record, by its hash.

        Each source that names the URL has one fate, its best; the others are notes.
        """
        named, unlisted = self._span("named_urls", key), self._span("unlisted_urls", key)
        urls = self._span("endpoint_urls", key)
        rows = [*self._published(named, key), *self._unlisted(unlisted)]
        best: dict[str, _Row] = {}
        notes: list[_Row] = []
        for row in sorted(rows, key=lambda each: each.fate):  # stable: in the order of the rows
            name = self.sources[row.source].name
            if row.fate == NOTED or name in best:
                notes.append(row)
            else:
                best[name] = row
        is_listed = named.start < named.stop or urls.start < urls.stop
        bits = [self._arrays["named_advice"][named], self._arrays["endpoint_advice"][urls]]
        if not is_listed:
            bits.append(self._arrays["unlisted_advice"][unlisted])
        return UrlFates(
            is_listed,
            [*best],
            [row.text for row in best.values()],
            [row.text for row in notes[:MAX_NOTES]],
            Advice(int(np.bitwise_or.reduce(np.concatenate(bits), initial=0))),
        )

    def incomplete(self, names: Collection[str]) -> Iterator[bytes]:
        """Yield a note for each source but these that has more records than are kept here."""
        for each in self.sources:
            if each.more and each.is_read and each.name not in names:
                reason = MORE.format(each.more)
                yield _encode(ListingFate(source=each.name, fate=Fate.NOTED, reason=reason))

    def of_host(self, host: str) -> Integers:
        """Return the endpoints of a host in listing order."""
        ordinals: Integers = self._arrays["host_ordinals"][
            self._span("host_names", host_hash(host))
        ]
        return ordinals

    def template_of(self, url: ParsedUrl) -> ParsedUrl | None:
        """Return the listed template with the fewest placeholders that a URL fills in, or None."""
        ordinals = self.of_host(url.host)[:MAX_TEMPLATES].tolist()
        urls = filter(None, map(find_url, map(self._endpoints.url_of, ordinals)))
        filled = [(count_filled(url.identity, each.identity), each) for each in urls]
        calls = (each for each in filled if each[0])
        return min(calls, key=itemgetter(0), default=(0, None))[1]

    def count_others(self, key: int) -> dict[str, int]:
        """Count the URLs of a host or a payee, by its hash, that are not listed, by their fate."""
        fates = self._arrays["other_fates"][self._span("others", key)]
        return {FATES[fate].value: count for fate, count in sorted(Counter(fates.tolist()).items())}

    def _published(self, named: slice, key: int) -> Iterator[_Row]:
        """Yield the fates of a published URL, by its resources and by its records."""
        names = ("named_sources", "named_services", "named_targets")
        sources, services, targets = (self._arrays[name][named].tolist() for name in names)
        of_target = {target: self._find_endpoints(target) for target in targets}
        for source, service, target in zip(sources, services, targets, strict=True):
            yield from self._places(source, service, of_target[target].get(service, [])[:1])
        for service, own in self._find_endpoints(key).items():
            source = int(self._arrays["record_sources"][service])
            if source != NO_SOURCE:
                yield from self._places(source, service, own)
        for source in sorted({*sources}) if len({*sources}) > 1 else ():
            name = self.sources[source].name
            merged = ListingFate(source=name, fate=Fate.NOTED, reason=SEVERAL)
            yield _Row(source, NOTED, _encode(merged))

    def _find_endpoints(self, key: int) -> dict[int, list[int]]:
        """Return the first endpoints with a URL, by service."""
        of_service: dict[int, list[int]] = {}
        ordinals = self._arrays["endpoint_ordinals"][self._span("endpoint_urls", key)]
        for endpoint in ordinals[:MAX_NOTES].tolist():
            of_service.setdefault(self._endpoints.service_of(endpoint), []).append(endpoint)
        return of_service

    def _places(self, source: int, service: int, endpoints: Sequence[int]) -> Iterator[_Row]:
        """Yield a row for each place of a URL in a service, or one of a URL beyond its record."""
        first = self._endpoints.of_service(service).start
        numbers: list[int | UnsetType] = [endpoint - first for endpoint in endpoints]
        for number in numbers or [UNSET]:
            fate = ListingFate(
                source=self.sources[source].name,
                fate=Fate.PUBLISHED,
                service=self._ids[service],
                endpoint=number,
            )
            yield _Row(source, PUBLISHED, _encode(fate))

    def _unlisted(self, rows: slice) -> Iterator[_Row]:
        names = ("unlisted_sources", "unlisted_fates", "unlisted_texts")
        columns = (self._arrays[name][rows].tolist() for name in names)
        for source, fate, text in zip(*columns, strict=True):
            yield _Row(source, fate, self._texts.view(text))

    def _span(self, name: str, key: int) -> slice:
        """Return the rows of a key."""
        keys, wanted = self._arrays[name], np.uint64(key)
        return slice(*(int(np.searchsorted(keys, wanted, side)) for side in ("left", "right")))
