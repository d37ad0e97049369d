"""Facets: the values of documents that filters compare, and how many documents have each.

A facet has four arrays, which `service.storage.layouts` lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from service.conditions import MAX_COUNTED, Normaliser
from service.search.postings import Integers, Mask
from service.search.top_k import top_k
from service.storage.container import Arrays
from service.storage.record_store import IdTable

DENSE_SHARE = 1 / 40
"""A value of more than this share of the documents has a mask besides their list."""
MAX_COMPARED = 200
"""Values that are compared with an unknown one, the most frequent: comparing is slow."""
CHUNK = 1 << 15
"""Ordinals that are looked up in a mask at a time: converted ones stay in the cache."""

ValueCounts: TypeAlias = list[dict[str, str | int]]
FacetCounts: TypeAlias = dict[str, ValueCounts]


_values = msgspec.json.Decoder(list[str])


class Facet:
    """The values of one facet, and the documents that have each.

    offsets, ordinals, dense: arrays of a facet, as `service.storage.layouts` describes them
    """

    def __init__(
        self,
        values: Sequence[str] | IdTable,
        key: Normaliser,
        offsets: Integers,
        ordinals: npt.NDArray[np.uint32],
        dense: npt.NDArray[np.bool_],
    ) -> None:
        self._values = values
        self._key = key
        self._offsets, self._ordinals, self._dense = offsets, ordinals, dense
        self.pairs = len(ordinals)

    def __len__(self) -> int:
        return len(self._values)

    def value(self, number: int) -> str:
        """Return the value of a number, in its most frequent spelling."""
        return self._values[number]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """The numbers of the values by key, made on first use: 200,000 take 50 ms and 30 MB."""
        values = map(self._values.__getitem__, range(len(self._values)))
        return {self._key(value): number for number, value in enumerate(values)}

    def number_of(self, value: str) -> int | None:
        """Return the number of a value in any spelling, or None."""
        return self._numbers.get(self._key(value))

    def mask(self, values: Sequence[str]) -> Mask:
        """Return which documents have any of these values; the mask is read-only."""
        numbers = {number for value in values if (number := self.number_of(value)) is not None}
        dense = [number for number in numbers if number < len(self._dense)]
        if len(numbers) == len(dense) == 1:
            stored: Mask = self._dense[dense[0]]
            return stored
        mask = np.zeros(self._dense.shape[1], np.bool_)
        for number in numbers:
            mask[self._ordinals[self._offsets[number] : self._offsets[number + 1]]] = True
        return mask

    def counts(self, matches: Mask | None) -> Integers:
        """Return the number of documents with each value among the matches, or all if None."""
        if matches is None or not len(self._values):
            counts: Integers = np.diff(self._offsets)
            return counts
        chunks = range(0, self.pairs, CHUNK)
        is_match = [matches.take(self._ordinals[start : start + CHUNK]) for start in chunks]
        return np.add.reduceat(np.concatenate(is_match), self._offsets[:-1], dtype=np.int64)

    def count(self, matches: Mask | None) -> ValueCounts:
        """Return the MAX_COUNTED most frequent values among the matches, ties by number."""
        counts = self.counts(matches)
        numbers = counts.nonzero()[0]
        numbers = top_k(numbers, counts[numbers], MAX_COUNTED)
        pairs = zip(numbers.tolist(), counts[numbers].tolist(), strict=True)
        return [{"value": self._values[number], "count": count} for number, count in pairs]

    def nearest(self, value: str) -> list[str] | None:
        """Return up to 3 values to try in place of an unknown one, None for a known one.

        Similar spellings come first; without any, these are the most frequent values.
        """
        if self.number_of(value) is not None:
            return None
        values = [self._values[number] for number in range(min(len(self._values), MAX_COMPARED))]
        shown = {key: value for value in values if (key := self._key(value))}
        nearest = get_close_matches(self._key(value), shown) or [*shown][:3]
        return [shown[key] for key in nearest]


class ServiceFacet(Facet):
    """The services of endpoints: a facet whose values are all ids of services.

    first: int64[services + 1], the first endpoint of each service
    services: int32[endpoints], the service of each endpoint
    """

    def __init__(self, ids: IdTable, first: Integers, services: Integers) -> None:
        ordinals = np.arange(len(services), dtype=np.uint32)
        super().__init__(ids, str, first, ordinals, np.empty((0, len(services)), np.bool_))
        self._ids = ids
        self._services = services

    def counts(self, matches: Mask | None) -> Integers:
        """Return the number of endpoints of each service among the matches, or all if None."""
        if matches is None:
            return super().counts(None)
        return np.bincount(self._services[matches], minlength=len(self._ids))

    def number_of(self, value: str) -> int | None:
        """Return the ordinal of a service, or None."""
        return self._ids.find(value)


def open_facet(arrays: Arrays, name: str, key: Normaliser) -> Facet:
    """Return a facet whose arrays a container has."""
    values = _values.decode(arrays[f"{name}.values"].tobytes())
    parts = (arrays[f"{name}.{part}"] for part in ("offsets", "ordinals", "dense"))
    return Facet(values, key, *parts)
