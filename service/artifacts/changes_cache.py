"""A cache of the changes between kept snapshots, which are computed in a thread."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeAlias

from service.artifacts.kept import KeptSnapshot
from service.errors import Overloaded, SnapshotDamaged, SnapshotGone
from service.snapshot.changes import COMPARED_FILES, Changes
from service.snapshot.manifest import check_files

MAX_PAIRS = 8
"""Pairs of snapshots whose changes stay open: some 20 MB of mapped arrays at 100,000 services."""
MAX_WAITING = 8
"""Pairs that may wait to be compared, one after the other."""
IDLE = 60.0
"""Seconds after the last page, after which changes of a removed snapshot are closed."""

Pair: TypeAlias = tuple[str, str]

_log = logging.getLogger("uvicorn.error")


class _Entry(NamedTuple):
    changes: Changes
    used_at: float


class ChangesCache:
    """Keeps the changes of the last pairs of snapshots open, computing each once.

    `get` and `expire` may be called from any thread, `open` from one event loop at a time.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[Pair, _Entry] = OrderedDict()
        self._lock = threading.Lock()
        self._comparing: dict[Pair, asyncio.Future[None]] = {}
        self._thread = ThreadPoolExecutor(1, "compare-snapshots")
        self._reported = ""

    def get(self, old: str, new: str) -> Changes | None:
        """Return the changes from one snapshot to another if they are open."""
        with self._lock:
            entry = self._entries.pop((old, new), None)
            if entry is None:
                return None
            self._entries[old, new] = entry._replace(used_at=time.monotonic())
            return entry.changes

    async def open(self, old: KeptSnapshot, new: KeptSnapshot) -> Changes:
        """Return the changes from one snapshot to another, compared in a thread on a miss.

        Requests for the same pair wait for one comparison. Raises SnapshotGone for a snapshot that
        is removed meanwhile, SnapshotDamaged, and Overloaded while too many pairs wait.
        """
        while (changes := self.get(old.id, new.id)) is None:
            await asyncio.shield(self._begin(old, new))
        return changes

    def expire(self, kept: Collection[str]) -> None:
        """Close the changes of snapshots that are no longer kept and that nobody reads."""
        with self._lock:
            oldest = time.monotonic() - IDLE
            for pair, entry in list(self._entries.items()):
                if entry.used_at < oldest and not all(each in kept for each in pair):
                    del self._entries[pair]

    def _begin(self, old: KeptSnapshot, new: KeptSnapshot) -> asyncio.Future[None]:
        """Return the running comparison of a pair, which adds an entry, or begin one.

        Its result is None: changes in it would stay open until the next garbage collection.
        """
        pair, loop = (old.id, new.id), asyncio.get_running_loop()
        comparison = self._comparing.get(pair)
        if comparison is None or comparison.get_loop() is not loop:
            if len(self._comparing) >= MAX_WAITING:
                raise Overloaded("too many snapshots are being compared; try again in a second")
            comparison = loop.run_in_executor(self._thread, self._compare, old, new)
            self._comparing[pair] = comparison
            comparison.add_done_callback(lambda done: self._end(pair, done))
        return comparison

    def _end(self, pair: Pair, comparison: asyncio.Future[None]) -> None:
        self._comparing.pop(pair, None)
        if not comparison.cancelled():
            comparison.exception()  # all clients may be gone, which is no error

    def _compare(self, old: KeptSnapshot, new: KeptSnapshot) -> None:
        try:
            for snapshot in (old, new):
                files = snapshot.manifest.files
                check_files(snapshot.folder, {name: files[name] for name in COMPARED_FILES})
            changes = Changes(old.folder, new.folder)
        except (SnapshotDamaged, OSError, ValueError, LookupError) as error:
            for snapshot, other in ((old, new), (new, old)):
                if not snapshot.folder.exists():
                    raise SnapshotGone(snapshot.id, other.id) from error
            if str(error) != self._reported:
                _log.error("%s and %s cannot be compared: %s", old.id, new.id, error)
                self._reported = str(error)
            message = f"the snapshot {old.id} or {new.id} is damaged; they cannot be compared"
            raise SnapshotDamaged(message) from error
        with self._lock:
            self._entries[old.id, new.id] = _Entry(changes, time.monotonic())
            if len(self._entries) > MAX_PAIRS:
                self._entries.popitem(last=False)
