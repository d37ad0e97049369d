"""The postings of a snapshot, and the documents that match the words of a query."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Protocol

import numpy as np
from msgspec import Struct

from service.search.groups import Groups, units_of
from service.search.postings import (
    CHAMPIONS,
    FULL_WEIGHT,
    Bits,
    DenseList,
    Header,
    ImpactList,
    Integers,
    Mask,
    PostingLists,
)
from service.search.query import ParsedQuery
from service.search.top_k import Accumulator, TopDocs, divide, intersect, pack

SPARSE_COST, GATHER_COST = 24, 4
"""Costs of a posting that is merged, and of an impact that is looked up in a dense column."""
ENOUGH = 16
"""Postings of rare terms, for each result, whose units yield a threshold: a unit may have several,
and at least 100 units are ranked for a page of 24."""


class Scorer(Protocol):
    """The documents that match the words of one query, scored by integers.

    A unit is a document or, where groups are ranked, a group of documents, which has the sum of its
    best document less its penalty. Sort keys are those of `service.search.top_k`.
    """

    async def top(self, k: int) -> TopDocs:
        """Return the best documents of the k best units, and the exact count of units."""

    async def matches(self) -> Bits:
        """Return the bits of the units that match, read-only."""

    async def impacts_at(self, documents: Integers) -> Integers:
        """Return the weighted impact of each term of the query at some documents.

        int64[terms, documents], 0 for documents that do not match; terms in the order of the query.
        """


class Searcher:
    """The compiled postings of a snapshot; safe to use from several threads.

    `groups` are None where each document is a group of its own.
    """

    def __init__(self, folder: Path, header: Header, groups: Groups | None) -> None:
        self._documents = header.documents
        self._postings = PostingLists(folder / "postings")
        by_document = Accumulator(header.documents, has_champions=groups is None)
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

    def cost(
        self,
        query: ParsedQuery,
        k: int,
        *,
        by_group: bool,
        is_filtered: bool = False,
        match_all: bool = False,
    ) -> int:
        """Return how long a search for the k best takes at most, in impacts of a dense column.

        `is_filtered` tells that a mask leaves units out.
        """
        own = [self._postings.of_word(each.terms) for each in query.expansions]
        lists = [*chain.from_iterable(own)]
        sparse_lists, dense = divide(lists)
        sparse = sum(len(each.postings) for each in sparse_lists)
        cost = sum(each.term.impacts.size for each in dense)
        if match_all:
            words = zip(query.expansions, own, strict=True)
            required = (each for word, each in words if word.required)
            rarest = min((sum(each.frequency for each in word) for word in required), default=0)
            return cost + rarest * (SPARSE_COST + 2 * GATHER_COST * len(lists))
        cost += sparse * (SPARSE_COST + GATHER_COST * len(dense))
        frequencies = [each.term.frequency for each in dense]
        if k > CHAMPIONS:  # no threshold is known before all blocks are summed
            cost += SPARSE_COST * sum(frequencies)
        elif is_filtered:  # a mask may leave out all champions, also of a search that fills up
            cost += SPARSE_COST * min(sum(frequencies), self._documents)
        elif k and sparse < ENOUGH * k and not (by_group and _are_champions(lists, k)):
            # Impacts of very frequent terms are alike, so that their threshold skips no block.
            cost += SPARSE_COST * max(frequencies, default=0)
        return cost


class _AnyWord(Struct, frozen=True):
    """The documents that have any word."""

    accumulator: Accumulator
    lists: Sequence[ImpactList]
    mask: Mask | None

    async def top(self, k: int) -> TopDocs:
        return self.accumulator.rank(self.lists, k, self.mask)

    async def matches(self) -> Bits:
        return self.accumulator.matches(self.lists, self.mask)

    async def impacts_at(self, documents: Integers) -> Integers:
        return _impacts_at(self.lists, documents)


class _EveryWord(Struct, frozen=True):
    """The documents that have every word, ascending."""

    accumulator: Accumulator
    lists: Sequence[ImpactList]
    documents: Integers

    async def top(self, k: int) -> TopDocs:
        sums = _impacts_at(self.lists, self.documents).sum(axis=0)
        return self.accumulator.best(self.documents, sums, k)

    async def matches(self) -> Bits:
        units = np.zeros(self.accumulator.units, np.bool_)
        units[units_of(self.documents, self.accumulator.groups)] = True
        return pack(units)

    async def impacts_at(self, documents: Integers) -> Integers:
        return _impacts_at(self.lists, documents) * np.isin(documents, self.documents)


def _are_champions(lists: Sequence[ImpactList], k: int) -> bool:
    """Return whether the k best documents of groups are champions of the only list."""
    if len(lists) != 1 or not isinstance(lists[0], DenseList):
        return False
    term, weight = lists[0]
    return weight == FULL_WEIGHT and min(k, term.group_frequency) <= len(term.champions)


def _impacts_at(lists: Sequence[ImpactList], documents: Integers) -> Integers:
    impacts = np.zeros((len(lists), len(documents)), np.int64)
    for row, each in enumerate(lists):
        impacts[row] = each.impacts_at(documents)
    return impacts
