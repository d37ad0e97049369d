"""Summing impact lists: the top k documents, and the exact count of all matches.

Lists of rare terms are merged by sorting. Frequent terms have dense columns in blocks, with the
largest impact of each block as its bound: blocks whose bounds add up to less than the threshold of
the page are skipped (block-max pruning; Ding and Suel, 2011). Matches are counted apart, by the
bits of the frequent terms. Sums of integers do not depend on their order, so that the result does
not depend on the order of the lists.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from service.search.postings import (
    BLOCK_BITS,
    BLOCK_SIZE,
    IMPACT_BITS,
    IMPACT_MASK,
    DenseTerm,
    ImpactList,
    Integers,
    Mask,
    block_count,
)
from service.storage.memory_map import items_of

BATCH = 512
"""Blocks that are summed at a time: their sums stay in the processor's cache."""
TIGHTEN_ABOVE = 64  # blocks
"""Above this many blocks, champion lists raise the threshold first: to skip blocks pays then."""
LOOP_UP_TO = 24  # duplicates
"""Up to this many, a loop adds duplicates faster than NumPy does."""
FULL_SORT_UP_TO = 512  # keys
"""Up to this many, a full sort is faster than a partition."""

SUM_BITS = 32
ORDINAL_MASK = (1 << SUM_BITS) - 1
"""A sort key is the integer `ordinal - (sum << 32)`: largest sum first, then lowest ordinal."""

NO_ORDINALS = np.empty(0, np.int64)


class TopK(NamedTuple):
    """The exact count of matches, and the ordinals of the best, best first, ties by ordinal."""

    total: int
    ordinals: Integers


class RankedKeys(NamedTuple):
    """The exact count of matches, and the sort keys of the best, best first."""

    total: int
    keys: Integers

    @property
    def ordinals(self) -> Integers:
        """The ordinals of the best."""
        return self.keys & ORDINAL_MASK


class Merged(NamedTuple):
    """Impact lists merged: ascending ordinals, and the sum of each.

    `zeros` are the positions whose sum is 0: repeated ordinals, and those that a mask excludes.
    """

    ordinals: Integers
    sums: Integers
    zeros: Integers


