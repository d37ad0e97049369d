"""Facets: columns of values that filters compare, and how many rows have each value."""

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
from service.storage.texts import IdTable

MAX_COMPARED = 200
"""Values that are compared with an unknown one, the most frequent: comparing is slow."""

ValueCounts: TypeAlias = list[dict[str, str | int]]
FacetCounts: TypeAlias = dict[str, ValueCounts]


_values = msgspec.json.Decoder(list[str])


class Facet:
    """A column of values.

    numbers: those of the values of all rows, row after row
    sizes: how many of them each row has, None where each has one
    """

    def __init__(
        self,
        values: Sequence[str] | IdTable,
        key: Normaliser,
        numbers: npt.NDArray[np.integer],
        sizes: npt.NDArray[np.unsignedinteger] | None = None,
    ) -> None:
        self._values, self._key, self._column = values, key, numbers
        self._bounds: Integers | None = None
        if sizes is not None and (sizes != 1).any():
            self._bounds = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
        self.items = len(numbers)

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
        """Return which rows have any of these values."""
        known = (self.number_of(value) for value in values)
        numbers = [number for number in known if number is not None]
        if len(numbers) == 1:
            mask: Mask = self._column == numbers[0]
        else:
            mask = np.isin(self._column, numbers)
        return mask if self._bounds is None else count_in_rows(self._bounds, mask) > 0

    def count(self, matches: Mask | None) -> ValueCounts:
        """Return the MAX_COUNTED most frequent values among the matches, ties by number."""
        numbers = self._column
        if matches is not None and self._bounds is not None:
            matches = matches.repeat(np.diff(self._bounds))
        counts = np.bincount(numbers if matches is None else numbers[matches])
        used = counts.nonzero()[0]
        used = top_k(used, counts[used], MAX_COUNTED)
        pairs = zip(used.tolist(), counts[used].tolist(), strict=True)
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
    """The services of endpoints: a facet whose values are all ids of services."""

    def __init__(self, ids: IdTable, services: npt.NDArray[np.int32]) -> None:
        super().__init__(ids, str, services)
        self._ids = ids

    def number_of(self, value: str) -> int | None:
        """Return the ordinal of a service, or None."""
        return self._ids.find(value)


def open_facet(arrays: Arrays, name: str, key: Normaliser) -> Facet:
    """Return a facet whose arrays a container has."""
    values = _values.decode(arrays[f"{name}.values"].tobytes())
    return Facet(values, key, arrays[f"{name}.numbers"], arrays[f"{name}.sizes"])


def count_in_rows(bounds: Integers, mask: Mask) -> npt.NDArray[np.integer]:
    """Return how many items of each row are set.

    bounds: where the items of each row begin, and the end
    """
    sums = np.zeros(len(mask) + 1, np.int32)
    np.cumsum(mask, out=sums[1:])
    return np.diff(sums.take(bounds))
