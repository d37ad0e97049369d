"""The snapshot on disk: its format, opening and verifying it, and the engine that searches it."""

from service.snapshot.data import Hits
from service.snapshot.snapshot import Snapshot, open_snapshot

__all__ = ["Hits", "Snapshot", "open_snapshot"]
