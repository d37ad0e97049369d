"""The snapshot on disk: its format, opening and verifying it, and what is asked of it."""

from service.snapshot.data import EndpointHits, Hits
from service.snapshot.manager import SnapshotManager, follow_snapshot
from service.snapshot.snapshot import Snapshot, open_snapshot

__all__ = [
    "EndpointHits",
    "Hits",
    "Snapshot",
    "SnapshotManager",
    "follow_snapshot",
    "open_snapshot",
]
