"""The snapshot on disk: its format, opening and verifying it, and the engine that searches it."""

from service.snapshot.data import Hits
from service.snapshot.engine import EndpointHits
from service.snapshot.following import SnapshotFollower, follow_snapshot
from service.snapshot.snapshot import Snapshot, open_snapshot

__all__ = [
    "EndpointHits",
    "Hits",
    "Snapshot",
    "SnapshotFollower",
    "follow_snapshot",
    "open_snapshot",
]