class Accumulator(threading.local):
    """Ranks impact lists, with buffers of one item per block for each thread."""

    def __init__(self, documents: int) -> None:
        self.documents = documents
        blocks = block_count(documents)
        self._bounds = np.empty(blocks, np.int32)
        self._bits = np.empty(blocks, np.uint64)
        self._counts = np.empty(blocks, np.uint8)
        self._flags = np.zeros(documents, np.bool_)

    def rank(self, lists: Sequence[ImpactList], k: int, mask: Mask | None) -> RankedKeys:
        """Return the top k of the sum of the lists, and the count of documents in any of them."""
        rare = [each for each in lists if each.dense is None]
        if len(rare) == len(lists):
            ordinals, sums, zeros = merge(rare, mask)
            total = len(ordinals) - len(zeros)
            return RankedKeys(total, top_keys(ordinals, sums, min(k, total)))
        only = lists[0].dense if len(lists) == 1 and mask is None else None
        if only is not None and k <= len(only.champions):
            champions = only.champions[:k]
            keys = champions - (_impacts_at([only], champions) << SUM_BITS)
            return RankedKeys(only.document_frequency, keys)
        dense = [each.dense for each in lists if each.dense is not None]
        total = self._count(dense, mask)
        if not rare:
            return RankedKeys(total, top_keys(*self._at_least(1, dense, k, mask), k))
        ordinals, sums, zeros = merge(rare, mask)
        dense_sums = _impacts_at(dense, ordinals)
        dense_sums[zeros] = 0
        total += len(ordinals) - len(zeros) - int(np.count_nonzero(dense_sums))
        sums += dense_sums
        keys = top_keys(ordinals, sums, k)
        # Documents without a rare term have to beat the last of the k that have one.
        threshold = max(1, -int(keys[k - 1] >> SUM_BITS)) if 0 < k <= len(keys) else 1
        others, other_sums = self._at_least(threshold, dense, k, mask)
        if k and len(others):
            # A document with a rare term is in `keys` with its full sum, or not in the top k.
            ranked = keys & ORDINAL_MASK
            ranked.sort()
            positions = ranked.searchsorted(others)
            positions[positions == len(ranked)] = 0
            new = ranked.take(positions) != others
            keys = np.concatenate((keys, others[new] - (other_sums[new] << SUM_BITS)))
            keys.sort()
        return RankedKeys(total, keys[: min(k, total)])

    def matches(self, lists: Sequence[ImpactList], mask: Mask | None) -> npt.NDArray[np.uint64]:
        """Return one bit for each document that is in any of the lists and in the mask.

        The array is read-only, and valid until the next call in the same thread.
        """
        rare = [each.postings >> IMPACT_BITS for each in lists if each.dense is None]
        dense = [each.dense for each in lists if each.dense is not None]
        bits = self._union(dense) if dense else np.zeros_like(self._bits)
        if rare:
            for ordinals in rare:
                self._flags[ordinals] = True
            bits = np.bitwise_or(bits, pack(self._flags, len(bits)), out=self._bits)
            for ordinals in rare:
                self._flags[ordinals] = False
        if mask is not None:
            bits = np.bitwise_and(bits, pack(mask, len(bits)), out=self._bits)
        return bits

    def _union(self, dense: list[DenseTerm]) -> npt.NDArray[np.uint64]:
        """Return the bits of the documents that have any of the terms; they are read-only."""
        bits = dense[0].bits
        for term in dense[1:]:
            bits = np.bitwise_or(bits, term.bits, out=self._bits)
        return bits

    def _count(self, dense: list[DenseTerm], mask: Mask | None) -> int:
        """Count the documents that have any of the terms."""
        if len(dense) == 1 and mask is None:
            return dense[0].document_frequency
        bits = self._union(dense)
        if mask is not None:
            bits = np.bitwise_and(bits, pack(mask, len(bits)), out=self._bits)
        return int(np.add.reduce(np.bitwise_count(bits, out=self._counts), dtype=np.int64))

    def _at_least(
        self, threshold: int, dense: list[DenseTerm], k: int, mask: Mask | None
    ) -> tuple[Integers, Integers]:
        """Return the ordinals whose sums reach the threshold or a higher one of the top k; sums."""
        bounds = dense[0].maxima
        for term in dense[1:]:
            bounds = np.add(bounds, term.maxima, out=self._bounds)
        blocks = (bounds >= threshold).nonzero()[0]
        if not len(blocks):
            return NO_ORDINALS, NO_ORDINALS
        if len(blocks) > TIGHTEN_ABOVE:
            threshold = max(threshold, _champion_threshold(dense, k, mask))
            blocks = (bounds >= threshold).nonzero()[0]
        if len(blocks) <= BATCH:
            return _sum_blocks(dense, blocks, threshold, mask)
        batches = [
            _sum_blocks(dense, blocks[start : start + BATCH], threshold, mask)
            for start in range(0, len(blocks), BATCH)
        ]
        ordinals, sums = zip(*batches, strict=True)
        return np.concatenate(ordinals), np.concatenate(sums)


def merge(lists: Sequence[ImpactList], mask: Mask | None = None) -> Merged:
    """Merge impact lists and add up the impacts of each ordinal."""
    if not lists:
        return Merged(NO_ORDINALS, NO_ORDINALS, NO_ORDINALS)
    duplicates = NO_ORDINALS
    if len(lists) == 1 and lists[0].distinct:
        postings = lists[0].postings
        ordinals, sums = postings >> IMPACT_BITS, postings & IMPACT_MASK
    else:
        postings = np.concatenate([each.postings for each in lists])
        postings.sort(kind="stable")  # merges sorted lists in a third of the time of the default
        ordinals, sums = postings >> IMPACT_BITS, postings & IMPACT_MASK
        duplicates = (ordinals[1:] == ordinals[:-1]).nonzero()[0]
        if len(duplicates):
            duplicates += 1
            _add_duplicates(sums, duplicates)
    if mask is None:
        return Merged(ordinals, sums, duplicates)
    sums *= mask.take(ordinals)
    return Merged(ordinals, sums, (sums == 0).nonzero()[0])


def intersect(lists: Sequence[ImpactList]) -> Integers:
    """Return the ordinals that are in every list, ascending; none without lists."""
    if not lists:
        return NO_ORDINALS
    dense = [each.dense for each in lists if each.dense is not None]
    rare = sorted((e for e in lists if e.dense is None), key=lambda each: len(each.postings))
    if not rare:
        bits = reduce(np.bitwise_and, [term.bits for term in dense])
        return np.unpackbits(bits.view(np.uint8), bitorder="little").nonzero()[0]
    ordinals, sums, _ = merge(rare[:1])
    common = ordinals.take(sums.nonzero()[0])
    for each in rare[1:]:
        common = common.take(impacts_at(each, common).nonzero()[0])
    for term in dense:
        common = common.take(_impacts_at([term], common).nonzero()[0])
    return common


