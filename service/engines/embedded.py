"""The engine in this process: postings, vectors and filters in the mapped files of a snapshot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from service.conditions import EndpointFilters, Filters, ResourceFilters
from service.engines.engine import Answer, F, Search
from service.errors import Overloaded
from service.filtering.offers import EndpointTable
from service.filtering.table import FacetCounts, Table
from service.search.groups import Groups
from service.search.postings import Integers, Mask
from service.search.query import ParsedQuery, QueryParser
from service.search.ranking import Index, Ranking
from service.search.top_k import NO_ORDINALS, unpack

THREAD_FROM = 1 << 18
"""Postings of a query, and numbers that its filters and facets scan, from which it runs in the
thread: some milliseconds."""
MAX_WAITING = 32
"""Searches that run in the thread or wait for it; further ones are refused."""

T = TypeVar("T")

_thread = ThreadPoolExecutor(1, "search")
_waiting: set[Future[Any]] = set()


class ResourceIndex(Protocol):
    """Listed resources: their filters, and their documents."""

    def cost(self, filters: ResourceFilters) -> int:
        """Return how many numbers and bytes are scanned to satisfy filters."""

    def documents(self, filters: ResourceFilters) -> Mask:
        """Return which documents have resources that satisfy filters."""

    def of_documents(self, documents: Integers) -> Integers:
        """Return the resources of documents."""


class EmbeddedEngine:
    """Searches the files of a snapshot; safe to use from several threads.

    parser: has the lexicon
    index: has the postings and the vectors
    groups: the documents of each service
    threshold: of the fit of a first row, None without one
    """

    def __init__(
        self,
        parser: QueryParser,
        index: Index,
        groups: Groups,
        services: Table,
        endpoints: EndpointTable,
        resources: ResourceIndex,
        threshold: float | None = None,
    ) -> None:
        self.parser, self.index, self._groups = parser, index, groups
        self._services, self._endpoints, self._resources = services, endpoints, resources
        self._threshold = threshold

    async def search_services(self, search: Search[Filters]) -> Answer:
        """Return one page of services, each ranked by the best of its documents."""
        return await self._run(self.rank_services, search, self._services.cost(search.filters))

    async def search_endpoints(self, search: Search[EndpointFilters]) -> Answer:
        """Return one page of endpoints."""
        return await self._run(self.rank_endpoints, search, self._endpoints.cost(search.filters))

    async def search_resources(self, search: Search[ResourceFilters]) -> Answer:
        """Return one page of listed resources."""
        return await self._run(self.rank_resources, search, self._resources.cost(search.filters))

    async def check(self) -> None:
        """Files that were opened need no check."""

    def rank_services(self, search: Search[Filters], query: ParsedQuery | None = None) -> Answer:
        """Return what `search_services` does, in this thread."""
        filters, services, groups = search.filters, self._services, self.index.groups
        given, match_all = filters.given(), filters.match == "all"
        is_ranked, query = filters.sort == "relevance", query or self.parser.parse(search.query)
        ranking = Ranking(
            self.index,
            query,
            services.mask(given),
            by_group=True,
            match_all=match_all,
            is_filled=is_ranked and not given and not match_all,
        )
        is_explained, fit = filters.explain or filters.best_endpoints, None
        if is_ranked:
            total, documents, similar = ranking.page(search.limit, search.offset)
            fit = self.fit_of(search, query, ranking.score())
            page = (documents if groups is None else groups.of_document.take(documents)).tolist()
        else:
            matches, similar = unpack(ranking.matches(), len(services)), 0
            total = int(np.count_nonzero(matches))
            page = services.page(matches, filters.sort, search.limit, search.offset).tolist()
            documents = ranking.best_documents(page) if is_explained else NO_ORDINALS
        best: Sequence[int | None] = ()
        if is_explained:
            endpoints = self.parser.header.endpoints
            best = [each if each < endpoints else None for each in documents.tolist()]
        facets = _count(services, filters.facets, ranking)
        explanations = ranking.explain(documents, self.parser.term) if filters.explain else None
        similar_rows = ranking.similar_rows(documents) if similar else ()
        return Answer(total, page, total, similar, facets, best, explanations, fit, similar_rows)

    def rank_endpoints(
        self, search: Search[EndpointFilters], query: ParsedQuery | None = None
    ) -> Answer:
        """Return what `search_endpoints` does, in this thread."""
        filters, limit, offset = search.filters, search.limit, search.offset
        selected, header = self._endpoints.select(filters), self.parser.header
        query = query or self.parser.parse(search.query)
        is_ranked, match_all = filters.sort == "relevance", filters.match == "all"
        mask = selected.mask
        if header.documents > header.endpoints:  # the others are no endpoints
            endpoints, mask = mask, np.zeros(header.documents, np.bool_)
            mask[: header.endpoints] = True if endpoints is None else endpoints
        ranking = Ranking(
            self.index,
            query,
            mask,
            by_group=False,
            match_all=match_all,
            is_filled=is_ranked and not filters.has_conditions and not match_all,
        )
        similar = 0
        if not is_ranked:
            matches = unpack(ranking.matches(), len(self._endpoints))
            total, listed, page, _ = self._endpoints.listing(
                matches, filters, limit, offset, selected.offers
            )
        elif filters.per_service:
            total, listed, page, similar = ranking.listing(
                self._groups, filters.per_service, limit, offset
            )
        else:
            total, page, similar = ranking.page(limit, offset)
            listed = total
        facets = _count(self._endpoints, filters.facets, ranking)
        explanations = ranking.explain(page, self.parser.term) if filters.explain else None
        fit = self.fit_of(search, query, ranking.score()) if is_ranked else None
        similar_rows = ranking.similar_rows(page) if similar else ()
        page = page.tolist()
        return Answer(total, page, listed, similar, facets, (), explanations, fit, similar_rows)

    def rank_resources(
        self, search: Search[ResourceFilters], query: ParsedQuery | None = None
    ) -> Answer:
        """Return what `search_resources` does, in this thread."""
        filters, query = search.filters, query or self.parser.parse(search.query)
        mask = self._resources.documents(filters)
        ranking = Ranking(
            self.index,
            query,
            mask,
            by_group=False,
            match_all=filters.match == "all",
            is_filled=not filters.has_conditions,
        )
        total, documents, similar = ranking.page(search.limit, search.offset)
        fit = self.fit_of(search, query, ranking.score()) if mask.any() else None
        page = self._resources.of_documents(documents).tolist()
        return Answer(total, page, total, similar, fit=fit)

    def fit_of(self, search: Search[F], query: ParsedQuery, score: float | None) -> float | None:
        """Return `Answer.fit`, given the score of the first row, None without a row.

        Where filters leave no row, the words are not to blame.
        """
        has_meaning = query.vector is not None or self.index.vectors is None
        is_telling = has_meaning if score is not None else not search.filters.has_conditions
        if self._threshold is None or search.offset or not is_telling:
            return None
        return round(max(score or 0.0, 0.0) * 100 / (query.reach * self._threshold)) / 100

    async def _run(
        self, rank: Callable[[Search[F], ParsedQuery], Answer], search: Search[F], cost: int
    ) -> Answer:
        query = self.parser.parse(search.query)
        cost += self.parser.count_postings(query.expansions)
        return await run(partial(rank, search, query), cost)


def _count(index: Table, facets: Sequence[str], ranking: Ranking) -> FacetCounts | None:
    """Return the counts of facets over the matches."""
    return index.count(facets, unpack(ranking.matches(), len(index))) if facets else None


async def run(search: Callable[[], T], cost: int) -> T:
    """Run a search here, or in the thread of the process if it takes long, one at a time.

    Raises Overloaded where too many wait for the thread.
    """
    if cost < THREAD_FROM:
        return search()
    if len(_waiting) >= MAX_WAITING:
        raise Overloaded("too many expensive searches are waiting; try again in a second")
    future = _thread.submit(search)
    _waiting.add(future)
    try:
        return await asyncio.wrap_future(future)
    finally:
        _waiting.discard(future)
        future.cancel()
