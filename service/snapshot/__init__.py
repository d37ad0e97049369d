"""The snapshot on disk: opening, verifying, and swapping in the one that is published.

May import `search` and `storage`.
"""

from service.snapshot.snapshot import Snapshot, open_snapshot

__all__ = ["Snapshot", "open_snapshot"]
