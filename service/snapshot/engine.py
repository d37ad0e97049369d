"""The engine: what a request needs of whatever has the postings of a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from service.filtering.endpoint_filters import EndpointFilters
from service.filtering.filters import NO_FILTERS, Filters
from service.snapshot.endpoints import EndpointHits
from service.snapshot.resources import ResourceFilters, ResourcePage

if TYPE_CHECKING:
    from service.snapshot.snapshot import Hits, Snapshot


class Engine(Protocol):
    """Searches one snapshot. Lists, filters without a query, and records need no engine.

    Every method raises EngineUnavailable where an answer would be late or not whole.
    """

    async def search(
        self, query: str, limit: int = 24, offset: int = 0, filters: Filters = NO_FILTERS
    ) -> Hits:
        """Return what `Snapshot.search` does."""

    async def search_endpoints(
        self, query: str | None, limit: int, offset: int, filters: EndpointFilters
    ) -> EndpointHits:
        """Return what `Endpoints.search` does."""

    async def count_excluded(
        self, query: str, filters: EndpointFilters, wider: EndpointFilters
    ) -> int:
        """Return what `Endpoints.count_excluded` does."""

    async def search_resources(
        self, query: str | None, limit: int, offset: int, filters: ResourceFilters
    ) -> ResourcePage:
        """Return what `Snapshot.search_resources` does."""

    async def check(self) -> None:
        """Raise EngineUnavailable unless searches can be answered."""


Connect: TypeAlias = "Callable[[Snapshot], Engine]"


class Connector(Protocol):
    """Connects snapshots with an engine that has their postings."""

    def connect(self, snapshot: Snapshot) -> Engine:
        """Return the engine of a snapshot; raises SnapshotUnsupported if its files have them."""

    def verify(self, snapshot: Snapshot) -> None:
        """Raise SnapshotUnavailable if the engine cannot serve a snapshot; for threads."""

    async def close(self) -> None:
        """Close the connections."""


class EmbeddedEngine:
    """Searches the files of the snapshot, at once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    async def search(
        self, query: str, limit: int = 24, offset: int = 0, filters: Filters = NO_FILTERS
    ) -> Hits:
        """Search for services."""
        return self._snapshot.search(query, limit, offset, filters)

    async def search_endpoints(
        self, query: str | None, limit: int, offset: int, filters: EndpointFilters
    ) -> EndpointHits:
        """Search for endpoints."""
        return self._snapshot.endpoints.search(query, limit, offset, filters)

    async def count_excluded(
        self, query: str, filters: EndpointFilters, wider: EndpointFilters
    ) -> int:
        """Count endpoints that only the wider filters match."""
        return self._snapshot.endpoints.count_excluded(query, filters, wider)

    async def search_resources(
        self, query: str | None, limit: int, offset: int, filters: ResourceFilters
    ) -> ResourcePage:
        """Search for listed resources."""
        return self._snapshot.search_resources(query, limit, offset, filters)

    async def check(self) -> None:
        """Files that were opened need no check."""
