"""The snapshot on disk: its format, opening, verifying, and swapping in the published one.

May import `service.filtering`, `service.search`, `service.storage`, `service.records` and
`service.errors`.
"""

from service.snapshot.snapshot import Hits, Snapshot, open_snapshot

__all__ = ["Hits", "Snapshot", "open_snapshot"]
