"""A cache of the changes between kept snapshots, which are computed in a thread."""

from __future__ import annotations

import logging
from functools import partial
from typing import TypeAlias

from service.artifacts.folder import KeptSnapshot
from service.artifacts.open_cache import OpenCache
from service.errors import SnapshotDamaged, SnapshotGone
from service.snapshot.changes import COMPARED_FILES, Changes
from service.snapshot.manifest import check_files

MAX_PAIRS = 8
"""Pairs of snapshots whose changes stay open: some 20 MB of mapped arrays at 100,000 services."""
FULL = "too many snapshots are being compared; try again in a second"

Pair: TypeAlias = tuple[str, str]

_log = logging.getLogger("uvicorn.error")


class ChangesCache(OpenCache[Pair, Changes]):
    """Keeps the changes of the last pairs of snapshots open, computing each once."""

    def __init__(self) -> None:
        super().__init__(MAX_PAIRS, "compare-snapshots", FULL)
        self._reported = ""

    async def compare(self, old: KeptSnapshot, new: KeptSnapshot) -> Changes:
        """Return the changes from one snapshot to another.

        Raises SnapshotGone for a snapshot that is removed meanwhile, SnapshotDamaged, and what
        `OpenCache.open` raises.
        """
        return await self.open((old.id, new.id), partial(self._compare, old, new))

    def _compare(self, old: KeptSnapshot, new: KeptSnapshot) -> Changes:
        try:
            for snapshot in (old, new):
                files = snapshot.manifest.files
                check_files(snapshot.folder, {name: files[name] for name in COMPARED_FILES})
            return Changes(old.folder, new.folder)
        except (SnapshotDamaged, OSError, ValueError, LookupError) as error:
            for snapshot, other in ((old, new), (new, old)):
                if not snapshot.folder.exists():
                    raise SnapshotGone(snapshot.id, other.id) from error
            if str(error) != self._reported:
                _log.error("%s and %s cannot be compared: %s", old.id, new.id, error)
                self._reported = str(error)
            message = f"the snapshot {old.id} or {new.id} is damaged; they cannot be compared"
            raise SnapshotDamaged(message) from error
