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
from service.search.ranking import Ranking
from service.search.searcher import Searcher
from service.search.semantic.vectors import VectorIndex
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
    searcher: has the postings
    vectors: of the documents, None for ranking by words alone
    groups: the documents of each service
    """

    def __init__(
        self,
        parser: QueryParser,
        searcher: Searcher,
        vectors: VectorIndex | None,
        groups: Groups,
        services: Table,
        endpoints: EndpointTable,
        resources: ResourceIndex,
    ) -> None:
        self.parser, self.searcher, self.vectors = parser, searcher, vectors
        self._groups = groups
        self._services, self._endpoints, self._resources = services, endpoints, resources

    async def search_services(self, search: Search[Filters]) -> Answer:
        """Return one page of services, each ranked by the best of its documents."""
        return await self._run(self.rank_services, search, self._services.cost(search.filters))

    async def search_endpoints(self, search: Search[EndpointFilters]) -> Answer:
        """Return one page of endpoints."""
        return await self._run(self.rank_endpoints, search, self._endpoints.cost(search.filters))

    async def search_resources(self, search: Search[ResourceFilters]) -> Answer:
        """Return one page of listed resources."""
        return await self._run(self.rank_resources, search, self._resources.cost(search.filters))

    async def count(self, search: Search[Filters]) -> int:
        """Return the exact count of the services that match."""
        return (await self.search_services(search)).matches

    async def check(self) -> None:
        """Files that were opened need no check."""

    def rank_services(self, search: Search[Filters], query: ParsedQuery | None = None) -> Answer:
        """Return what `search_services` does, in this thread."""
        filters, services, groups = search.filters, self._services, self.searcher.groups
        given, is_ranked = filters.given(), filters.sort == "relevance"
        mask = services.mask(given)
        is_filled = is_ranked and not given and filters.match == "any"
        ranking = self._rank(search, query, mask, by_group=True, is_filled=is_filled)
        is_explained = filters.explain or filters.best_endpoints
        if is_ranked:
            total, documents, similar = ranking.page(search.limit, search.offset)
            page = (documents if groups is None else groups.of_document.take(documents)).tolist()
        else:
            matches, similar = unpack(ranking.matches(), len(services)), 0
            total = int(np.count_nonzero(matches))
            page = services.page(matches, filters.sort, search.limit, search.offset).tolist()
            documents = ranking.best_documents(page) if is_explained else NO_ORDINALS
        endpoints = self.parser.header.endpoints
        return Answer(
            total,
            page,
            total,
            similar,
            self._count(services, filters.facets, ranking),
            [each if each < endpoints else None for each in documents.tolist()]
            if is_explained
            else (),
            ranking.explain(documents, self.parser.term) if filters.explain else None,
        )

    def rank_endpoints(
        self, search: Search[EndpointFilters], query: ParsedQuery | None = None
    ) -> Answer:
        """Return what `search_endpoints` does, in this thread."""
        filters, limit, offset = search.filters, search.limit, search.offset
        selected, similar = self._endpoints.select(filters), 0
        mask, is_ranked = self._of_documents(selected.mask), filters.sort == "relevance"
        is_filled = is_ranked and not filters.has_conditions and filters.match == "any"
        ranking = self._rank(search, query, mask, by_group=False, is_filled=is_filled)
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
        facets = self._count(self._endpoints, filters.facets, ranking)
        explanations = ranking.explain(page, self.parser.term) if filters.explain else None
        return Answer(total, page.tolist(), listed, similar, facets, explanations=explanations)

    def rank_resources(
        self, search: Search[ResourceFilters], query: ParsedQuery | None = None
    ) -> Answer:
        """Return what `search_resources` does, in this thread."""
        mask = self._resources.documents(search.filters)
        is_filled = not search.filters.has_conditions
        ranking = self._rank(search, query, mask, by_group=False, is_filled=is_filled)
        total, documents, similar = ranking.page(search.limit, search.offset)
        return Answer(total, self._resources.of_documents(documents).tolist(), total, similar)

    def _rank(
        self,
        search: Search[Any],
        query: ParsedQuery | None,
        mask: Mask | None,
        *,
        by_group: bool,
        is_filled: bool,
    ) -> Ranking:
        """Rank services, with `by_group`, or else documents."""
        query, filters, searcher = (
            query or self.parser.parse(search.query),
            search.filters,
            self.searcher,
        )
        scorer = searcher.scorer(query, mask, by_group=by_group, match_all=filters.match == "all")
        return Ranking(
            query,
            scorer,
            self.parser.header.config,
            self.vectors,
            mask,
            searcher.groups if by_group else None,
            by_group=by_group,
            is_filled=is_filled,
        )

    def _count(self, index: Table, facets: Sequence[str], ranking: Ranking) -> FacetCounts | None:
        """Return the counts of facets over the matches."""
        return index.count(facets, unpack(ranking.matches(), len(index))) if facets else None

    def _of_documents(self, endpoints: Mask | None) -> Mask | None:
        """Return a mask of endpoints as one of documents, None where all are allowed endpoints."""
        header = self.parser.header
        others = header.documents - header.endpoints
        if endpoints is None and others:
            endpoints = np.ones(header.endpoints, np.bool_)
        if endpoints is None or not others:
            return endpoints
        return np.concatenate((endpoints, np.zeros(others, np.bool_)))

    async def _run(
        self, rank: Callable[[Search[F], ParsedQuery], Answer], search: Search[F], cost: int
    ) -> Answer:
        query = self.parser.parse(search.query)
        cost += self.searcher.postings_of(query)
        return await run(partial(rank, search, query), cost)


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
