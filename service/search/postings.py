"""The compiled postings: terms to impact lists, as mapped from their files."""

from __future__ import annotations

import weakref
from functools import lru_cache, partial
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from service.search.config import SearchConfig
from service.search.query_expansion import FULL_WEIGHT, FULL_WEIGHT_BITS, WeightedTerm
from service.search.top_k import IMPACT_MASK, DenseTerm, ImpactList, Integers
from service.storage.memory_map import items_of, open_array

FREQUENT_SHARE = 1 / 40
"""Terms in more than this share of the services are frequent: they have their impacts in blocks."""
REMEMBERED_LISTS = 1 << 14
"""Terms whose lists, which are views of the files, are remembered."""


class Summary(msgspec.Struct, frozen=True):
    """What the compiled files hold."""

    documents: int
    terms: int
    postings: int
    engine: SearchConfig


class PostingLists:
    """Impact lists by term number.

    `postings.npy` is int64, the postings of all terms; `offsets.npy`, int64[terms + 1], says where
    those of each term begin. `frequent_rows.npy`, int32[terms], is the row of a frequent term in
    `frequent_impacts.npy`, `frequent_bounds.npy`, `frequent_bits.npy` and
    `frequent_champions.npy`, or -1.
    """

    def __init__(self, folder: Path) -> None:
        self._offsets = open_array(folder / "offsets.npy")
        self._postings = open_array(folder / "postings.npy")
        impacts, bounds, bits, champions = (
            open_array(folder / f"frequent_{part}.npy")
            for part in ("impacts", "bounds", "bits", "champions")
        )
        rows = open_array(folder / "frequent_rows.npy")
        counts = self.document_frequencies()[rows >= 0].tolist()
        self._frequent = list(map(DenseTerm, impacts, bounds, bits, champions, counts))
        self._offset_of = items_of(self._offsets)
        self._row_of = items_of(rows)
        # A cache of a bound method would be a cycle, which keeps a snapshot mapped after use.
        self.of_term = lru_cache(maxsize=REMEMBERED_LISTS)(
            partial(PostingLists._of_term, weakref.proxy(self))
        )

    def document_frequencies(self) -> npt.NDArray[np.int64]:
        """In how many services each term is."""
        return np.diff(self._offsets)

    def _of_term(self, term: int) -> ImpactList:
        """The list of one term, which `of_term` remembers."""
        postings = self._postings[self._offset_of[term] : self._offset_of[term + 1]]
        row = self._row_of[term]
        return ImpactList(postings, self._frequent[row] if row >= 0 else None)

    def of_word(self, meanings: list[WeightedTerm]) -> ImpactList:
        """The list of a word: the weighted postings of its meanings, one after the other."""
        if len(meanings) == 1 and meanings[0][1] == FULL_WEIGHT:
            return self.of_term(meanings[0][0])
        offset_of = self._offset_of
        spans = [self._postings[offset_of[term] : offset_of[term + 1]] for term, _ in meanings]
        weighted = [
            span if weight == FULL_WEIGHT else _weighted(span, weight)
            for span, (_, weight) in zip(spans, meanings, strict=True)
        ]
        if len(weighted) == 1:
            return ImpactList(weighted[0])
        return ImpactList(np.concatenate(weighted), distinct=False)


def _weighted(postings: Integers, weight: int) -> Integers:
    """Postings with this share of their impacts, at least 1, as 0 would be no match."""
    impacts = postings & IMPACT_MASK
    less = impacts * weight >> FULL_WEIGHT_BITS
    np.maximum(less, 1, out=less)
    less -= impacts
    less += postings
    return less
