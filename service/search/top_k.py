"""Summing impact lists: the top k documents or groups, and the exact count of all matches.

Lists of rare terms are merged by sorting. Frequent terms have dense columns in blocks, with the
largest impact of each block as its bound: the blocks of the highest bounds are summed first, and
others whose bounds add up to less than the last of the page are skipped (block-max pruning; Ding
and Suel, 2011). Matches are counted apart, by the
bits of the frequent terms. Sums of integers do not depend on their order, so that the result does
not depend on the order of the lists.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from service.search.groups import Groups, Units, units_of
from service.search.postings import (
    BLOCK_BITS,
    BLOCK_SIZE,
    IMPACT_BITS,
    IMPACT_MASK,
    Bits,
    DenseList,
    ImpactList,
    Integers,
    Mask,
    SparseList,
    block_count,
)

BATCH = 512
"""Blocks that are summed at a time: their sums stay in the processor's cache."""
FIRST_BLOCKS = 64
"""Blocks that are summed first, at least: more than `k` services reach their k-th best sum."""
SPREAD = 4
"""Documents that are sorted at first for each unit that is wanted: a unit may have several."""
MERGED_BELOW = 4096  # postings
FULL_SORT_UP_TO = 512  # keys
"""Up to this many, a full sort is faster than a partition."""

SUM_BITS = 32
ORDINAL_MASK = (1 << SUM_BITS) - 1
"""A sort key is the integer `ordinal - (sum << 32)`: largest sum first, then lowest ordinal."""
LAST_KEY = np.iinfo(np.int64).max
"""A key behind all others."""

NO_ORDINALS = np.empty(0, np.int64)


class TopDocs(NamedTuple):
    """The exact count of matches, and the sort keys of the best, best first, ties by ordinal."""

    total: int
    keys: Integers

    @property
    def ordinals(self) -> Integers:
        """The ordinals of the best."""
        return self.keys & ORDINAL_MASK


