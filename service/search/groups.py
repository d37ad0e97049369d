"""Groups of documents: the endpoints of a service and its other documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from service.search.postings import BLOCK_BITS, BLOCK_SIZE, Bits, Integers, Mask, block_count

MARGIN = 2
"""Documents that are ranked at first for each one that is to be listed."""
GROWTH = 8
"""Factor by which k grows until a page is full."""
Units: TypeAlias = npt.NDArray[np.int32] | Integers
"""Numbers of documents, or of groups."""

LAST_BIT = BLOCK_SIZE - 1
ONES = np.uint64(2**64 - 1)


class Ranked(NamedTuple):
    """The exact counts of all rows and of the similar ones of them, and the first, best first."""

    total: int
    documents: Integers
    similar: int = 0


class ListedPage(NamedTuple):
    """The exact counts of all rows, of those that are listed and of similar ones; and a page."""

    total: int
    listed: int
    documents: Integers
    similar: int = 0


class Groups:
    """The groups of documents.

    `first`, int64[groups + 1], is the first document of each, which has a run of consecutive
    documents. Those beyond the last run are in order of their groups, too. `of_document`,
    int32[documents], is the group of each document, and `penalties`, uint16[groups], what is
    subtracted from the sum of a document where groups are ranked.
    """

    def __init__(
        self,
        first: Integers,
        of_document: npt.NDArray[np.int32],
        penalties: npt.NDArray[np.integer],
    ) -> None:
        self.penalties, self.of_document = penalties.astype(np.int64), of_document
        self._first = first
        others = of_document[first[-1] :]
        self.is_split = bool((first[others + 1] > first[others]).any())
        starts, stops = first[:-1][first[1:] > first[:-1]], first[1:][first[1:] > first[:-1]]
        words, last_words = starts >> BLOCK_BITS, (stops - 1) >> BLOCK_BITS
        low = ONES << (starts & LAST_BIT).astype(np.uint64)
        high = ONES >> (LAST_BIT - ((stops - 1) & LAST_BIT)).astype(np.uint64)
        within = words == last_words
        # Of groups across words: the first and the last word of each, and its bits in both.
        across = np.flatnonzero(~within)
        self._across = words[across], low[across], last_words[across], high[across]
        # Of the groups within a word: their bits, the last bit of each, the bits to subtract from
        # groups of several bits, and the last bits of those groups.
        lowest, highest = _flags(len(of_document), starts), _flags(len(of_document), stops - 1)
        self._members = np.zeros_like(lowest)
        np.bitwise_or.at(self._members, words[within], (low & high)[within])
        self._last = highest & self._members
        first_bits = lowest & self._members
        self._decrement = first_bits & ~self._last
        self._not_single = ~first_bits & self._last

    @property
    def count(self) -> int:
        """The number of groups."""
        return len(self._first) - 1

    def documents_of(self, group: int) -> Integers:
        """Return the documents of a group, ascending."""
        first, stop, end = self._first[[group, group + 1, -1]].tolist()
        others = np.searchsorted(self.of_document[end:], [group, group + 1])
        return np.concatenate((np.arange(first, stop), end + np.arange(*others)))

    def count_excess(self, bits: Bits, per_group: int) -> int:
        """Return how many of the documents whose bits are set are not listed.

        The lowest set bit of every group in a word is cleared at once, `per_group` times, as
        x & (x - 1) clears it in a number; no group borrows from the next (Warren, Hacker's
        Delight, 2-18).
        """
        remaining = bits & self._members
        for _ in range(min(per_group, BLOCK_SIZE)):
            less_one = remaining | self._last
            less_one -= self._decrement
            borrowed = remaining ^ self._not_single
            borrowed &= self._last
            less_one ^= borrowed
            remaining &= less_one
        excess = int(np.bitwise_count(remaining).sum(dtype=np.int64))
        words, low, last_words, high = self._across
        through = np.cumsum(np.bitwise_count(bits), dtype=np.int64)
        counts = through.take(last_words - 1) - through.take(words)
        counts += np.bitwise_count(bits.take(words) & low)
        counts += np.bitwise_count(bits.take(last_words) & high)
        return excess + int(np.maximum(counts - per_group, 0).sum())


def list_groups(
    first: Callable[[int], Ranked],
    groups: Groups,
    per_group: int,
    stop: int,
) -> Integers:
    """Return the first `stop` documents of a ranking that has `per_group` of each group.

    `first` returns at least the first k documents, fewer only if there are no more.
    """
    k = MARGIN * stop
    while True:
        total, documents, _ = first(k)
        page = documents[is_among_first(groups.of_document.take(documents), per_group)]
        if len(page) >= stop or len(documents) >= total:
            return page[:stop]
        k *= GROWTH


def units_of(documents: Units, groups: Groups | None) -> Units:
    """Return the group of each document, or the documents where they are the units."""
    return documents if groups is None else groups.of_document.take(documents)


def _flags(documents: int, ordinals: Integers) -> Bits:
    """Return the bits of these documents."""
    flags = np.zeros(block_count(documents) * BLOCK_SIZE, np.bool_)
    flags[ordinals] = True
    return np.packbits(flags, bitorder="little").view(np.uint64)


def is_among_first(groups: npt.NDArray[np.integer], per_group: int) -> Mask:
    """Return for each item whether fewer than `per_group` earlier items are of its group."""
    order = groups.argsort(kind="stable")
    ordered = groups.take(order)
    kept = np.ones(len(groups), np.bool_)
    kept[order[per_group:]] = ordered[per_group:] != ordered[:-per_group]
    return kept
