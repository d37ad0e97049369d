"""Opening a snapshot: its data, and the engine that searches it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Protocol

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from service.conditions import (
    EndpointFilters,
    Filters,
    FilterValue,
    ResourceConditions,
    ResourceFilters,
    read_conditions,
)
from service.engines.embedded import EmbeddedEngine, run
from service.engines.engine import Answer, Engine, Search
from service.errors import REBUILD, SnapshotDamaged, SnapshotUnsupported
from service.schema.values import Whole
from service.search.postings import read_header
from service.search.query import QueryParser
from service.search.ranking import Index
from service.search.semantic.encoder import Encoder
from service.search.semantic.vectors import VectorIndex
from service.snapshot.alternatives import Alternative, find_alternatives
from service.snapshot.data import EndpointHits, Hits, ResourceDocuments, SnapshotData
from service.snapshot.manifest import Manifest, verify
from service.snapshot.publication import SNAPSHOTS, read_current
from service.snapshot.resources import ResourcePage

COMPARING = 16
"""The cost of comparing an endpoint with another one, in postings."""


class Connector(Protocol):
    """Connects snapshots with an engine outside of this process."""

    def connect(self, snapshot: Snapshot) -> Engine:
        """Return the engine of a snapshot, which must not keep the snapshot itself open."""

    async def close(self) -> None:
        """Close the connections."""


class Snapshot(SnapshotData):
    """An open snapshot.

    embedded: the engine in its files, which always are complete
    engine: the one that answers requests
    """

    def __init__(
        self, folder: Path, manifest: Manifest, checked_at: datetime, connector: Connector | None
    ) -> None:
        super().__init__(folder, manifest, checked_at)
        header, endpoints = read_header(self.index), self.endpoints
        is_one_each = header.groups == header.documents and header.endpoints in (0, header.groups)
        groups = None if is_one_each else endpoints.groups
        encoder = vectors = None
        if manifest.encoder:
            encoder = Encoder(folder / "encoder.arrays")
            vectors = VectorIndex(folder / "vectors.arrays", endpoints.groups)
        self.embedded = EmbeddedEngine(
            QueryParser(self.index, header, encoder),
            Index(self.index, header, groups, vectors),
            endpoints.groups,
            self.filters,
            endpoints.filters,
            ResourceDocuments(self.resources, endpoints),
            manifest.threshold,
        )
        self.engine = self.embedded if connector is None else connector.connect(self)

    def list(
        self,
        limit: int = 24,
        offset: int = 0,
        filters: Filters | None = None,
        **conditions: FilterValue,
    ) -> Hits:
        """Return one page of the services that satisfy conditions, best known first.

        Conditions have the names of the HTTP parameters in snake case; `filters` replaces them.
        """
        _check_page(limit, offset)
        return self.list_services(limit, offset, filters or read_conditions(Filters, conditions))

    def search(
        self,
        query: str,
        limit: int = 24,
        offset: int = 0,
        filters: Filters | None = None,
        **conditions: FilterValue,
    ) -> Hits:
        """Return one page of the services that match a query and conditions, best match first.

        Few matches without conditions are filled up with similar services. A query without words
        matches nothing.
        """
        _check_page(limit, offset, query)
        filters = filters or read_conditions(Filters, conditions)
        return self._hits(self.embedded.rank_services(Search(query, filters, limit, offset)))

    def search_endpoints(
        self,
        query: str = "",
        limit: int = 24,
        offset: int = 0,
        filters: EndpointFilters | None = None,
        **conditions: FilterValue,
    ) -> EndpointHits:
        """Return one page of the endpoints that match a query and conditions, best match first.

        Without a query these are all that satisfy the conditions, in the order of their services.
        """
        _check_page(limit, offset, query)
        filters = filters or read_conditions(EndpointFilters, conditions)
        if not query.strip():
            return self.list_endpoints(limit, offset, filters)
        answer = self.embedded.rank_endpoints(Search(query, filters, limit, offset))
        return self._endpoint_hits(answer, filters)

    async def find_services(self, query: str, limit: int, offset: int, filters: Filters) -> Hits:
        """Return one page of services as a request asks the engine; all without a query."""
        if not query:
            cost = self.filters.cost(filters)
            return await run(partial(self.list_services, limit, offset, filters), cost)
        search = Search(query, filters, limit, offset)
        return self._hits(await self.engine.search_services(search))

    async def find_endpoints(
        self, query: str, limit: int, offset: int, filters: EndpointFilters
    ) -> EndpointHits:
        """Return one page of endpoints as a request asks the engine; all without a query."""
        if not query:
            cost = self.endpoints.filters.cost(filters)
            return await run(partial(self.list_endpoints, limit, offset, filters), cost)
        search = Search(query, filters, limit, offset)
        return self._endpoint_hits(await self.engine.search_endpoints(search), filters)

    async def find_resources(
        self, query: str, limit: int, offset: int, filters: ResourceConditions
    ) -> ResourcePage:
        """Return one page of listed resources as a request asks the engine; all without a query."""
        resources = self.resources
        if query and isinstance(filters, ResourceFilters):
            answer = await self.engine.search_resources(Search(query, filters, limit, offset))
            return resources.page(answer.total, answer.ordinals, **answer.facts)
        cost = resources.cost(filters)
        return await run(partial(resources.list, filters, limit, offset), cost)

    async def find_alternatives(self, endpoint: int) -> Sequence[Alternative]:
        """Return the endpoints of other sellers that do what an endpoint does."""
        find = partial(find_alternatives, self, self.embedded, endpoint)
        return await run(find, COMPARING * len(self.endpoints))

    def _hits(self, answer: Answer) -> Hits:
        hits = Hits(**asdict(answer), data=self)
        if hits.explanations is None:
            return hits
        urls = (
            None if each is None else self.endpoints.url_of(each) for each in hits.best_endpoints
        )
        pairs = zip(hits.explanations, urls, strict=True)
        return replace(hits, explanations=[replace(each, endpoint=url) for each, url in pairs])

    def _endpoint_hits(self, answer: Answer, filters: EndpointFilters) -> EndpointHits:
        offers = self.endpoints.filters.cheapest_offers(answer.ordinals, filters)
        return EndpointHits(**asdict(answer), offers=offers, data=self)


class _Page(Struct):
    limit: Annotated[int, Meta(ge=1)]
    offset: Whole
    query: str


def _check_page(limit: int, offset: int, query: str = "") -> None:
    """Raise ValueError unless a page has these bounds."""
    read_conditions(_Page, {"limit": limit, "offset": offset, "query": query})


def open_snapshot(artifacts: str | Path) -> Snapshot:
    """Open the snapshot that CURRENT names; checks every file against its hash first.

    Raises SnapshotMissing when nothing was published, SnapshotUnsupported for a snapshot of another
    version, and SnapshotDamaged when a file is not what was published.
    """
    artifacts = Path(artifacts)
    current = read_current(artifacts)
    return open_folder(artifacts / SNAPSHOTS / current.id, current.checked_at)


def open_folder(folder: Path, checked_at: datetime, connector: Connector | None = None) -> Snapshot:
    """Open a snapshot folder as `open_snapshot` does, whether or not it is the published one.

    `connector` connects it with another engine.
    """
    manifest = verify(folder)
    try:
        return Snapshot(folder, manifest, checked_at, connector)
    except SnapshotUnsupported:
        raise
    except Exception as error:  # damaged bytes may raise any exception where they are decoded
        raise SnapshotDamaged(f"{folder}: {error}; {REBUILD}") from error