class Accumulator(threading.local):
    """Sums impact lists by unit, with buffers for each thread.

    A unit is a document or, with `groups`, a group of documents: it has the sum of its best
    document, less the penalty of the group. Masks and bits are those of units.
    """

    def __init__(self, documents: int, groups: Groups | None = None) -> None:
        self.units = documents if groups is None else groups.count
        self.groups = groups
        self._bounds = np.empty(block_count(documents), np.int32)
        self._bits = np.empty(block_count(self.units), np.uint64)
        self._flags = np.zeros(self.units, np.bool_)
        self._places = np.empty(self.units, np.int64)
        self._is_split = groups is not None and groups.is_split

    def rank(self, lists: Sequence[ImpactList], k: int, mask: Mask | None) -> TopDocs:
        """Return the best documents of the k best units, and the count of units in any list."""
        sparse, dense = divide(lists)
        bits, total, keys = None, 0, NO_ORDINALS
        if dense:
            bits = self._union(dense, mask)
            total = count_bits(bits)
        if sparse:
            ordinals, sums, distinct = merge(sparse)
            units = units_of(ordinals, self.groups)
            if mask is not None:
                allowed = mask.take(units).nonzero()[0]
                ordinals, sums, units = ordinals[allowed], sums[allowed], units[allowed]
            elif self.groups is None and not dense:
                return TopDocs(
                    distinct, first_keys(ordinals - (sums << SUM_BITS), min(k, distinct))
                )
            dense_sums = sums_at(dense, ordinals)
            if self.groups is None:  # a sum of 0 is that of a repeated ordinal
                total += int(np.count_nonzero((dense_sums == 0) & (sums > 0)))
            else:
                total += self._count_others(units, bits)
            sums += dense_sums
            keys = self._first_units(self._keys(ordinals, sums, units), k)
        if dense and k:
            # Units without a sparse term have to beat the last of the k that have one.
            threshold = -int(keys[k - 1] >> SUM_BITS) if len(keys) >= k else 1
            others = self._at_least(max(1, threshold), dense, k, mask)
            keys = self._first_units(np.concatenate((keys, others)), k)
        return TopDocs(total, keys[:k])

    def best(self, ordinals: Integers, sums: Integers, k: int) -> TopDocs:
        """Return the best documents of the k best units of ascending documents, and the count."""
        units = units_of(ordinals, self.groups)
        keys = self._first_units(self._keys(ordinals, sums, units), k)
        return TopDocs(self._count_others(units, None), keys)

    def matches(self, lists: Sequence[ImpactList], mask: Mask | None) -> Bits:
        """Return the bits of the units that are in any of the lists and in the mask, read-only.

        The array is valid until the next call in the same thread.
        """
        sparse, dense = divide(lists)
        bits = self._union(dense, None) if dense else np.zeros_like(self._bits)
        if sparse:
            matches = [units_of(each.ordinals, self.groups) for each in sparse]
            for units in matches:
                self._flags[units] = True
            bits = np.bitwise_or(bits, pack(self._flags, len(bits)), out=self._bits)
            for units in matches:
                self._flags[units] = False
        if mask is not None:
            bits = np.bitwise_and(bits, pack(mask, len(bits)), out=self._bits)
        return bits

    def _keys(self, ordinals: Integers, sums: Integers, units: Units) -> Integers:
        """Return the sort keys of documents."""
        if self.groups is not None:
            sums = sums - self.groups.penalties.take(units)
        return ordinals - (sums << SUM_BITS)

    def _union(self, dense: Sequence[DenseList], mask: Mask | None) -> Bits:
        """Return the bits of the units in the mask that have any of the terms; read-only."""
        terms = [each.term for each in dense]
        columns = [term.bits if self.groups is None else term.group_bits for term in terms]
        bits = columns[0]
        for column in columns[1:]:
            bits = np.bitwise_or(bits, column, out=self._bits)
        if mask is not None:
            bits = np.bitwise_and(bits, pack(mask, len(bits)), out=self._bits)
        return bits

    def _count_others(self, units: Units, bits: Bits | None) -> int:
        """Return how many distinct units are not among those whose bits are set.

        Equal ones follow each other, unless groups are split.
        """
        if not len(units):
            return 0
        if self._is_split:
            units = units.take(units.argsort())
        is_next = units[1:] != units[:-1]
        if bits is None:
            return 1 + int(np.count_nonzero(is_next))
        is_other = ~unpack(bits).take(units)
        return int(is_other[0]) + int(np.count_nonzero(is_next & is_other[1:]))

    def _first_units(self, keys: Integers, k: int) -> Integers:
        """Return the first keys of the k first units, sorted; the array is overwritten."""
        size = k
        while True:
            size *= 2 if self.groups is None else SPREAD
            first = first_keys(keys, size)
            units, order = units_of(first & ORDINAL_MASK, self.groups), np.arange(len(first))
            # Of several values for one place the last is kept: that of the first key.
            self._places[units[::-1]] = order[::-1]
            is_first: Mask = self._places.take(units) == order
            first = first[is_first]
            if len(first) >= k or size >= len(keys):
                return first[:k]

    def _at_least(
        self, threshold: int, dense: Sequence[DenseList], k: int, mask: Mask | None
    ) -> Integers:
        """Return keys of units whose sums reach the threshold, or a higher one of the top k."""
        bounds = dense[0].maxima
        for each in dense[1:]:
            bounds = np.add(bounds, each.maxima, out=self._bounds)
        blocks = (bounds >= threshold).nonzero()[0]
        count, first = max(k, FIRST_BLOCKS), NO_ORDINALS
        if len(blocks) > 2 * count:
            places = bounds.take(blocks).argpartition(-count)
            first = self._sum(dense, blocks[places[-count:]], threshold, mask)
            first = self._first_units(first, k)
            if len(first) == k:
                threshold = max(threshold, -int(first[-1] >> SUM_BITS))
            blocks = blocks[places[:-count]]
            blocks = blocks[bounds.take(blocks) >= threshold]
        keys = [
            self._sum(dense, blocks[start : start + BATCH], threshold, mask)
            for start in range(0, len(blocks), BATCH)
        ]
        return np.concatenate((first, *keys))

    def _sum(
        self, dense: Sequence[DenseList], blocks: Integers, threshold: int, mask: Mask | None
    ) -> Integers:
        """Return the keys of allowed documents of these blocks whose sums reach the threshold."""
        ordinals, sums = _sum_blocks(dense, blocks, threshold)
        units = units_of(ordinals, self.groups)
        keys = self._keys(ordinals, sums.astype(np.int64), units)
        return keys if mask is None else keys[mask.take(units)]


def divide(lists: Sequence[ImpactList]) -> tuple[list[SparseList], list[DenseList]]:
    """Return the lists of rare terms, and those of frequent ones."""
    sparse = [each for each in lists if isinstance(each, SparseList)]
    return sparse, [each for each in lists if isinstance(each, DenseList)]


