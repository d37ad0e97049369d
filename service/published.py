"""The published snapshot, opened on first use and kept."""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path

from service.errors import SnapshotUnavailable
from service.snapshot import Snapshot, open_snapshot, read_current

_log = logging.getLogger("uvicorn.error")


class Published:
    """Opens what an artifacts folder publishes; one for each application."""

    def __init__(self, artifacts: str | Path) -> None:
        self._artifacts = artifacts
        self._snapshot: Snapshot | None = None

    def snapshot(self) -> Snapshot:
        """The snapshot to answer from; raises SnapshotUnavailable, and tries again next time."""
        if self._snapshot is None:
            self._snapshot = open_snapshot(self._artifacts)
            counts = self._snapshot.manifest.counts
            _log.info(
                "serving snapshot %s: %d services, %d endpoints, %d payments",
                self._snapshot.id,
                counts.services,
                counts.endpoints,
                counts.payments,
            )
        return self._snapshot

    def checked_at(self, snapshot: Snapshot) -> datetime:
        """When a build last found that this snapshot is what its sources make.

        Builds that change nothing touch `CURRENT`; its time counts while it names this snapshot.
        """
        try:
            published, checked_at = read_current(Path(self._artifacts))
        except SnapshotUnavailable:
            return snapshot.checked_at
        return checked_at if published == snapshot.id else snapshot.checked_at