def sums_at(lists: Sequence[ImpactList], ordinals: Integers) -> Integers:
    """Return the sums of the lists at these ordinals."""
    sums = np.zeros(len(ordinals), np.int64)
    for each in lists:
        sums += impacts_at(each, ordinals)
    return sums


def top_k(ordinals: Integers, sums: Integers, k: int) -> Integers:
    """Return the k ordinals of the largest sums, best first, ties by ordinal."""
    return top_keys(ordinals, sums, k) & ORDINAL_MASK


def top_keys(ordinals: Integers, sums: Integers, k: int) -> Integers:
    """Return the sort keys of the k largest sums, best first."""
    keys = ordinals - (sums << SUM_BITS)
    if len(keys) > FULL_SORT_UP_TO and 0 < k < len(keys):
        keys.partition(k - 1)
        keys = keys[:k]
    keys.sort()
    return keys[:k]


def pack(mask: Mask, words: int) -> npt.NDArray[np.uint64]:
    """Return a mask as bits, in so many words of 64; documents beyond the mask are not set."""
    packed = np.zeros(words * 8, np.uint8)
    packed[: -(-len(mask) // 8)] = np.packbits(mask, bitorder="little")
    return packed.view(np.uint64)


def _add_duplicates(sums: Integers, duplicates: Integers) -> None:
    """Add the sums at repeated ordinals to the first position of each, and leave 0 there."""
    if len(duplicates) <= LOOP_UP_TO:
        items = items_of(sums)
        for position in reversed(duplicates.tolist()):
            items[position - 1] += items[position]
            items[position] = 0
        return
    # Consecutive duplicates are one run: they all belong to the position before it.
    runs = duplicates - np.arange(len(duplicates))
    owners = duplicates.take(runs.searchsorted(runs)) - 1
    np.add.at(sums, owners, sums.take(duplicates))
    sums[duplicates] = 0


def _impacts_at(dense: list[DenseTerm], ordinals: Integers) -> Integers:
    impacts = dense[0].impacts.ravel().take(ordinals).astype(np.int64)
    for term in dense[1:]:
        impacts += term.impacts.ravel().take(ordinals)
    return impacts


def impacts_at(each: ImpactList, ordinals: Integers) -> Integers:
    """Return the impacts of a list at these ordinals, 0 where it has none."""
    if each.dense is not None:
        return _impacts_at([each.dense], ordinals)
    if not each.distinct:
        own, sums, _ = merge([each])
        positions = np.searchsorted(own, ordinals)
        positions[positions == len(own)] = 0
        return np.where(own[positions] == ordinals, sums[positions], 0)
    # No impact is 0, so this is the position of the posting of an ordinal, if it has one.
    positions = np.searchsorted(each.postings, ordinals << IMPACT_BITS)
    positions[positions == len(each.postings)] = 0
    postings = each.postings[positions]
    return np.where(postings >> IMPACT_BITS == ordinals, postings & IMPACT_MASK, 0)


def _champion_threshold(dense: list[DenseTerm], k: int, mask: Mask | None) -> int:
    """Return a lower bound of the k-th best sum: that of the k-th best champion, or 1."""
    champions = [
        term.champions[:k] if mask is None else term.champions[mask.take(term.champions)]
        for term in dense
    ]
    ordinals = np.concatenate(champions)
    keys = np.unique(ordinals - (_impacts_at(dense, ordinals) << SUM_BITS))
    return -int(keys[k - 1] >> SUM_BITS) if 0 < k <= len(keys) else 1


def _sum_blocks(
    dense: list[DenseTerm], blocks: Integers, threshold: int, mask: Mask | None
) -> tuple[Integers, Integers]:
    """Return the ordinals of these blocks whose sums reach the threshold, and the sums."""
    block_sums = dense[0].impacts.take(blocks, axis=0).astype(np.int32)
    for term in dense[1:]:
        block_sums += term.impacts.take(blocks, axis=0)
    flat = block_sums.ravel()
    positions = (flat >= threshold).nonzero()[0]
    ordinals = blocks.take(positions >> BLOCK_BITS) << BLOCK_BITS | positions & (BLOCK_SIZE - 1)
    sums = flat.take(positions).astype(np.int64)
    if mask is None:
        return ordinals, sums
    allowed = mask.take(ordinals).nonzero()[0]
    return ordinals.take(allowed), sums.take(allowed)
