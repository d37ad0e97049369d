"""Opening a snapshot: its data, and the engine that searches it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Protocol

from service.conditions import EndpointFilters, Filters
from service.errors import REBUILD, SnapshotDamaged, SnapshotUnsupported
from service.snapshot.conditions import FilterValue, check_page, read_conditions
from service.snapshot.data import Hits, SnapshotData
from service.snapshot.embedded import EmbeddedPostings, run_now
from service.snapshot.engine import EndpointHits, Engine, Postings
from service.snapshot.manifest import Manifest, verify
from service.snapshot.publication import SNAPSHOTS, read_current


class Connector(Protocol):
    """Connects snapshots with what has their postings."""

    def connect(self, data: SnapshotData) -> Postings:
        """Return the postings of a snapshot; raises SnapshotUnsupported if its files have them."""

    def verify(self, data: SnapshotData) -> None:
        """Raise SnapshotUnavailable if the postings cannot be searched; for threads."""

    async def close(self) -> None:
        """Close the connections."""


class Snapshot(SnapshotData):
    """An open snapshot, and its engine."""

    def __init__(
        self, folder: Path, manifest: Manifest, checked_at: datetime, connector: Connector | None
    ) -> None:
        super().__init__(folder, manifest, checked_at)
        if connector is not None:
            self._postings: Postings = connector.connect(self)
        else:
            self._postings = EmbeddedPostings(self)

    @property
    def engine(self) -> Engine:
        """The engine: made anew, as a reference cycle would keep the files mapped."""
        return Engine(self, self._postings)

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
        check_page(limit, offset)
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

        Raises SnapshotUnsupported if the postings are in a cluster.
        """
        check_page(limit, offset)
        filters = filters or read_conditions(Filters, conditions)
        return run_now(
            self.engine.search_services(self.parser.parse(query), limit, offset, filters)
        )

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
        Raises SnapshotUnsupported if the postings are in a cluster.
        """
        check_page(limit, offset)
        filters = filters or read_conditions(EndpointFilters, conditions)
        if not query:
            return run_now(self.engine.list_endpoints(limit, offset, filters))
        parsed = self.parser.parse(query)
        return run_now(self.engine.rank_endpoints(parsed, limit, offset, filters))


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

    `connector` has the postings of a snapshot whose own files do not have them.
    """
    manifest = verify(folder)
    try:
        return Snapshot(folder, manifest, checked_at, connector)
    except SnapshotUnsupported:
        raise
    except Exception as error:  # damaged bytes may raise any exception where they are decoded
        raise SnapshotDamaged(f"{folder}: {error}; {REBUILD}") from error
