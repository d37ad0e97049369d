"""The compiled postings: an impact list for each term, mapped from files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from service.arrays.container import Arrays, items_of
from service.search.config import SearchConfig

Integers: TypeAlias = npt.NDArray[np.int64]
Bits: TypeAlias = npt.NDArray[np.uint64]
"""One bit for each document or group, in words of 64."""
Mask: TypeAlias = npt.NDArray[np.bool_]
"""One flag for each document: whether it may match."""
WeightedTerm: TypeAlias = tuple[int, int]
"""The number of a term, and its weight in units of 1 / FULL_WEIGHT."""

WEIGHT_BITS = 8
FULL_WEIGHT = 1 << WEIGHT_BITS
"""Weights are integers, so that weighted impacts stay integers."""

IMPACT_BITS: Integers = np.array(24)
IMPACT_MASK: Integers = np.array((1 << 24) - 1)
"""A posting is the integer `ordinal << 24 | impact`, so that sorting postings merges lists. To
convert a Python integer takes as long as to compute with a short array, so these are arrays."""

BLOCK_BITS = 6
BLOCK_SIZE = 1 << BLOCK_BITS
"""Ordinals of a block: one for each bit of a uint64."""


class DenseTerm(NamedTuple):
    """The impacts of a frequent term over all ordinals, in blocks of 64.

    `impacts` is uint16[blocks, 64], 0 where a document lacks the term; `maxima` int32[blocks], the
    largest impact of each block; `bits` uint64[blocks], the documents that have the term, and
    `group_bits` the groups that have it; `frequency` counts the documents.
    """

    impacts: npt.NDArray[np.uint16]
    maxima: npt.NDArray[np.int32]
    bits: Bits
    group_bits: Bits
    frequency: int


class SparseList(NamedTuple):
    """The weighted postings of a term, ascending."""

    postings: Integers

    @property
    def frequency(self) -> int:
        """The count of documents that have the term."""
        return len(self.postings)

    @property
    def ordinals(self) -> Integers:
        """The documents that have the term, ascending."""
        return self.postings >> IMPACT_BITS

    def impacts_at(self, ordinals: Integers) -> Integers:
        """Return the impacts at these ordinals, 0 where there is none."""
        postings = self.postings
        if not len(postings):
            return np.zeros(len(ordinals), np.int64)
        # No impact is 0, so this is the position of the posting of an ordinal, if it has one.
        positions = np.searchsorted(postings, ordinals << IMPACT_BITS)
        positions[positions == len(postings)] = 0
        postings = postings[positions]
        return np.where(postings >> IMPACT_BITS == ordinals, postings & IMPACT_MASK, 0)


class DenseList(NamedTuple):
    """The dense column of a term, whose impacts are weighted where they are read."""

    term: DenseTerm
    weight: int

    @property
    def frequency(self) -> int:
        """The count of documents that have the term."""
        return self.term.frequency

    @property
    def ordinals(self) -> Integers:
        """The documents that have the term, ascending."""
        return np.unpackbits(self.term.bits.view(np.uint8), bitorder="little").nonzero()[0]

    @property
    def maxima(self) -> npt.NDArray[np.int32]:
        """The largest impact of each block."""
        return _weigh(self.term.maxima, self.weight)

    def impacts_at(self, ordinals: Integers) -> npt.NDArray[Any]:
        """Return the impacts at these ordinals, 0 where there is none."""
        return _weigh(self.term.impacts.ravel().take(ordinals), self.weight)

    def blocks(self, numbers: Integers) -> npt.NDArray[Any]:
        """Return the impacts of some blocks, as (blocks, BLOCK_SIZE)."""
        return _weigh(self.term.impacts.take(numbers, axis=0), self.weight)


ImpactList: TypeAlias = SparseList | DenseList


class Header(msgspec.Struct, frozen=True):
    """The counts of the compiled files, and the parameters that they were compiled with.

    The first `endpoints` documents are endpoints; the others are listed resources and services.
    """

    documents: int
    endpoints: int
    groups: int
    terms: int
    config: SearchConfig


def read_header(index: Arrays) -> Header:
    """Return the header of an index."""
    return _header.decode(index["header"].tobytes())


_header = msgspec.json.Decoder(Header)


class PostingLists:
    """Impact lists by term number.

    postings: int64, `document << 24 | impact`, of all terms but the dense ones
    offsets: the first posting of each term, and the end
    rows: the row of a term in the dense arrays, or -1
    impacts: uint16[dense, blocks, 64], the impact of each document, 0 without the term
    maxima: the largest impact of each block
    bits, group_bits: the documents and the groups that have the term
    """

    def __init__(self, arrays: Arrays) -> None:
        self._offsets, self._rows = items_of(arrays["offsets"]), items_of(arrays["rows"])
        self._postings = arrays["postings"]
        columns = [arrays[name] for name in ("impacts", "maxima", "bits", "group_bits")]
        frequencies = np.bitwise_count(arrays["bits"]).sum(axis=1, dtype=np.int64).tolist()
        self._dense = [DenseTerm(*own) for own in zip(*columns, frequencies, strict=True)]

    def of_terms(self, terms: Sequence[WeightedTerm]) -> list[ImpactList]:
        """Return the weighted impacts of each of some terms."""
        lists: list[ImpactList] = []
        for term, weight in terms:
            row = self._rows[term]
            if row >= 0:
                lists.append(DenseList(self._dense[row], weight))
                continue
            postings = self._postings[self._offsets[term] : self._offsets[term + 1]]
            if weight != FULL_WEIGHT:
                impacts = postings & IMPACT_MASK
                postings = postings - impacts + _weigh(impacts, weight)
            lists.append(SparseList(postings))
        return lists


def block_count(documents: int) -> int:
    """Return how many blocks hold so many ordinals; at least one."""
    return -(-max(documents, 1) // BLOCK_SIZE)


def _weigh(impacts: npt.NDArray[Any], weight: int) -> npt.NDArray[Any]:
    """Scale impacts, to 1 at least: an impact of 0 would be no match."""
    if weight == FULL_WEIGHT:
        return impacts
    weighted: npt.NDArray[Any] = impacts * np.int32(weight) >> WEIGHT_BITS
    np.maximum(weighted, impacts > 0, out=weighted)
    return weighted
