"""The compiled postings: terms to lists of ordinals and impacts, as mapped from their files."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import msgspec
import numpy as np
import numpy.typing as npt

from service.accumulator import LARGEST_SUM, ImpactList, buffer_length
from service.engine import Engine
from service.lexicon import FULL_WEIGHT, FULL_WEIGHT_BITS, WeightedTerm
from service.mapped import items_of, open_array

DENSE_SHARE = 1 / 40
"""Terms in more than this share of the documents have a column of impacts besides their list."""


class Summary(msgspec.Struct, frozen=True):
    """What the compiled files hold."""

    documents: int
    terms: int
    postings: int
    engine: Engine


class PostingLists:
    """Impact lists by term number."""

    def __init__(self, folder: Path):
        self._offsets = cast("npt.NDArray[np.int64]", open_array(folder / "offsets.npy"))
        self._ordinals = cast("npt.NDArray[np.int64]", open_array(folder / "ordinals.npy"))
        self._impacts = cast("npt.NDArray[np.uint16]", open_array(folder / "impacts.npy"))
        self._columns = cast("npt.NDArray[np.uint16]", open_array(folder / "dense_columns.npy"))
        self._offset_of = items_of(self._offsets)
        self._largest_of = items_of(open_array(folder / "largest_impacts.npy"))
        self._row_of = items_of(open_array(folder / "dense_rows.npy"))

    def document_frequencies(self) -> npt.NDArray[np.int64]:
        """In how many documents each term is."""
        return np.diff(self._offsets)

    def of_term(self, term: int) -> ImpactList:
        """The list of one term."""
        start, end = self._offset_of[term], self._offset_of[term + 1]
        row = self._row_of[term]
        column = self._columns[row] if row >= 0 else None
        return ImpactList(
            self._ordinals[start:end], self._impacts[start:end], column, self._largest_of[term]
        )

    def of_word(self, meanings: list[WeightedTerm]) -> ImpactList:
        """The list of a word: the weighted lists of its meanings, one after the other."""
        if len(meanings) == 1 and meanings[0].weight == FULL_WEIGHT:
            return self.of_term(meanings[0].term)
        largest = sum(
            (self._largest_of[term] * weight >> FULL_WEIGHT_BITS) | 1 for term, weight in meanings
        )
        if largest > LARGEST_SUM:
            return self.of_word(
                [
                    WeightedTerm(term, weight * LARGEST_SUM // largest - 1)
                    for term, weight in meanings
                ]
            )
        spans = [slice(self._offset_of[term], self._offset_of[term + 1]) for term, _ in meanings]
        ordinals = [self._ordinals[span] for span in spans]
        weighted = [
            np.multiply(self._impacts[span], weight, dtype=np.uint32)
            for span, (_, weight) in zip(spans, meanings, strict=True)
        ]
        impacts = weighted[0] if len(weighted) == 1 else np.concatenate(weighted)
        impacts >>= FULL_WEIGHT_BITS
        # An impact of 0 would be no match.
        impacts |= 1
        together = ordinals[0] if len(ordinals) == 1 else np.concatenate(ordinals)
        return ImpactList(
            together, impacts.astype(np.uint16), None, largest, distinct=len(meanings) == 1
        )


def dense_row_length(documents: int) -> int:
    """Columns are as long as the accumulator."""
    return buffer_length(documents)
