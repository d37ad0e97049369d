"""Filters and facets: which services a request allows, in which order, and counts of values.

A facet with v values and p (service, value) pairs is four files: `<name>.values.json`, the values
as shown, most frequent first, none without a service; `<name>.offsets.npy`, int64[v + 1], and
`<name>.ordinals.npy`, uint32[p], the services of each value in listing order;
`<name>.dense.npy`, bool[d, services], a mask for each of the first d values, those of more than
DENSE_SHARE of the services.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
from msgspec import Struct

from service.networks import network_key
from service.search.postings import Mask
from service.storage.memory_map import open_array

DENSE_SHARE = 1 / 40
"""A value of more than this share of the services has a mask besides their list."""
CHUNK = 8192
"""Services whose matches are listed at a time: a page seldom needs more."""
MAX_COMPARED = 200
"""Values that are compared with an unknown one, the most frequent: comparing is slow."""


def folded(value: str) -> str:
    """Return a text without its case and the blanks around it."""
    return value.strip().casefold()


# The functions that map the spellings of a value to one key.
FACETS: dict[str, Callable[[str], str]] = {
    "category": str.casefold,
    "network": network_key,
    "scheme": str.casefold,
    "integrationType": str.casefold,
    "tag": str.casefold,
}

Sort = Literal["relevance", "popularity", "price", "name"]
FacetCounts = dict[str, list[dict[str, str | int]]]

_values = msgspec.json.Decoder(list[str])


class Filters(Struct, frozen=True):
    """Conditions that a service must all satisfy, the order, and what to add to the page.

    `facets` allows any of several values of a facet. `max_price` is compared with the lowest price
    of a service, in units of its currency. Facets that are `counted`, and explanations of the
    scores, are added.
    """

    facets: dict[str, list[str]] = {}
    enriched: bool | None = None
    max_price: float | None = None
    match_all: bool = False
    sort: Sort = "relevance"
    counted: tuple[str, ...] = ()
    explain: bool = False


NO_FILTERS = Filters()


class Facet:
    """The values of one facet, and the services that have each."""

    def __init__(self, folder: Path, name: str, key: Callable[[str], str]) -> None:
        self._values = _values.decode((folder / f"{name}.values.json").read_bytes())
        self._offsets = open_array(folder / f"{name}.offsets.npy")
        self._ordinals = open_array(folder / f"{name}.ordinals.npy")
        self._dense = open_array(folder / f"{name}.dense.npy")
        self._key = key
        self._numbers = {self._key(value): number for number, value in enumerate(self._values)}

    def nearest(self, value: str) -> list[str] | None:
        """Return up to 3 values to try in place of an unknown one, None for a known one.

        Similar spellings come first; without any, these are the most frequent values.
        """
        key = self._key(value)
        if key in self._numbers:
            return None
        keys = [each for each in islice(self._numbers, MAX_COMPARED) if each]
        nearest = get_close_matches(key, keys) or keys[:3]
        return [self._values[self._numbers[each]] for each in nearest]

    def mask(self, values: Sequence[str], buffer: Mask) -> Mask:
        """Return which services have any of these values: a stored mask, or `buffer`, filled."""
        numbers = [self._numbers.get(self._key(value), -1) for value in values]
        if len(numbers) == 1 and 0 <= numbers[0] < len(self._dense):
            stored: Mask = self._dense[numbers[0]]
            return stored
        buffer.fill(False)
        for number in numbers:
            if number >= 0:
                buffer[self._ordinals[self._offsets[number] : self._offsets[number + 1]]] = True
        return buffer

    def count(self, matches: Mask) -> list[dict[str, str | int]]:
        """Return the values among the matches, each with its count, most frequent first."""
        if not self._values:
            return []
        counts = np.add.reduceat(matches[self._ordinals], self._offsets[:-1], dtype=np.int64)
        order = np.argsort(-counts, kind="stable")
        return self.named((int(n), int(counts[n])) for n in order if counts[n])

    def named(self, counts: Iterable[tuple[int, int]]) -> list[dict[str, str | int]]:
        """Return the counts of values, which are given by their numbers, by name."""
        return [{"value": self._values[number], "count": count} for number, count in counts]

    def __len__(self) -> int:
        return len(self._values)


class Buffers(threading.local):
    """Masks over all services, one set for each thread."""

    def __init__(self, services: int) -> None:
        self.result = np.empty(services, np.bool_)
        self.condition = np.empty(services, np.bool_)


class FilterIndex:
    """Selects and orders the services of one snapshot.

    `cheapest.npy` is float64[services], NaN for services without a price; `enriched.npy`
    bool[services]; `popularity.npy`, `price.npy` and `name.npy` are the ordinals in these orders,
    uint32[services].
    """

    def __init__(self, folder: Path) -> None:
        self._facets = {name: Facet(folder, name, key) for name, key in FACETS.items()}
        self._cheapest = open_array(folder / "cheapest.npy")
        self._enriched = open_array(folder / "enriched.npy")
        self._orders = {
            "popularity": open_array(folder / "popularity.npy"),
            "price": open_array(folder / "price.npy"),
            "name": open_array(folder / "name.npy"),
        }
        self._buffers = Buffers(len(self._enriched))

    def mask(self, filters: Filters) -> Mask | None:
        """Return which services satisfy the conditions, or None when there are no conditions.

        The mask is read-only, and valid until the next call in the same thread.
        """
        if filters is NO_FILTERS:
            return None
        mask: Mask | None = None
        for condition in self._conditions(filters):
            if mask is None:
                mask = condition
            else:
                mask = np.logical_and(mask, condition, out=self._buffers.result)
        return mask

    def nearest_values(self, name: str, value: str) -> list[str] | None:
        """Return values of a facet to try in place of an unknown one, None for a known one."""
        return self._facets[name].nearest(value)

    def count_of_values(self, name: str) -> int:
        """Return the number of values of a facet."""
        return len(self._facets[name])

    def named(self, name: str, counts: Iterable[tuple[int, int]]) -> list[dict[str, str | int]]:
        """Return the counts of a facet's values, which are given by their numbers, by name."""
        return self._facets[name].named(counts)

    def page(self, matches: Mask | None, sort: Sort, limit: int, offset: int) -> Sequence[int]:
        """Return one page of the matches, or of all services when None.

        `relevance` means listing order here, where no query ranks the matches.
        """
        order = self._orders.get(sort)
        if matches is None:
            services = len(self._enriched)
            run = range(min(offset, services), min(offset + limit, services))
            return run if order is None else order[run.start : run.stop].tolist()
        page: list[int] = []
        for start in range(0, len(matches), CHUNK):
            if order is None:
                ordinals = np.flatnonzero(matches[start : start + CHUNK]) + start
            else:
                ordinals = order[start : start + CHUNK]
                ordinals = ordinals[matches[ordinals]]
            page += ordinals[offset : offset + limit - len(page)].tolist()
            offset = max(offset - len(ordinals), 0)
            if len(page) == limit:
                break
        return page

    def count(self, names: Sequence[str], matches: Mask | None) -> FacetCounts:
        """Return the counts of these facets among the matches, or all services when None."""
        if matches is None:
            matches = np.ones(len(self._enriched), np.bool_)
        return {name: self._facets[name].count(matches) for name in names}

    def _conditions(self, filters: Filters) -> Iterator[Mask]:
        """Yield the mask of each condition; all but the first share a buffer."""
        buffers = chain([self._buffers.result], repeat(self._buffers.condition))
        for name, values in filters.facets.items():
            yield self._facets[name].mask(values, next(buffers))
        if filters.enriched is not None:
            yield np.equal(self._enriched, filters.enriched, out=next(buffers))
        if filters.max_price is not None:
            yield np.less_equal(self._cheapest, filters.max_price, out=next(buffers))
