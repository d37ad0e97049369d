"""Summing impacts: the best services of some impact lists, and how many there are, exactly.

Lists of rare terms are merged by sorting. Frequent terms have a column of impacts over all
ordinals, in blocks, with the largest impact of each block as its bound: a block whose bounds
together stay below the last place of the page is never looked at (block-max pruning; Ding and Suel,
2011). How many match is counted apart, by the bits of the frequent terms. Nothing depends on the
order of the lists, since sums of integers do not.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Keep = npt.NDArray[np.bool_] | None

BLOCK = 64
"""Ordinals of one block: as many as an integer of the bits has."""
PROBED = 96
"""Blocks that are looked at first, those of the largest bounds, to learn what a page takes."""
AT_ONCE = 512
"""Blocks that are summed at once, at most."""
IMPACT_BITS = 24
"""A posting is one integer, `ordinal << 24 | impact`, so that sorting postings merges lists."""
IMPACT_MASK = (1 << IMPACT_BITS) - 1
NONE = np.empty(0, np.int64)


class Frequent(NamedTuple):
    """A frequent term over all blocks.

    `impacts` is uint16[blocks, 64], `bounds` int32[blocks], the largest impact of each block,
    `bits` uint64[blocks], which services have the term.
    """

    impacts: npt.NDArray[np.uint16]
    bounds: npt.NDArray[np.int32]
    bits: npt.NDArray[np.uint64]


class ImpactList(NamedTuple):
    """What one word of a query adds to the sums.

    `postings` is int64, ascending; an ordinal may be there twice if the word has several meanings,
    which is when it is not `distinct`.
    """

    postings: Integers
    frequent: Frequent | None = None
    distinct: bool = True


class Ranked(NamedTuple):
    """Exact total, and the best ordinals, best first; of equal sums the first ordinal first."""

    total: int
    ordinals: Integers


class Accumulator(threading.local):
    """Ranks; its buffers, one set for each thread, have a number for each block."""

    def __init__(self, documents: int) -> None:
        blocks = block_count(documents)
        self._bounds = np.empty(blocks, np.int32)
        self._bits = np.empty(blocks, np.uint64)

    def rank(self, lists: Sequence[ImpactList], first: int, keep: Keep) -> Ranked:
        """The best `first` of what the lists sum up to."""
        ordinals, sums = merged([each for each in lists if each.frequent is None])
        if keep is not None and len(ordinals):
            kept = keep[ordinals].nonzero()[0]
            ordinals, sums = ordinals.take(kept), sums.take(kept)
        frequent = [each.frequent for each in lists if each.frequent is not None]
        if not frequent:
            return Ranked(len(ordinals), best(ordinals, sums, first))
        total, floor = _count(self._union(frequent), keep), 1
        if len(ordinals):
            added = _added(frequent, ordinals)
            total += len(ordinals) - int(np.count_nonzero(added))
            sums = sums + added
            floor = _floor(sums, first)
        if first < 1:
            return Ranked(total, NONE)
        floor, others, other_sums = self._above(floor, frequent, first, keep)
        if len(ordinals):
            # What has a rare term as well is there with its full sum.
            places = np.searchsorted(ordinals, others)
            places[places == len(ordinals)] = 0
            new = (ordinals.take(places) != others).nonzero()[0]
            top = (sums >= floor).nonzero()[0]
            others = np.concatenate((ordinals.take(top), others.take(new)))
            other_sums = np.concatenate((sums.take(top), other_sums.take(new)))
        return Ranked(total, best(others, other_sums, first))

    def _union(self, frequent: list[Frequent]) -> npt.NDArray[np.uint64]:
        """The bits of the services that have any of these terms."""
        bits = frequent[0].bits
        for each in frequent[1:]:
            bits = np.bitwise_or(bits, each.bits, out=self._bits)
        return bits

    def _above(
        self, floor: int, frequent: list[Frequent], first: int, keep: Keep
    ) -> tuple[int, Integers, Integers]:
        """What the page takes at least, and the ordinals and sums of the frequent terms above it.

        A block is looked at only if its bounds reach what was needed when its turn came; those of
        the largest bounds come first if there are many.
        """
        bounds = frequent[0].bounds
        for each in frequent[1:]:
            bounds = np.add(bounds, each.bounds, out=self._bounds)
        rows = (bounds >= floor).nonzero()[0]
        found: list[tuple[Integers, Integers]] = []
        if len(rows) > PROBED:
            probed = _floor(bounds, PROBED)
            likely = (bounds >= probed).nonzero()[0][:AT_ONCE]
            found.append(_summed(frequent, likely, floor, keep))
            floor = max(floor, _floor(found[0][1], first))
            rest = bounds >= floor
            rest[likely] = False
            rows = rest.nonzero()[0]
        found += [
            _summed(frequent, rows[start : start + AT_ONCE], floor, keep)
            for start in range(0, len(rows), AT_ONCE)
        ]
        if len(found) < 2:
            return floor, *(found[0] if found else (NONE, NONE))
        ordinals, sums = zip(*found, strict=True)
        return floor, np.concatenate(ordinals), np.concatenate(sums)


def merged(lists: Sequence[ImpactList]) -> tuple[Integers, Integers]:
    """The distinct ordinals of some lists, ascending, and the sum of the impacts of each."""
    if not lists:
        return NONE, NONE
    if len(lists) == 1 and lists[0].distinct:
        postings = lists[0].postings
        return postings >> IMPACT_BITS, postings & IMPACT_MASK
    postings = np.concatenate([each.postings for each in lists])
    postings.sort()
    ordinals, impacts = postings >> IMPACT_BITS, postings & IMPACT_MASK
    starts = np.empty(len(postings), np.bool_)
    starts[:1] = True
    np.not_equal(ordinals[1:], ordinals[:-1], out=starts[1:])
    first = starts.nonzero()[0]
    if len(first) == len(postings):
        return ordinals, impacts
    return ordinals.take(first), np.add.reduceat(impacts, first)


def best(ordinals: Integers, sums: Integers, first: int) -> Integers:
    """The `first` ordinals of the largest sums; of equal sums the first ordinal first."""
    if first < 1 or not len(ordinals):
        return NONE
    if len(ordinals) > 4 * first:
        top = (sums >= _floor(sums, first)).nonzero()[0]
        ordinals, sums = ordinals.take(top), sums.take(top)
    # Negated sum and ordinal in one number, so that one sort orders by both.
    keys = ordinals - (sums << 32)
    keys.sort()
    return keys[:first] & 0xFFFFFFFF


def block_count(documents: int) -> int:
    """How many blocks hold so many documents; at least one."""
    return -(-max(documents, 1) // BLOCK)


def _summed(
    frequent: list[Frequent], rows: Integers, floor: int, keep: Keep
) -> tuple[Integers, Integers]:
    """The ordinals of these blocks whose sums reach the floor, and the sums."""
    sums = frequent[0].impacts.take(rows, axis=0).astype(np.int32)
    for each in frequent[1:]:
        sums += each.impacts.take(rows, axis=0)
    positions = (sums.ravel() >= floor).nonzero()[0]
    ordinals = (rows.take(positions // BLOCK) * BLOCK) + positions % BLOCK
    found = sums.ravel().take(positions).astype(np.int64)
    if keep is None:
        return ordinals, found
    kept = keep[ordinals].nonzero()[0]
    return ordinals.take(kept), found.take(kept)


def _count(bits: npt.NDArray[np.uint64], keep: Keep) -> int:
    if keep is not None:
        packed = np.zeros(bits.nbytes, np.uint8)
        packed[: -(-len(keep) // 8)] = np.packbits(keep, bitorder="little")
        bits = bits & packed.view(np.uint64)
    return int(np.bitwise_count(bits).sum(dtype=np.int64))


def _added(frequent: list[Frequent], ordinals: Integers) -> Integers:
    added = frequent[0].impacts.ravel().take(ordinals).astype(np.int64)
    for each in frequent[1:]:
        added += each.impacts.ravel().take(ordinals)
    return added


def _floor(sums: npt.NDArray[np.int64] | npt.NDArray[np.int32], first: int) -> int:
    """The sum that `first` of these reach, or 1, which every match does."""
    if len(sums) < first or first < 1:
        return 1
    return max(1, int(np.partition(sums, len(sums) - first)[len(sums) - first]))
