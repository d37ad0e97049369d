"""Rows of any length in plain arrays."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from service.search.postings import Integers

AnyIntegers = npt.NDArray[np.integer[Any]]


class Ragged(NamedTuple):
    """The items of all rows end to end.

    sizes: uint32[rows], how many items each has
    items: of any plain type; uint8 for texts
    """

    sizes: npt.NDArray[np.uint32]
    items: npt.NDArray[Any]

    @property
    def bounds(self) -> Integers:
        """Where each row starts, and the last one stops."""
        return bounds_of(self.sizes)

    def take(self, rows: AnyIntegers) -> Ragged:
        """Return these rows, in this order."""
        return Ragged(self.sizes[rows], self.items[positions(self.bounds, rows)])

    def texts(self) -> list[bytes]:
        """Return the rows as bytes."""
        content = self.items.tobytes()
        return [content[start:stop] for start, stop in pairwise(self.bounds.tolist())]

    def strings(self) -> list[str]:
        """Return the rows, which are UTF-8, as strings."""
        return [text.decode() for text in self.texts()]


def bounds_of(sizes: npt.NDArray[np.integer[Any] | np.bool_]) -> Integers:
    """Return where runs of these sizes start, and the last one stops."""
    bounds = np.zeros(len(sizes) + 1, np.int64)
    sizes.cumsum(out=bounds[1:])
    return bounds


def is_first(*columns: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which of sorted rows differ from the row before."""
    differs = np.ones(len(columns[0]), np.bool_)
    differs[1:] = False
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return differs


def first_equal(*columns: npt.NDArray[Any]) -> Integers:
    """Return for each row the first row that is equal to it."""
    order = np.lexsort(columns)  # stable
    distinct = is_first(*(column[order] for column in columns))
    rows = np.empty(len(order), np.int64)
    rows[order] = order[distinct][np.cumsum(distinct) - 1]
    return rows


def positions(bounds: Integers, rows: AnyIntegers) -> Integers:
    """Return the positions of the items of these rows, in their order."""
    starts = bounds[rows]
    sizes = bounds[1:][rows] - starts
    own = bounds_of(sizes)
    return np.arange(own[-1]) + np.repeat(starts - own[:-1], sizes)


def ragged_texts(texts: Sequence[bytes]) -> Ragged:
    """Return texts as rows of bytes."""
    sizes = np.fromiter(map(len, texts), np.uint32, len(texts))
    return Ragged(sizes, np.frombuffer(b"".join(texts), np.uint8))


class RaggedWriter:
    """Collects rows of items of one plain type, as their bytes."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._sizes, self._bytes = array("I"), bytearray()

    def add(self, items: bytes) -> None:
        """Add the next row."""
        self._sizes.append(len(items))
        self._bytes += items

    def rows(self) -> Ragged:
        """Return a copy of the rows so far."""
        sizes = np.asarray(self._sizes, np.uint32) // self._dtype.itemsize
        return Ragged(sizes.astype(np.uint32), np.frombuffer(bytes(self._bytes), self._dtype))
