"""The published snapshot, opened on first use and kept."""

from __future__ import annotations

import logging
from pathlib import Path

from service.snapshot import Snapshot, open_snapshot

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
