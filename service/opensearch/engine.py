"""The engine of snapshots whose postings are in a cluster.

Filters, orders, exact names, vectors and records are those of the snapshot, on this machine: so
they are the same ones that the embedded engine has. Filters travel as bitmaps. The vectors are
local because a query needs those of 200 documents that are known only after the cluster has ranked
them: fetching them from there would take a second round trip and 25 KB.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import numpy as np
from msgspec.structs import replace

from service.errors import EngineUnavailable, IndexMissing, SnapshotUnavailable, SnapshotUnsupported
from service.filtering.endpoint_filters import EndpointFilters, Selection
from service.filtering.facets import SERVICE_FACETS, FacetCounts
from service.filtering.filters import NO_FILTERS, FilterIndex, Filters
from service.opensearch.client import Cluster
from service.opensearch.connection import ClusterAddress
from service.opensearch.indexes import (
    DOCUMENT_FACETS,
    SERVICE,
    different_setting,
    facet_field,
    mapping,
)
from service.opensearch.searcher import ClusterPlan, ClusterSearcher, OrderedMatches
from service.search.collapsing import GROWTH, MARGIN, is_among_first
from service.search.postings import Integers, Mask
from service.search.top_k import NO_ORDINALS
from service.snapshot.endpoints import EndpointHits
from service.snapshot.manifest import ClusterIndexes
from service.snapshot.resources import ResourceFilters, ResourcePage
from service.snapshot.snapshot import Hits, Snapshot

EMBEDDED = (
    "the snapshot {} has its postings in its files: start the service without `--engine "
    "opensearch`, or build it with that option"
)


P = ParamSpec("P")
T = TypeVar("T")
Method: TypeAlias = "Callable[Concatenate[ClusterEngine, P], Coroutine[Any, Any, T]]"


def _bounded(method: Method[P, T]) -> Method[P, T]:
    """Bound the time of a method, which may ask the cluster many times."""

    @wraps(method)
    async def bounded(engine: ClusterEngine, /, *args: P.args, **kwargs: P.kwargs) -> T:
        async with engine.deadline():
            return await method(engine, *args, **kwargs)

    return bounded


class ClusterEngine:
    """Searches one snapshot, in the indexes that its manifest names."""

    def __init__(self, snapshot: Snapshot, cluster: Cluster) -> None:
        indexes = _indexes_of(snapshot)
        self._snapshot = snapshot
        self._cluster = cluster
        self._indexes = indexes
        self._services = ClusterSearcher(cluster, indexes.services, snapshot.parser)
        self._endpoints = ClusterSearcher(cluster, indexes.endpoints, snapshot.endpoints.parser)

    @_bounded
    async def search(
        self, query: str, limit: int = 24, offset: int = 0, filters: Filters = NO_FILTERS
    ) -> Hits:
        """Search for services."""
        snapshot = self._snapshot
        mask = snapshot.filters.mask(filters)
        plan = self._services.plan(query, mask, match_all=filters.match_all)
        if filters.sort == "relevance":
            total, ordinals = await plan.rank(limit, offset)
        else:
            total = await plan.count()

            def first(some: Mask, k: int) -> Integers:
                return snapshot.filters.page(some, filters.sort, k)

            every = np.ones(len(snapshot.services), np.bool_) if mask is None else mask
            in_order = OrderedMatches(plan, first, every, total)
            ordinals = await in_order.page(limit, offset)
        facets = await _count(plan, snapshot.filters, filters.counted)
        hits = Hits(total, ordinals.tolist(), snapshot.id_table, facets)
        if filters.explain:
            hits = replace(hits, explanations=await plan.explain(hits.ordinals))
        return hits

    @_bounded
    async def search_endpoints(
        self, query: str | None, limit: int, offset: int, filters: EndpointFilters
    ) -> EndpointHits:
        """Search for endpoints."""
        endpoints = self._snapshot.endpoints
        if query is None:
            return endpoints.search(None, limit, offset, filters)
        selected = endpoints.filters.select(filters)
        plan = self._endpoints.plan(query, endpoints.document_mask(selected.mask))
        if filters.sort != "relevance":
            total, listed, page = await self._in_order(plan, selected, limit, offset, filters)
        elif filters.per_service:
            groups, per_service = endpoints.groups, filters.per_service
            total, listed, page = await plan.collapse(groups, per_service, limit, offset)
        else:
            total, page = await plan.rank(limit, offset)
            listed = total
        facets = await _count(plan, endpoints.filters, filters.counted)
        hits = endpoints.hits(total, listed, page, filters, facets)
        if filters.explain:
            hits = replace(hits, explanations=await plan.explain(hits.ordinals))
        return hits

    @_bounded
    async def count_excluded(
        self, query: str, filters: EndpointFilters, wider: EndpointFilters
    ) -> int:
        """Count endpoints that only the wider filters match."""
        endpoints = self._snapshot.endpoints
        mask = endpoints.filters.select(filters).mask
        if mask is None:
            return 0
        wider_mask = endpoints.filters.select(wider).mask
        plan = self._endpoints.plan(query, endpoints.document_mask(wider_mask))
        excluded = np.zeros(self._endpoints.documents, np.bool_)
        excluded[: len(endpoints)] = ~mask
        return await plan.count_within(excluded)

    @_bounded
    async def search_resources(
        self, query: str | None, limit: int, offset: int, filters: ResourceFilters
    ) -> ResourcePage:
        """Search for listed resources."""
        snapshot = self._snapshot
        if query is None:
            return snapshot.search_resources(None, limit, offset, filters)
        endpoints = snapshot.endpoints
        mask = endpoints.mask_of_resources(snapshot.resources.matches(filters))
        top = await self._endpoints.plan(query, mask).rank(limit, offset)
        return snapshot.resources.page(top.total, endpoints.resources_of(top.ordinals).tolist())

    def deadline(self) -> AbstractAsyncContextManager[None]:
        """Bound the time of what is asked of the cluster."""
        return self._cluster.deadline()

    async def check(self) -> None:
        """Raise EngineUnavailable unless all shards of the indexes can be searched."""
        await self._cluster.health((self._indexes.services, self._indexes.endpoints))

    async def _in_order(
        self,
        plan: ClusterPlan,
        selected: Selection,
        limit: int,
        offset: int,
        filters: EndpointFilters,
    ) -> tuple[int, int, Integers]:
        """Return the counts of all and of listed matches, and a page in order."""
        endpoints, total = self._snapshot.endpoints, await plan.count()
        mask = selected.mask_of(len(endpoints))

        def first(some: Mask, k: int) -> Integers:
            return endpoints.filters.page(some, filters.sort, k, 0, selected.offers)

        in_order = OrderedMatches(plan, first, mask, total)
        if not filters.per_service:
            return total, total, await in_order.page(limit, offset)
        listed = total - await plan.count_excess(filters.per_service)
        if offset >= listed:
            return total, listed, NO_ORDINALS
        k = MARGIN * (offset + limit)
        while True:
            page = await in_order.first(k)
            page = page[is_among_first(endpoints.groups.of_document[page], filters.per_service)]
            if len(page) >= offset + limit or k >= total:
                break
            k *= GROWTH
        return total, listed, page[offset : offset + limit]


class OpenSearch:
    """Connects snapshots with a cluster."""

    def __init__(self, address: ClusterAddress) -> None:
        self._address = address
        self._cluster = Cluster(address)

    def connect(self, snapshot: Snapshot) -> ClusterEngine:
        """Return the engine of a snapshot."""
        return ClusterEngine(snapshot, self._cluster)

    def verify(self, snapshot: Snapshot) -> None:
        """Check the indexes of a snapshot, in a thread without an event loop.

        Raises SnapshotUnavailable for indexes that are not those which were built. A cluster that
        is away is no reason to refuse the snapshot: lists and records do not need it.
        """
        asyncio.run(self._verify(snapshot))

    async def close(self) -> None:
        """Close the connections."""
        await self._cluster.close()

    async def _verify(self, snapshot: Snapshot) -> None:
        indexes, cluster = _indexes_of(snapshot), Cluster(self._address)
        expected = (
            (indexes.services, mapping(SERVICE_FACETS, has_services=False), snapshot.parser),
            (
                indexes.endpoints,
                mapping(DOCUMENT_FACETS, has_services=True),
                snapshot.endpoints.parser,
            ),
        )
        try:
            for index, fields, parser in expected:
                actual, settings, count = await cluster.describe(index)
                documents = parser.header.documents
                reason = ""
                if {name: actual.get(name) for name in fields} != fields:
                    reason = "has other fields than it was built with"
                elif name := different_setting(settings, documents):
                    reason = f"has other settings of `{name}` than it was built with"
                elif count != documents:
                    reason = f"has {count:,} documents, the snapshot {documents:,}"
                if reason:
                    raise SnapshotUnavailable(f"the index {index} {reason}; build it again")
        except IndexMissing as error:
            raise SnapshotUnavailable(str(error)) from error
        except EngineUnavailable:
            pass  # logged; searches say so
        finally:
            await cluster.close()


async def _count(
    plan: ClusterPlan, filters: FilterIndex, names: Sequence[str]
) -> FacetCounts | None:
    """Return the most frequent values of facets among the matches, None without facets."""
    if not names:
        return None
    fields = {name: SERVICE if name == "service" else facet_field(name) for name in names}
    sizes = {
        field: 0 if field == SERVICE else len(filters.facets[name])
        for name, field in fields.items()
    }
    counted = await plan.count_values(sizes)
    return {name: filters.facets[name].named(counted[field]) for name, field in fields.items()}


def _indexes_of(snapshot: Snapshot) -> ClusterIndexes:
    if snapshot.manifest.indexes is None:
        raise SnapshotUnsupported(EMBEDDED.format(snapshot.id))
    return snapshot.manifest.indexes
