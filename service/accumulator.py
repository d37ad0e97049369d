"""The sums of impacts of one query, and the best of them: the only loops of a search, all of them NumPy's."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ordinals = npt.NDArray[np.int64]

BLOCKS = 128
"""The accumulator is seen as this many rows; a column is what one block maximum covers."""
SPARSE = 32
"""Lists with fewer postings than one for so many documents are summed without passing over the whole buffer."""
NO_ORDINALS = np.empty(0, dtype=np.int64)
LARGEST_SUM = int(np.iinfo(np.uint16).max)
"""What 16-bit sums can hold; no list has more in one document."""


class ImpactList(NamedTuple):
    """What one word of a query adds to the sums.

    Impacts (uint16) by ordinal, also as a column over all ordinals where the word is frequent; no sum of them
    exceeds `largest`. Ordinals ascend and are distinct unless the word has several meanings.
    """

    ordinals: Ordinals
    impacts: npt.NDArray[np.uint16]
    column: npt.NDArray[np.uint16] | None
    largest: int
    distinct: bool = True


class Ranked(NamedTuple):
    """Exact total and the best ordinals, best first; of equal sums the first ordinal first."""

    total: int
    ordinals: Ordinals


class Accumulator(threading.local):
    """Buffers as long as the corpus, one set for each thread."""

    def __init__(self, length: int):
        """`length` is a multiple of `BLOCKS`, at least the number of documents."""
        self._length = length
        self._sums = np.zeros(length, dtype=np.int32)
        self._short_sums = np.zeros(length, dtype=np.uint16)

    def rank(
        self, lists: Sequence[ImpactList], first: int, keep: npt.NDArray[np.bool_] | None
    ) -> Ranked:
        """The best `first` of what the lists sum up to."""
        if sum(len(each.ordinals) for each in lists) * SPARSE < self._length:
            ordinals, sums = self._sparse_sums(lists)
            if keep is not None:
                kept = keep[ordinals]
                ordinals, sums = ordinals[kept], sums[kept]
            return Ranked(len(ordinals), best(ordinals, sums, first))
        all_sums = self._all_sums(lists)
        if keep is not None:
            all_sums[: len(keep)] *= keep
        return best_of_all(all_sums, first)

    def _sparse_sums(self, lists: Sequence[ImpactList]) -> tuple[Ordinals, npt.NDArray[Any]]:
        """The ordinals that any list has, and their sums: time in proportion to the lists, not the corpus."""
        if not lists:
            return NO_ORDINALS, NO_ORDINALS
        if len(lists) == 1 and lists[0].distinct:
            return lists[0].ordinals, lists[0].impacts
        ordinals = np.concatenate([each.ordinals for each in lists])
        sums = self._sums
        # Whatever an earlier query left behind is overwritten.
        sums[ordinals] = 0
        np.add.at(sums, ordinals, np.concatenate([each.impacts for each in lists], dtype=np.int32))
        found = sums[ordinals]
        # Of equal ordinals, the one whose position is read back stands for all.
        positions = np.arange(len(ordinals), dtype=np.int32)
        sums[ordinals] = positions
        distinct = sums[ordinals] == positions
        return ordinals[distinct], found[distinct]

    def _all_sums(
        self, lists: Sequence[ImpactList]
    ) -> npt.NDArray[np.int32] | npt.NDArray[np.uint16]:
        """The sums of all ordinals, in 16 bits where they fit: half the memory to pass through for each column."""
        groups = _groups(lists)
        self._add_short(groups[0])
        if len(groups) == 1:
            return self._short_sums
        np.copyto(self._sums, self._short_sums)
        for group in groups[1:]:
            self._add_short(group)
            self._sums += self._short_sums
        return self._sums

    def _add_short(self, lists: Sequence[ImpactList]) -> None:
        sums = self._short_sums
        columns = [each.column for each in lists if each.column is not None]
        if len(columns) > 1:
            np.add(columns[0], columns[1], out=sums)
        elif columns:
            np.copyto(sums, columns[0])
        else:
            sums.fill(0)
        for column in columns[2:]:
            sums += column
        if len(columns) < len(lists):
            scattered = [each for each in lists if each.column is None]
            np.add.at(
                sums,
                np.concatenate([each.ordinals for each in scattered]),
                np.concatenate([each.impacts for each in scattered]),
            )


def best_of_all(sums: npt.NDArray[np.int32] | npt.NDArray[np.uint16], first: int) -> Ranked:
    """Counts and ranks all sums that are not zero.

    The least of the `first` largest block maxima is at most the last sum on the page: whatever is below it,
    and every block whose maximum is, need not be looked at.
    """
    total = int(np.count_nonzero(sums))
    first = min(first, total)
    width = len(sums) // BLOCKS
    if 4 * first > width:
        ordinals = np.flatnonzero(sums)
        return Ranked(total, best(ordinals, sums[ordinals], first))
    if first < 1:
        return Ranked(total, NO_ORDINALS)
    maxima = sums.reshape(BLOCKS, width).max(axis=0)
    # NumPy selects from 32-bit numbers without branches, from 16-bit ones with.
    least = max(1, np.partition(maxima.astype(np.int32), width - first).item(width - first))
    (blocks,) = (maxima >= least).nonzero()
    candidates = (np.arange(0, len(sums), width)[:, np.newaxis] + blocks).ravel()
    values = sums[candidates]
    enough = values >= least
    return Ranked(total, best(candidates[enough], values[enough], first))


def common_ordinals(lists: Sequence[ImpactList]) -> Ordinals:
    """The ordinals that every list has, ascending."""
    if not lists:
        return np.empty(0, dtype=np.int64)
    shortest_first = sorted(lists, key=lambda each: len(each.ordinals))
    common = (
        shortest_first[0].ordinals
        if shortest_first[0].distinct
        else np.unique(shortest_first[0].ordinals)
    )
    for each in shortest_first[1:]:
        common = common[impacts_at(each, common) > 0]
    return common


def sums_at(lists: Sequence[ImpactList], ordinals: Ordinals) -> npt.NDArray[np.int64]:
    """The sums of the lists at a few ordinals."""
    sums = np.zeros(len(ordinals), dtype=np.int64)
    for each in lists:
        sums += impacts_at(each, ordinals)
    return sums


def impacts_at(each: ImpactList, ordinals: Ordinals) -> npt.NDArray[Any]:
    """A list's impacts at a few ordinals, 0 where it has none."""
    if each.column is not None:
        return each.column[ordinals]
    known, impacts = each.ordinals, each.impacts.astype(np.int64)
    if not each.distinct:
        known, places = np.unique(known, return_inverse=True)
        impacts = np.bincount(places, weights=impacts).astype(np.int64)
    positions = np.searchsorted(known, ordinals)
    positions[positions == len(known)] = 0
    return np.where(known[positions] == ordinals, impacts[positions], 0)


def buffer_length(documents: int) -> int:
    """Documents rounded up to whole blocks."""
    return -(-max(documents, 1) // BLOCKS) * BLOCKS


def _groups(lists: Sequence[ImpactList]) -> list[list[ImpactList]]:
    """Lists in groups whose sums fit into 16 bits whatever the document."""
    groups: list[list[ImpactList]] = [[]]
    room = LARGEST_SUM
    for each in lists:
        if each.largest > room:
            groups.append([])
            room = LARGEST_SUM
        groups[-1].append(each)
        room -= each.largest
    return groups


def best(ordinals: Ordinals, sums: npt.NDArray[Any], first: int) -> Ordinals:
    """The `first` ordinals of the largest sums: negated sum and ordinal in one number, so that no two are equal."""
    if first < 1:
        return NO_ORDINALS
    keys = sums.astype(np.int64)
    keys <<= 32
    np.subtract(ordinals, keys, out=keys)
    if len(keys) > 4 * first:
        keys.partition(first)
        keys = keys[:first]
    keys.sort()
    return keys[:first] & 0xFFFFFFFF
