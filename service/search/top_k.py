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

from service.storage.memory_map import items_of

Integers = npt.NDArray[np.int64]
Keep = npt.NDArray[np.bool_] | None

BLOCK_BITS = 6
BLOCK = 1 << BLOCK_BITS
"""Ordinals of one block: as many as an integer of the bits has."""
AT_ONCE = 512
"""Blocks that are summed at once, at most."""
MANY = 64
"""Blocks to look at from which on it pays to learn first what a page takes."""
FEW = 24
"""Repeats up to which to add one after the other is faster than to add all at once."""
SORTED_WHOLE = 512
"""Up to so many, to sort them all is faster than to part the best from the others first."""
CHAMPIONS = 256
"""How many of the best services of a frequent term are kept in order."""
IMPACT_BITS = 24
"""A posting is one integer, `ordinal << 24 | impact`, so that sorting postings merges lists."""
IMPACT_MASK = (1 << IMPACT_BITS) - 1
ORDINAL_MASK = (1 << 32) - 1
NONE = np.empty(0, np.int64)


class DenseTerm(NamedTuple):
    """A frequent term over all blocks.

    `impacts` is uint16[blocks, 64], `bounds` int32[blocks], the largest impact of each block,
    `bits` uint64[blocks], which services have the term, `champions` int64[at most CHAMPIONS] the
    ordinals of the largest impacts, best first, and `services` how many have the term.
    """

    impacts: npt.NDArray[np.uint16]
    bounds: npt.NDArray[np.int32]
    bits: npt.NDArray[np.uint64]
    champions: Integers
    services: int


