"""The compiled postings: terms to impact lists, as mapped from their files."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from service.accumulator import IMPACT_MASK, Frequent, ImpactList
from service.engine import Engine
from service.lexicon import FULL_WEIGHT, WeightedTerm
from service.mapped import items_of, open_array

FREQUENT_SHARE = 1 / 40
"""Terms in more than this share of the services are frequent: they have their impacts in blocks."""


class Summary(msgspec.Struct, frozen=True):
    """What the compiled files hold."""

    documents: int
    terms: int
    postings: int
    engine: Engine


class PostingLists:
    """Impact lists by term number.

    `postings.npy` is int64, the postings of all terms; `offsets.npy`, int64[terms + 1], says where
    those of each term begin. `frequent_rows.npy`, int32[terms], is the row of a frequent term in
    `frequent_impacts.npy`, `frequent_bounds.npy` and `frequent_bits.npy`, or -1.
    """

    def __init__(self, folder: Path) -> None:
        self._offsets = open_array(folder / "offsets.npy")
        self._postings = open_array(folder / "postings.npy")
        parts = (open_array(folder / f"frequent_{part}.npy") for part in Frequent._fields)
        self._frequent = list(map(Frequent, *parts))
        self._offset_of = items_of(self._offsets)
        self._row_of = items_of(open_array(folder / "frequent_rows.npy"))

    def document_frequencies(self) -> npt.NDArray[np.int64]:
        """In how many services each term is."""
        return np.diff(self._offsets)

    def of_term(self, term: int) -> ImpactList:
        """The list of one term."""
        postings = self._postings[self._offset_of[term] : self._offset_of[term + 1]]
        row = self._row_of[term]
        return ImpactList(postings, self._frequent[row] if row >= 0 else None)

    def of_word(self, meanings: list[WeightedTerm]) -> ImpactList:
        """The list of a word: the weighted postings of its meanings, one after the other."""
        if len(meanings) == 1 and meanings[0][1] == FULL_WEIGHT:
            return self.of_term(meanings[0][0])
        spans = [
            self._postings[self._offset_of[term] : self._offset_of[term + 1]]
            for term, _ in meanings
        ]
        postings = np.concatenate(spans)
        impacts = postings & IMPACT_MASK
        weighted = impacts * np.repeat([weight for _, weight in meanings], list(map(len, spans)))
        weighted //= FULL_WEIGHT
        np.maximum(weighted, 1, out=weighted)  # an impact of 0 would be no match
        postings += weighted - impacts
        return ImpactList(postings, distinct=len(meanings) == 1)
