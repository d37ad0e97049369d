"""An open snapshot, and the operations that are answered from it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from service.errors import REBUILD, SnapshotDamaged, SnapshotUnsupported
from service.filtering.facets import FacetCounts
from service.filtering.filters import NO_FILTERS, Filters, ServiceFilterIndex
from service.filtering.offers import Offers
from service.records import Explanation
from service.search.postings import Mask
from service.search.query import QueryParser
from service.search.searcher import Searcher
from service.search.semantic.encoder import Encoder
from service.search.semantic.hybrid import Semantics
from service.search.semantic.vectors import Vectors
from service.snapshot.ecosystem import Ecosystem
from service.snapshot.endpoints import Endpoints, searcher_of
from service.snapshot.engine import Connect, EmbeddedEngine, Engine
from service.snapshot.manifest import Manifest, check_sizes, read_manifest
from service.snapshot.publication import SNAPSHOTS, read_current
from service.snapshot.resources import ResourceFilters, ResourcePage, Resources
from service.storage.memory_map import items_of, open_array
from service.storage.record_store import IdTable, RecordStore


class Hits(Struct, frozen=True):
    """One page of services in order, and the exact count of all matches.

    `facets` holds the counts of the facets that were asked for, or None, and `explanations` those
    of the services of the page.
    """

    total: int
    ordinals: Sequence[int]
    id_table: IdTable
    facets: FacetCounts | None
    explanations: list[Explanation] | None = None

    @property
    def ids(self) -> list[str]:
        """The ids of the page."""
        return [self.id_table[ordinal] for ordinal in self.ordinals]


class Snapshot:
    """An open snapshot: immutable, and safe to read from several threads.

    `services` and `summaries` hold the stored JSON of the services, with and without endpoints,
    and `resources` that of what discovery feeds list. `endpoints` are those of all services.
    `offers` are the ways to pay for them. `filters` selects and orders the services, and `parser`
    has their lexicon. A snapshot whose postings are in a cluster is searched by its `engine` alone.
    """

    def __init__(
        self, folder: Path, manifest: Manifest, checked_at: datetime, connect: Connect | None
    ) -> None:
        self._connect = connect
        self.folder = folder
        self.manifest = manifest
        self.id = manifest.id
        self.encoded_id = manifest.id.encode()
        self.checked_at = checked_at
        self.services = RecordStore(folder, "records")
        self.summaries = RecordStore(folder, "summaries")
        self.id_table = IdTable(folder)
        semantics = None
        if "encoder/rows.npy" in manifest.files:
            encoder = Encoder(folder / "encoder")
            vectors = Vectors(folder / "vectors", len(self.services), encoder.dimensions)
            semantics = Semantics(encoder, vectors)
        self.offers = Offers(folder / "offers")
        self.resources = Resources(folder / "resources", self.offers)
        self.endpoints = Endpoints(
            folder / "endpoints",
            self.offers,
            self.id_table,
            self.services,
            self.resources.texts,
            semantics if "endpoints/vectors/rows.npy" in manifest.files else None,
            has_postings=manifest.indexes is None,
        )
        self.ecosystem = Ecosystem(folder / "ecosystem")
        self._tags = items_of(open_array(folder / "tags.npy"))
        self.parser = QueryParser(folder / "postings", semantics)
        self._searcher = None
        if manifest.indexes is None:
            self._searcher = Searcher(folder / "postings", self.parser)
        self.filters = ServiceFilterIndex(folder / "filters")

    @property
    def engine(self) -> Engine:
        """The engine that searches this snapshot."""
        return EmbeddedEngine(self) if self._connect is None else self._connect(self)

    def find(self, service_id: str) -> bytes | None:
        """Return the stored JSON of a service, or None."""
        ordinal = self.ordinal_of(service_id)
        return None if ordinal is None else self.services.text(ordinal)

    def ordinal_of(self, service_id: str) -> int | None:
        """Return the position of a service in the listing, or None."""
        return self.id_table.find(service_id)

    def id_of(self, ordinal: int) -> str:
        """Return the id of a service by its position in the listing."""
        return self.id_table[ordinal]

    def tag_of(self, ordinal: int) -> bytes:
        """Return a hash of the stored JSON of a service, 16 hexadecimal digits."""
        return b"%016x" % self._tags[ordinal]

    def list(self, limit: int = 24, offset: int = 0, filters: Filters = NO_FILTERS) -> Hits:
        """Return one page of the services that satisfy the filters, in their order."""
        return self._page(self.filters.mask(filters), limit, offset, filters)

    def search(
        self, query: str, limit: int = 24, offset: int = 0, filters: Filters = NO_FILTERS
    ) -> Hits:
        """Return one page of the services that match a plain-text query and the filters.

        The best match is first, unless the filters ask for another order.
        """
        searcher = searcher_of(self._searcher)
        mask = self.filters.mask(filters)
        plan = searcher.plan(query, mask, match_all=filters.match_all)
        if filters.sort != "relevance":
            hits = self._page(plan.matches(), limit, offset, filters)
        else:
            top = plan.rank(limit, offset)
            facets = None
            if filters.counted:
                facets = self.filters.count(filters.counted, plan.matches())
            hits = Hits(top.total, top.ordinals.tolist(), self.id_table, facets)
        if filters.explain:
            hits = replace(hits, explanations=searcher.explain(plan, hits.ordinals))
        return hits

    def search_resources(
        self, query: str | None, limit: int, offset: int, filters: ResourceFilters
    ) -> ResourcePage:
        """Return one page of the listed resources that match a plain-text query and the filters.

        Without a query they are in the order of the listing.
        """
        if query is None:
            return self.resources.list(filters, limit, offset)
        matches = self.resources.matches(filters)
        top = self.endpoints.rank_resources(query, matches, limit, offset)
        return self.resources.page(top.total, top.ordinals.tolist())

    def _page(self, matches: Mask | None, limit: int, offset: int, filters: Filters) -> Hits:
        total = len(self.services) if matches is None else int(np.count_nonzero(matches))
        facets = self.filters.count(filters.counted, matches) if filters.counted else None
        ordinals = self.filters.page(matches, filters.sort, limit, offset)
        return Hits(total, ordinals.tolist(), self.id_table, facets)


def open_snapshot(artifacts: str | Path) -> Snapshot:
    """Open the snapshot that CURRENT names, having checked its manifest and file sizes.

    Raises SnapshotMissing when nothing was published, SnapshotUnsupported for a snapshot of another
    version, and SnapshotDamaged when a file is absent or cannot be what was published.
    """
    artifacts = Path(artifacts)
    current = read_current(artifacts)
    return open_folder(artifacts / SNAPSHOTS / current.id, current.checked_at)


def open_folder(folder: Path, checked_at: datetime, connect: Connect | None = None) -> Snapshot:
    """Open a snapshot folder as `open_snapshot` does, whether or not it is the published one.

    `connect` returns the engine that searches a snapshot, if its own files do not.
    """
    manifest = read_manifest(folder)
    check_sizes(folder, manifest.served_files)
    try:
        return Snapshot(folder, manifest, checked_at, connect)
    except SnapshotUnsupported:
        raise
    except Exception as error:  # damaged bytes may raise any exception where they are decoded
        raise SnapshotDamaged(f"{folder}: {error}; {REBUILD}") from error
