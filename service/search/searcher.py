"""The postings of a snapshot, and the documents that match the words of a query."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Protocol

import numpy as np
from msgspec import Struct

from service.search.groups import Groups, units_of
from service.search.postings import (
    Bits,
    Header,
    ImpactList,
    Integers,
    Mask,
    PostingLists,
)
from service.search.query import ParsedQuery
from service.search.top_k import Accumulator, TopDocs, intersect, pack
from service.storage.container import Arrays


class Scorer(Protocol):
    """The documents that match the words of one query, scored by integers.

    A unit is a document or, where groups are ranked, a group of documents, which has the sum of its
    best document less its penalty. Sort keys are those of `service.search.top_k`.
    """

    def top(self, k: int) -> TopDocs:
        """Return the best documents of the k best units, and the exact count of units."""

    def matches(self) -> Bits:
        """Return the bits of the units that match, read-only."""

    def impacts_at(self, documents: Integers) -> Integers:
        """Return the weighted impact of each term of the query at some documents.

        int64[terms, documents], 0 for documents that do not match; terms in the order of the query.
        """


class Searcher:
    """The compiled postings of a snapshot; safe to use from several threads.

    `groups` are None where each document is a group of its own.
    """

    def __init__(self, index: Arrays, header: Header, groups: Groups | None) -> None:
        self.groups = groups
        self._postings = PostingLists(index)
        by_document = Accumulator(header.documents)
        by_group = by_document if groups is None else Accumulator(header.documents, groups)
        self._accumulators = {True: by_group, False: by_document}

    def scorer(
        self, query: ParsedQuery, mask: Mask | None, *, by_group: bool, match_all: bool = False
    ) -> Scorer:
        """Return the matches of a query among the units of a mask.

        `match_all` requires that a document has every word of the query.
        """
        accumulator = self._accumulators[by_group]
        own = [self._postings.of_word(each.terms) for each in query.expansions]
        lists = [*chain.from_iterable(own)]
        if not match_all:
            return _AnyWord(accumulator, lists, mask)
        words = zip(query.expansions, own, strict=True)
        required = [each for word, each in words if word.required]
        documents = intersect(required if query.is_satisfiable else [])
        if mask is not None:
            documents = documents[mask.take(units_of(documents, accumulator.groups))]
        return _EveryWord(accumulator, lists, documents)

    def postings_of(self, query: ParsedQuery) -> int:
        """Return how many postings the words of a query have."""
        lists = chain.from_iterable(self._postings.of_word(each.terms) for each in query.expansions)
        return sum(each.frequency for each in lists)


class _AnyWord(Struct, frozen=True):
    """The documents that have any word."""

    accumulator: Accumulator
    lists: Sequence[ImpactList]
    mask: Mask | None

    def top(self, k: int) -> TopDocs:
        return self.accumulator.rank(self.lists, k, self.mask)

    def matches(self) -> Bits:
        return self.accumulator.matches(self.lists, self.mask)

    def impacts_at(self, documents: Integers) -> Integers:
        return _impacts_at(self.lists, documents)


class _EveryWord(Struct, frozen=True):
    """The documents that have every word, ascending."""

    accumulator: Accumulator
    lists: Sequence[ImpactList]
    documents: Integers

    def top(self, k: int) -> TopDocs:
        sums = _impacts_at(self.lists, self.documents).sum(axis=0)
        return self.accumulator.best(self.documents, sums, k)

    def matches(self) -> Bits:
        units = np.zeros(self.accumulator.units, np.bool_)
        units[units_of(self.documents, self.accumulator.groups)] = True
        return pack(units)

    def impacts_at(self, documents: Integers) -> Integers:
        return _impacts_at(self.lists, documents) * np.isin(documents, self.documents)


def _impacts_at(lists: Sequence[ImpactList], documents: Integers) -> Integers:
    impacts = np.zeros((len(lists), len(documents)), np.int64)
    for row, each in enumerate(lists):
        impacts[row] = each.impacts_at(documents)
    return impacts
