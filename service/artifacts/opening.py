"""Opening a snapshot to serve it: mapped, connected with its engine, and warmed."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from service.conditions import SERVICE_FACETS, Filters
from service.errors import SnapshotDamaged, SnapshotUnsupported
from service.snapshot.snapshot import Connector, Snapshot, open_folder


def open_served(folder: Path, checked_at: datetime, connector: Connector | None) -> Snapshot:
    """Open and warm the snapshot in a folder; raises SnapshotUnavailable."""
    snapshot = open_folder(folder, checked_at, connector)
    _warm(snapshot, is_embedded=connector is None)
    return snapshot


def _warm(snapshot: Snapshot, *, is_embedded: bool) -> None:
    """Run the operations of the first requests, which fail here if they fail."""
    try:
        hits = snapshot.list(filters=Filters(facets=SERVICE_FACETS))
        for service_id in hits.ids:
            snapshot.find(service_id)
        if is_embedded:
            snapshot.search(" ".join(hits.ids))
        snapshot.summaries.run(hits.ordinals)
        snapshot.ecosystem.overview(1)
        snapshot.ecosystem.stats(1)
        snapshot.ecosystem.transactions(0, 1)
    except SnapshotUnsupported:
        raise
    except Exception as error:  # damaged bytes may raise any exception
        raise SnapshotDamaged(f"the snapshot {snapshot.id} cannot be searched: {error}") from error
