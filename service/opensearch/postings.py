"""The postings of snapshots in a cluster.

Filters, orders, facets, exact names, vectors and records come from the local snapshot, and
`service.search.ranking` ranks. Vectors are local because a query needs 200 of them, for documents
that the cluster has just ranked: fetching them would take a second round trip and 25 KB.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from service.errors import EngineUnavailable, IndexMissing, SnapshotUnavailable, SnapshotUnsupported
from service.opensearch.client import Cluster
from service.opensearch.connection import ClusterAddress
from service.opensearch.index import FIELDS, ClusterIndex, different_setting
from service.opensearch.scorer import ClusterScorer
from service.search.postings import Mask
from service.search.query import ParsedQuery
from service.snapshot.data import SnapshotData

EMBEDDED = (
    "the snapshot {} has its postings in its files: start the service without `--engine "
    "opensearch`, or build it with that option"
)

T = TypeVar("T")


class ClusterPostings:
    """The postings of a snapshot, in the index that its manifest names."""

    def __init__(self, data: SnapshotData, cluster: Cluster) -> None:
        self._cluster = cluster
        self._index = _index_of(data)
        self._shift: int | None = None
        if data.groups is not None:
            self._shift = int(data.groups.penalties.max(initial=0)) + 1

    def scorer(
        self, query: ParsedQuery, mask: Mask | None, *, by_group: bool, match_all: bool = False
    ) -> ClusterScorer:
        """Return the matches of a query among the units of a mask."""
        shift = self._shift if by_group else None
        units = self._index.documents if shift is None else self._index.groups
        search = partial(self._cluster.search, self._index)
        return ClusterScorer(search, query, mask, units, shift, match_all=match_all)

    def cost(self, *_: Any, **__: Any) -> int:
        """Return 0: the cluster adds up impacts."""
        return 0

    async def run(self, search: Coroutine[Any, Any, T], _: int) -> T:
        """Run a search within the deadline of a request."""
        async with self._cluster.deadline():
            return await search

    async def check(self) -> None:
        """Raise EngineUnavailable unless all shards of the index can be searched."""
        await self._cluster.check(self._index.name)


class OpenSearch:
    """Connects snapshots with a cluster."""

    def __init__(self, address: ClusterAddress) -> None:
        self._address = address
        self._cluster = Cluster(address)

    def connect(self, data: SnapshotData) -> ClusterPostings:
        """Return the postings of a snapshot; raises SnapshotUnsupported if its files have them."""
        return ClusterPostings(data, self._cluster)

    def verify(self, data: SnapshotData) -> None:
        """Check the index of a snapshot, in a thread without an event loop.

        Raises SnapshotUnavailable for an index that is not the one which was built. A cluster that
        is away is no reason to refuse the snapshot: lists and records do not need it.
        """
        asyncio.run(self._verify(_index_of(data)))

    async def close(self) -> None:
        """Close the connections."""
        await self._cluster.close()

    async def _verify(self, index: ClusterIndex) -> None:
        cluster = Cluster(self._address)
        try:
            described, count = await cluster.describe(index.name)
        except IndexMissing as error:
            raise SnapshotUnavailable(str(error)) from error
        except EngineUnavailable:
            return  # logged; searches say so
        finally:
            await cluster.close()
        reason, fields = "", described.mappings.properties
        if {name: fields.get(name) for name in FIELDS} != FIELDS:
            reason = "has other fields than it was built with"
        elif name := different_setting(described.settings.index, index.documents):
            reason = f"has other settings of `{name}` than it was built with"
        elif count != index.documents:
            reason = f"has {count:,} documents, the snapshot {index.documents:,}"
        if reason:
            raise SnapshotUnavailable(f"the index {index.name} {reason}; build it again")


def _index_of(data: SnapshotData) -> ClusterIndex:
    if data.manifest.index is None:
        raise SnapshotUnsupported(EMBEDDED.format(data.id))
    header = data.header
    return ClusterIndex(data.manifest.index, header.documents, header.groups)