class ImpactList(NamedTuple):
    """What one word of a query adds to the sums.

    `postings` is int64, ascending if they are `distinct`; where a word has several meanings they
    follow each other, and an ordinal may be there again.
    """

    postings: Integers
    frequent: DenseTerm | None = None
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
        self._counts = np.empty(blocks, np.uint8)

    def rank(self, lists: Sequence[ImpactList], first: int, keep: Keep) -> Ranked:
        """The best `first` of what the lists sum up to."""
        rare = [each for each in lists if each.frequent is None]
        if len(rare) == len(lists):
            ordinals, sums, void = merged(rare, keep)
            total = len(ordinals) - len(void)
            return Ranked(total, best(ordinals, sums, min(first, total)))
        alone = lists[0].frequent if len(lists) == 1 and keep is None else None
        if alone is not None and first <= len(alone.champions):
            return Ranked(alone.services, alone.champions[:first])
        frequent = [each.frequent for each in lists if each.frequent is not None]
        total = self._count(frequent, keep)
        if not rare:
            return Ranked(total, best(*self._above(1, frequent, first, keep), first))
        ordinals, sums, void = merged(rare, keep)
        added = _added(frequent, ordinals)
        added[void] = 0
        total += len(ordinals) - len(void) - int(np.count_nonzero(added))
        sums += added
        keys = _best_keys(ordinals, sums, first)
        # What the last of them reaches; every match reaches 1.
        floor = max(1, -int(keys[first - 1] >> 32)) if 0 < first <= len(keys) else 1
        others, other_sums = self._above(floor, frequent, first, keep)
        if first and len(others):
            # What has a rare term as well is there with its full sum, or not among the best.
            known = keys & ORDINAL_MASK
            known.sort()
            places = known.searchsorted(others)
            places[places == len(known)] = 0
            new = known.take(places) != others
            keys = np.concatenate((keys, others[new] - (other_sums[new] << 32)))
            keys.sort()
        return Ranked(total, keys[: min(first, total)] & ORDINAL_MASK)

    def _count(self, frequent: list[DenseTerm], keep: Keep) -> int:
        """How many services have any of these terms."""
        if len(frequent) == 1 and keep is None:
            return frequent[0].services
        bits = frequent[0].bits
        for each in frequent[1:]:
            bits = np.bitwise_or(bits, each.bits, out=self._bits)
        if keep is not None:
            packed = np.zeros(bits.nbytes, np.uint8)
            packed[: -(-len(keep) // 8)] = np.packbits(keep, bitorder="little")
            bits = np.bitwise_and(bits, packed.view(np.uint64), out=self._bits)
        return int(np.add.reduce(np.bitwise_count(bits, out=self._counts), dtype=np.int64))

    def _above(
        self, floor: int, frequent: list[DenseTerm], first: int, keep: Keep
    ) -> tuple[Integers, Integers]:
        """The ordinals and sums of the frequent terms that can be among the best `first`.

        Only blocks whose bounds reach the floor are looked at.
        """
        bounds = frequent[0].bounds
        for each in frequent[1:]:
            bounds = np.add(bounds, each.bounds, out=self._bounds)
        rows = (bounds >= floor).nonzero()[0]
        if not len(rows):
            return NONE, NONE
        if len(rows) > MANY:
            floor = max(floor, _champions_floor(frequent, first, keep))
            rows = (bounds >= floor).nonzero()[0]
        if len(rows) <= AT_ONCE:
            return _summed(frequent, rows, floor, keep)
        found = [
            _summed(frequent, rows[start : start + AT_ONCE], floor, keep)
            for start in range(0, len(rows), AT_ONCE)
        ]
        ordinals, sums = zip(*found, strict=True)
        return np.concatenate(ordinals), np.concatenate(sums)


def merged(lists: Sequence[ImpactList], keep: Keep = None) -> tuple[Integers, Integers, Integers]:
    """The ordinals of some lists, ascending, the sum of the impacts of each, and the void places.

    There the sum is 0, as an ordinal is there again, or is not to be kept.
    """
    if not lists:
        return NONE, NONE, NONE
    repeats = NONE
    if len(lists) == 1 and lists[0].distinct:
        postings = lists[0].postings
        ordinals, sums = postings >> IMPACT_BITS, postings & IMPACT_MASK
    else:
        postings = np.concatenate([each.postings for each in lists])
        postings.sort()
        ordinals, sums = postings >> IMPACT_BITS, postings & IMPACT_MASK
        repeats = (ordinals[1:] == ordinals[:-1]).nonzero()[0]
        if len(repeats):
            repeats += 1
            _gather(sums, repeats)
    if keep is None:
        return ordinals, sums, repeats
    sums *= keep.take(ordinals)
    return ordinals, sums, (sums == 0).nonzero()[0]


def best(ordinals: Integers, sums: Integers, first: int) -> Integers:
    """The `first` ordinals of the largest sums; of equal sums the first ordinal first."""
    return _best_keys(ordinals, sums, first) & ORDINAL_MASK


def block_count(documents: int) -> int:
    """How many blocks hold so many documents; at least one."""
    return -(-max(documents, 1) // BLOCK)


def _best_keys(ordinals: Integers, sums: Integers, first: int) -> Integers:
    """The `first` keys, ascending: negated sum and ordinal in one number, to order by both."""
    keys = ordinals - (sums << 32)
    if len(keys) > SORTED_WHOLE and 0 < first < len(keys):
        keys.partition(first - 1)
        keys = keys[:first]
    keys.sort()
    return keys[:first]


def _gather(sums: Integers, repeats: Integers) -> None:
    """Add what is at the places of repeats to the first place of their ordinals."""
    if len(repeats) <= FEW:
        items = items_of(sums)
        for place in reversed(repeats.tolist()):
            items[place - 1] += items[place]
            items[place] = 0
        return
    # In a row of them, all belong to the place before the first.
    rows = repeats - np.arange(len(repeats))
    owners = repeats.take(rows.searchsorted(rows)) - 1
    np.add.at(sums, owners, sums.take(repeats))
    sums[repeats] = 0


def _added(frequent: list[DenseTerm], ordinals: Integers) -> Integers:
    """What frequent terms add to the sums of these ordinals."""
    added = frequent[0].impacts.ravel().take(ordinals).astype(np.int64)
    for each in frequent[1:]:
        added += each.impacts.ravel().take(ordinals)
    return added


def _champions_floor(frequent: list[DenseTerm], first: int, keep: Keep) -> int:
    """What the best `first` reach at least, as that many champions of the terms do, or 1."""
    champions = [
        each.champions[:first] if keep is None else each.champions[keep.take(each.champions)]
        for each in frequent
    ]
    ordinals = np.concatenate(champions)
    keys = np.unique(ordinals - (_added(frequent, ordinals) << 32))
    return -int(keys[first - 1] >> 32) if 0 < first <= len(keys) else 1


def _summed(
    frequent: list[DenseTerm], rows: Integers, floor: int, keep: Keep
) -> tuple[Integers, Integers]:
    """The ordinals of these blocks whose sums reach the floor, and the sums."""
    blocks = frequent[0].impacts.take(rows, axis=0).astype(np.int32)
    for each in frequent[1:]:
        blocks += each.impacts.take(rows, axis=0)
    flat = blocks.ravel()
    places = (flat >= floor).nonzero()[0]
    ordinals = rows.take(places >> BLOCK_BITS) << BLOCK_BITS | places & (BLOCK - 1)
    sums = flat.take(places).astype(np.int64)
    if keep is None:
        return ordinals, sums
    kept = keep.take(ordinals).nonzero()[0]
    return ordinals.take(kept), sums.take(kept)
