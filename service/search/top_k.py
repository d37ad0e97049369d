"""The matches of a query: the top k documents or groups, and the exact count of all.

Lists of rare terms are merged by sorting. Frequent terms have dense columns in blocks, with the
largest impact of each block as its bound: the blocks of the highest bounds are summed first, and
others whose bounds add up to less than the last of the page are skipped (block-max pruning; Ding
and Suel, 2011). Matches are counted by the bits of the frequent terms. Sums of integers do not
depend on their order, so that the result does not depend on the order of the lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from service.search.groups import Groups, Units, is_among_first, units_of
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

FIRST_BLOCKS = 64
"""Blocks that are summed first, at least: more than `k` services reach their k-th best sum."""
SPREAD = 4
"""Documents that are sorted at first for each unit that is wanted: a unit may have several."""
FULL_SORT_UP_TO = 512  # keys
"""Up to this many, a full sort is faster than a partition."""

SUM_BITS: Integers = np.array(32)
ORDINAL_MASK: Integers = np.array((1 << 32) - 1)
"""A sort key is the integer `ordinal - (sum << 32)`: largest sum first, then lowest ordinal."""

NO_ORDINALS = np.empty(0, np.int64)


class TopDocs(NamedTuple):
    """The exact count of matches, and the sort keys of the best, best first, ties by ordinal."""

    total: int
    keys: Integers

    @property
    def ordinals(self) -> Integers:
        """The ordinals of the best."""
        return self.keys & ORDINAL_MASK


class Scorer:
    """The documents that match the words of one query, scored by integers.

    A unit is a document or, with `groups`, a group of documents: it has the sum of its best
    document, less the penalty of the group.

    lists: of all terms of the query
    units: the count of all
    mask: the units that may match, None for all
    words: the lists of each word that a match must have, None where any word suffices
    """

    def __init__(
        self,
        lists: Sequence[ImpactList],
        units: int,
        groups: Groups | None = None,
        mask: Mask | None = None,
        words: Sequence[Sequence[ImpactList]] | None = None,
    ) -> None:
        self._lists, self._units, self._groups, self._mask = lists, units, groups, mask
        self._sparse = [each for each in lists if isinstance(each, SparseList)]
        self._dense = [each for each in lists if isinstance(each, DenseList)]
        self._every: Integers | None = None
        if words is not None:
            self._every = intersect(words)
            if mask is not None:
                self._every = self._every[mask.take(units_of(self._every, groups))]

    def top(self, k: int) -> TopDocs:
        """Return the best documents of the k best units, and the exact count of units."""
        bits, total, keys = None, 0, NO_ORDINALS
        if self._every is not None:
            sums = sums_at(self._lists, self._every)
            units = units_of(self._every, self._groups)
            keys = self._keys(self._every, sums, units)
            return TopDocs(self._count_others(units, None), self._first_units(keys, k))
        if self._dense:
            bits = self._dense_bits()
            total = count_bits(bits)
        if self._sparse:
            others, keys = self._top_sparse(k, bits)
            total += others
        if self._dense and k:
            keys = self._first_of_blocks(keys, k)
        return TopDocs(total, keys[:k])

    def bits(self) -> Bits:
        """Return the bits of the units that match, read-only."""
        sparse, mask = [each.ordinals for each in self._sparse], self._mask
        if self._every is not None:
            sparse, mask = [self._every], None
        bits = None if self._every is not None or not self._dense else self._dense_bits()
        if sparse or bits is None:
            flags = np.zeros(self._units, np.bool_)
            for ordinals in sparse:
                flags[units_of(ordinals, self._groups)] = True
            if mask is not None:
                flags &= mask
            bits = pack(flags) if bits is None else pack(flags) | bits
        return bits

    def impacts_at(self, documents: Integers) -> Integers:
        """Return the weighted impact of each term of the query at some documents.

        int64[terms, documents], 0 for documents that do not match; terms in the order of the query.
        """
        impacts = np.zeros((len(self._lists), len(documents)), np.int64)
        for row, each in enumerate(self._lists):
            impacts[row] = each.impacts_at(documents)
        return impacts if self._every is None else impacts * np.isin(documents, self._every)

    def _top_sparse(self, k: int, bits: Bits | None) -> tuple[int, Integers]:
        """Return the count of units with a sparse term that are not in `bits`, and their keys.

        The keys are those of the best documents of the k best units, in `bits` or not.
        """
        ordinals, sums, count = merge(self._sparse)
        mask, units = self._mask, units_of(ordinals, self._groups)
        if self._groups is None:
            if mask is not None:
                sums *= mask.take(units)
                count = int(np.count_nonzero(sums))
            matches = count
            if self._dense:
                dense_sums = sums_at(self._dense, ordinals)
                dense_sums *= sums > 0
                count -= int(np.count_nonzero(dense_sums))
                sums += dense_sums
            return count, first_keys(ordinals - (sums << SUM_BITS), min(k, matches))
        if mask is not None:
            allowed = mask.take(units).nonzero()[0]
            ordinals, sums, units = ordinals[allowed], sums[allowed], units[allowed]
        others = self._count_others(units, bits)
        sums += sums_at(self._dense, ordinals)
        return others, self._first_units(self._keys(ordinals, sums, units), k)

    def _keys(self, ordinals: Integers, sums: Integers, units: Units) -> Integers:
        """Return the sort keys of documents."""
        if self._groups is not None:
            sums = sums - self._groups.penalties.take(units)
        return ordinals - (sums << SUM_BITS)

    def _dense_bits(self) -> Bits:
        """Return the bits of the units in the mask that have any of the dense terms; read-only."""
        terms = [each.term for each in self._dense]
        columns = [term.bits if self._groups is None else term.group_bits for term in terms]
        bits = columns[0]
        for column in columns[1:]:
            bits = bits | column
        return bits if self._mask is None else bits & pack(self._mask)

    def _count_others(self, units: Units, bits: Bits | None) -> int:
        """Return how many distinct units are not among those whose bits are set.

        Equal ones follow each other, unless groups are split.
        """
        if not len(units):
            return 0
        if self._groups is not None and self._groups.is_split:
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
            size *= 2 if self._groups is None else SPREAD
            first = first_keys(keys, size)
            first = first[is_among_first(units_of(first & ORDINAL_MASK, self._groups), 1)]
            if len(first) >= k or size >= len(keys):
                return first[:k]

    def _first_of_blocks(self, keys: Integers, k: int) -> Integers:
        """Return the first keys of the k first units, of some keys and of the dense terms.

        The keys are those of all units that have a sparse term: others must beat their k-th.
        """
        dense = self._dense
        bounds = dense[0].maxima
        for each in dense[1:]:
            bounds = bounds + each.maxima
        threshold = -int(keys[k - 1] >> SUM_BITS) if len(keys) >= k else 1
        blocks, count = (bounds >= threshold).nonzero()[0], max(k, FIRST_BLOCKS)
        if len(blocks) > 2 * count:
            places = bounds.take(blocks).argpartition(-count)
            best = self._keys_of(blocks.take(places[-count:]), threshold)
            keys = self._first_units(np.concatenate((keys, best)), k)
            if len(keys) == k:
                threshold = -int(keys[-1] >> SUM_BITS)
            blocks = blocks.take(places[:-count])
            blocks = blocks[bounds.take(blocks) >= threshold]
        others = self._keys_of(blocks, threshold)
        return self._first_units(np.concatenate((keys, others)), k) if len(others) else keys

    def _keys_of(self, blocks: Integers, threshold: int) -> Integers:
        """Return the keys of allowed documents of blocks whose sums of dense terms reach this."""
        sums = self._dense[0].blocks(blocks).astype(np.int32)
        for each in self._dense[1:]:
            sums += each.blocks(blocks)
        flat = sums.ravel()
        positions = (flat >= max(1, threshold)).nonzero()[0]
        ordinals = blocks.take(positions >> BLOCK_BITS) << BLOCK_BITS | positions & BLOCK_SIZE - 1
        units = units_of(ordinals, self._groups)
        keys = self._keys(ordinals, flat.take(positions).astype(np.int64), units)
        return keys if self._mask is None else keys[self._mask.take(units)]


def merge(lists: Sequence[SparseList]) -> tuple[Integers, Integers, int]:
    """Merge the postings of lists and add up the impacts of each ordinal.

    Returns the ordinals, ascending; the sum of each, 0 where an ordinal repeats; and the number of
    distinct ordinals.
    """
    if len(lists) == 1:
        postings = lists[0].postings
        return postings >> IMPACT_BITS, postings & IMPACT_MASK, len(postings)
    postings = np.concatenate([each.postings for each in lists])
    postings.sort()
    ordinals, sums = postings >> IMPACT_BITS, postings & IMPACT_MASK
    duplicates = (ordinals[1:] == ordinals[:-1]).nonzero()[0]
    if len(duplicates):
        # Consecutive duplicates are one run: they all belong to the position before it.
        first = np.arange(len(duplicates))
        first[1:] *= duplicates[1:] - duplicates[:-1] > 1
        owners = duplicates.take(np.maximum.accumulate(first))
        duplicates += 1
        np.add.at(sums, owners, sums.take(duplicates))
        sums[duplicates] = 0
    return ordinals, sums, len(ordinals) - len(duplicates)


def intersect(words: Sequence[Sequence[ImpactList]]) -> Integers:
    """Return the ordinals that are in any list of each word, ascending; none without words."""
    if not words:
        return NO_ORDINALS
    rarest, *others = sorted(words, key=lambda lists: sum(each.frequency for each in lists))
    ordinals = np.concatenate([NO_ORDINALS, *(each.ordinals for each in rarest)])
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
    if len(keys) > FULL_SORT_UP_TO and k < len(keys):
        keys.partition(max(k - 1, 0))
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