def merge(lists: Sequence[SparseList]) -> tuple[Integers, Integers, int]:
    """Merge the postings of lists and add up the impacts of each ordinal.

    Returns the ordinals, ascending; the sum of each, 0 where an ordinal repeats; and the number of
    distinct ordinals.
    """
    if len(lists) == 1:
        postings = lists[0].postings
        return postings >> IMPACT_BITS, postings & IMPACT_MASK, len(postings)
    postings = np.concatenate([each.postings for each in lists])
    # A stable sort merges sorted lists, which takes less time than the default for few postings.
    postings.sort(kind="stable" if len(postings) < MERGED_BELOW else None)
    ordinals, sums = postings >> IMPACT_BITS, postings & IMPACT_MASK
    duplicates = (ordinals[1:] == ordinals[:-1]).nonzero()[0]
    if len(duplicates):
        _add_duplicates(sums, duplicates + 1)
    return ordinals, sums, len(ordinals) - len(duplicates)


def intersect(words: Sequence[Sequence[ImpactList]]) -> Integers:
    """Return the ordinals that are in any list of each word, ascending; none without words."""
    if not words:
        return NO_ORDINALS
    rarest, *others = sorted(words, key=lambda lists: sum(each.frequency for each in lists))
    ordinals = np.concatenate([each.ordinals for each in rarest])
    if len(rarest) > 1:
        ordinals.sort(kind="stable")  # `np.unique` hashes, which takes fifty times as long
        ordinals = ordinals[np.diff(ordinals, prepend=-1) > 0]
    for lists in others:
        ordinals = ordinals.take(sums_at(lists, ordinals).nonzero()[0])
    return ordinals


def sums_at(lists: Iterable[ImpactList], ordinals: Integers) -> Integers:
    """Return the sums of the lists at these ordinals."""
    sums = np.zeros(len(ordinals), np.int64)
    for each in lists:
        sums += each.impacts_at(ordinals)
    return sums


def top_k(ordinals: Integers, sums: Integers, k: int) -> Integers:
    """Return the k ordinals of the largest sums, best first, ties by ordinal."""
    return first_keys(ordinals - (sums << SUM_BITS), k) & ORDINAL_MASK


def first_keys(keys: Integers, k: int) -> Integers:
    """Return the k first keys, sorted; the array is overwritten."""
    if len(keys) > FULL_SORT_UP_TO and 0 < k < len(keys):
        keys.partition(k - 1)
        keys = keys[:k]
    keys.sort()
    return keys[:k]


def pack(mask: Mask, words: int | None = None) -> Bits:
    """Return a mask as bits, in so many words of 64; those beyond the mask are not set."""
    packed = np.zeros(8 * (block_count(len(mask)) if words is None else words), np.uint8)
    packed[: -(-len(mask) // 8)] = np.packbits(mask, bitorder="little")
    return packed.view(np.uint64)


def unpack(bits: Bits, count: int | None = None) -> Mask:
    """Return the first `count` bits as a mask, or all."""
    return np.unpackbits(bits.view(np.uint8), count=count, bitorder="little").view(np.bool_)


def count_bits(bits: Bits) -> int:
    """Return how many bits are set."""
    return int(np.add.reduce(np.bitwise_count(bits), dtype=np.int64))


def _add_duplicates(sums: Integers, duplicates: Integers) -> None:
    """Add the sums at repeated ordinals to the first position of each, and leave 0 there."""
    # Consecutive duplicates are one run: they all belong to the position before it.
    first = np.arange(len(duplicates))
    first[1:] *= duplicates[1:] - duplicates[:-1] > 1
    owners = duplicates.take(np.maximum.accumulate(first)) - 1
    np.add.at(sums, owners, sums.take(duplicates))
    sums[duplicates] = 0


def _sum_blocks(
    dense: Sequence[DenseList], blocks: Integers, threshold: int
) -> tuple[Integers, npt.NDArray[np.int32]]:
    """Return the ordinals of these blocks whose sums reach the threshold, and the sums."""
    sums = dense[0].blocks(blocks).astype(np.int32)
    for each in dense[1:]:
        sums += each.blocks(blocks)
    flat = sums.ravel()
    positions = (flat >= threshold).nonzero()[0]
    ordinals = blocks.take(positions >> BLOCK_BITS) << BLOCK_BITS | positions & (BLOCK_SIZE - 1)
    return ordinals, flat.take(positions)
