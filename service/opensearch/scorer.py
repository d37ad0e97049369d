"""The documents in a cluster that match the words of one query."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import chain
from typing import TypeAlias

import numpy as np

from service.errors import EngineUnavailable
from service.opensearch.requests import (
    Clause,
    SearchRequest,
    any_of,
    in_documents,
    in_mask,
    less_penalty,
    named,
    sum_of,
)
from service.opensearch.responses import SearchResponse
from service.search.postings import Bits, Integers, Mask, block_count
from service.search.query import ParsedQuery
from service.search.top_k import NO_ORDINALS, SUM_BITS, TopDocs, count_bits

MAX_HITS = 5_000
"""Hits of one response: the event loop decodes them in some 5 ms."""
MAX_IMPACTS = 10_000
"""Impacts of one response."""
THREAD_FROM = 1 << 17
"""Length of a mask from which a thread makes its bitmap, which takes 4 ns for each flag."""
CHANGED = "OpenSearch: the index changed during this search; try again"

Search: TypeAlias = Callable[[SearchRequest], Awaitable[SearchResponse]]


class ClusterScorer:
    """Asks a cluster for the matches of one query; bits are asked for once.

    units: the number of documents, or of services where these are ranked
    shift: the constant that is added to the scores of services, None where documents are ranked
    """

    def __init__(
        self,
        search: Search,
        query: ParsedQuery,
        mask: Mask | None,
        units: int,
        shift: int | None,
        *,
        match_all: bool,
    ) -> None:
        self._search, self._mask, self._shift = search, mask, shift
        self._terms = [*chain.from_iterable(each.terms for each in query.expansions)]
        self._filters: list[Clause] = []
        is_empty = not self._terms or (mask is not None and not mask.any())
        if match_all:
            is_empty = is_empty or not query.is_satisfiable
            required = [each for each in query.expansions if each.required]
            self._filters = [any_of(sum_of(each.terms)) for each in required]
        self._query: Clause | None = None
        self._bits = np.zeros(block_count(units), np.uint64) if is_empty else None
        self._is_empty = is_empty

    async def top(self, k: int) -> TopDocs:
        """Return the best documents of the k best units, and the exact count of units."""
        if self._is_empty:
            return TopDocs(0, NO_ORDINALS)
        total, keys = await self._page(0, min(k, MAX_HITS))
        pages, length = [keys], len(keys)
        k = min(k, total)  # no page may end behind the documents
        while length < k:
            _, keys = await self._page(length, min(k - length, MAX_HITS))
            if not len(keys):
                raise EngineUnavailable(CHANGED)
            pages.append(keys)
            length += len(keys)
        return TopDocs(total, np.concatenate(pages))

    async def matches(self) -> Bits:
        """Return the bits of the units that match, read-only."""
        bits = self._bits
        if bits is None:
            bits = self._bits = (await self._ask(0, 0, has_bits=True)).bits
        return bits

    async def impacts_at(self, documents: Integers) -> Integers:
        """Return the weighted impact of each term of the query at some documents."""
        distinct, places = np.unique(documents, return_inverse=True)
        impacts = np.zeros((len(self._terms), len(distinct)), np.int64)
        size = max(1, MAX_IMPACTS // max(len(self._terms), 1))
        for start in range(0, 0 if self._is_empty else len(distinct), size):
            some = distinct[start : start + size]
            query = any_of(named(self._terms), [*self._filters, in_documents(some)])
            response = await self._search(
                SearchRequest(query, size=len(some), named=len(self._terms))
            )
            _, columns, hits = np.intersect1d(distinct, response.ordinals, return_indices=True)
            impacts[:, columns] = response.impacts[:, hits]
        return impacts[:, places]

    async def _page(self, start: int, size: int) -> TopDocs:
        has_bits = self._shift is not None and self._bits is None
        response = await self._ask(start, size, has_bits=has_bits)
        if has_bits:
            self._bits = response.bits
        total = response.total if self._shift is None else count_bits(await self.matches())
        sums = response.scores - (self._shift or 0)
        return TopDocs(total, response.ordinals - (sums << SUM_BITS))

    async def _ask(self, start: int, size: int, *, has_bits: bool) -> SearchResponse:
        if self._query is None:
            self._query = await self._make_query()
        by_group = self._shift is not None
        return await self._search(
            SearchRequest(self._query, start, size, by_group=by_group, has_bits=has_bits)
        )

    async def _make_query(self) -> Clause:
        conditions, by_group = self._filters, self._shift is not None
        if self._mask is not None:
            if len(self._mask) < THREAD_FROM:
                clause = in_mask(self._mask, by_group=by_group)
            else:
                clause = await asyncio.to_thread(in_mask, self._mask, by_group=by_group)
            conditions = [*conditions, clause]
        query = any_of(sum_of(self._terms), conditions)
        return less_penalty(query) if by_group else query
