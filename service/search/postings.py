"""The compiled postings: an impact list for each term, mapped from files."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from service.search.config import SearchConfig
from service.storage.memory_map import items_of, open_array

Integers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
"""One flag for each document: whether it may match."""
WeightedTerm: TypeAlias = tuple[int, int]
"""The number of a term, and its weight in units of 1 / FULL_WEIGHT."""

WEIGHT_BITS = 8
FULL_WEIGHT = 1 << WEIGHT_BITS
"""Weights are integers, so that weighted impacts stay integers."""

IMPACT_BITS = 24
"""A posting is the integer `ordinal << 24 | impact`, so that sorting postings merges lists."""
IMPACT_MASK = (1 << IMPACT_BITS) - 1

BLOCK_BITS = 6
BLOCK_SIZE = 1 << BLOCK_BITS
"""Ordinals of a block: one for each bit of a uint64."""
CHAMPIONS = 256
"""Entries of a champion list."""
CACHED_LISTS = 1 << 14  # views of the mapped files, some 300 bytes each


class DenseTerm(NamedTuple):
    """The impacts of a frequent term over all ordinals, in blocks of 64.

    `impacts` is uint16[blocks, 64], 0 where a service lacks the term; `maxima` int32[blocks], the
    largest impact of each block; `bits` uint64[blocks], the services that have the term;
    `champions` int64[up to CHAMPIONS], the ordinals of the largest impacts, best first;
    `document_frequency` the count of services that have the term.
    """

    impacts: npt.NDArray[np.uint16]
    maxima: npt.NDArray[np.int32]
    bits: npt.NDArray[np.uint64]
    champions: Integers
    document_frequency: int


class ImpactList(NamedTuple):
    """The postings of a query word, or its dense column, which has them all.

    `postings` are ascending and their ordinals distinct unless `distinct` is false: then they are
    the concatenated postings of several terms. A dense column comes without postings.
    """

    postings: Integers
    dense: DenseTerm | None = None
    distinct: bool = True


class Header(msgspec.Struct, frozen=True):
    """The counts of the compiled files, and the parameters that they were compiled with."""

    documents: int
    terms: int
    postings: int
    config: SearchConfig


class PostingLists:
    """Impact lists by term number.

    `postings.npy` (int64) holds the postings of all terms but the dense ones; `offsets.npy`,
    int64[terms + 1], says where those of each term begin. `dense_rows.npy`, int32[terms], is the
    row of a term in the arrays `dense_impacts`, `dense_maxima`, `dense_bits` and `dense_champions`,
    or -1. `document_frequencies.npy` is int32[terms].
    """

    def __init__(self, folder: Path) -> None:
        offsets = open_array(folder / "offsets.npy")
        rows = open_array(folder / "dense_rows.npy")
        frequencies = open_array(folder / "document_frequencies.npy")
        self._postings = open_array(folder / "postings.npy")
        columns = (
            open_array(folder / f"dense_{part}.npy")
            for part in ("impacts", "maxima", "bits", "champions")
        )
        dense_frequencies = frequencies[rows >= 0].tolist()
        self._dense = [DenseTerm(*parts) for parts in zip(*columns, dense_frequencies, strict=True)]
        self._offsets = items_of(offsets)
        self._rows = items_of(rows)
        # A cache of a bound method is a reference cycle, which would keep the files mapped.
        self.of_term = lru_cache(maxsize=CACHED_LISTS)(
            partial(PostingLists._of_term, weakref.proxy(self))
        )

    def of_word(self, terms: Sequence[WeightedTerm]) -> ImpactList:
        """Return the postings of the terms that a query word was expanded to, weighted."""
        if len(terms) == 1 and terms[0][1] == FULL_WEIGHT:
            return self.of_term(terms[0][0])
        weighted = [_weigh(_postings_of(self.of_term(term)), weight) for term, weight in terms]
        if len(weighted) == 1:
            return ImpactList(weighted[0])
        return ImpactList(np.concatenate(weighted), distinct=False)

    def _of_term(self, term: int) -> ImpactList:
        postings = self._postings[self._offsets[term] : self._offsets[term + 1]]
        row = self._rows[term]
        return ImpactList(postings, self._dense[row] if row >= 0 else None)


def _postings_of(term: ImpactList) -> Integers:
    """Return the postings of a term, also of a dense one."""
    if term.dense is None:
        return term.postings
    impacts = term.dense.impacts.ravel()
    ordinals = impacts.nonzero()[0]
    return ordinals << IMPACT_BITS | impacts[ordinals]


def block_count(documents: int) -> int:
    """Return how many blocks hold so many ordinals; at least one."""
    return -(-max(documents, 1) // BLOCK_SIZE)


def _weigh(postings: Integers, weight: int) -> Integers:
    """Scale the impacts, to 1 at least: an impact of 0 would be no match."""
    if weight == FULL_WEIGHT:
        return postings
    impacts = postings & IMPACT_MASK
    weighed = impacts * weight >> WEIGHT_BITS
    np.maximum(weighed, 1, out=weighed)
    weighed -= impacts
    weighed += postings
    return weighed
