"""The published snapshot of an artifacts folder, which changes when another one is published."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path

from service.conditions import SERVICE_FACETS, Filters
from service.errors import SnapshotUnavailable
from service.schema.values import EPOCH
from service.snapshot.publication import SNAPSHOTS, Publication, read_current, read_others
from service.snapshot.snapshot import Connector, Snapshot, open_folder

RETRY_AFTER = 5.0
"""Seconds until a snapshot that was refused is tried again."""
POLL_INTERVAL = 0.5
"""Seconds between two looks at CURRENT."""
JOIN_TIMEOUT = 5.0
"""Seconds that `stop` waits for the watcher, which a hung disk could hold up for ever."""

_log = logging.getLogger("uvicorn.error")


class SnapshotManager:
    """Follows the snapshot that CURRENT names; safe to use from several threads.

    A snapshot is verified, opened and warmed before one assignment replaces the last one, whose
    files are closed as soon as nothing uses it. A snapshot that cannot be opened is refused, and
    tried again when CURRENT or its folder is replaced, or after RETRY_AFTER.

    A watcher thread looks for another snapshot from `start` to `stop`; without it `latest` does.
    `connector` connects snapshots with another engine, if there is one. `observe` is called after
    each look at CURRENT.
    """

    def __init__(
        self,
        path: Path,
        connector: Connector | None = None,
        observe: Callable[[SnapshotManager], None] = lambda _: None,
    ) -> None:
        self.path = path
        self.opened: Snapshot | None = None
        """The snapshot that was opened last."""
        self.refusal: SnapshotUnavailable | None = None
        """Why the published snapshot is not the opened one, or why there is none."""
        self.swaps = 0
        self.refusals = 0
        self._current: Publication | None = None
        self._served: tuple[str, int] | None = None
        self._tried: tuple[Publication, int] | None = None
        self._retry_at = 0.0
        self._updating = threading.Lock()
        self._connector = connector
        self._observe = observe
        self._starting = threading.Lock()
        self._watcher: threading.Thread | None = None
        self._stopping = threading.Event()

    def latest(self) -> Snapshot:
        """Return the published snapshot, opened if it is another one than before.

        While another thread opens it, and where it cannot be opened, this is the one before.
        Raises SnapshotUnavailable where there is none.
        """
        if self.opened is None or not self._updating.locked():
            self.poll()
        opened, refusal = self.opened, self.refusal  # another thread may change both
        if opened is None:
            raise SnapshotUnavailable if refusal is None else type(refusal)(*refusal.args)
        return opened

    def current(self) -> Snapshot:
        """Return the served snapshot; never touches the disk.

        Raises the class of `refusal` without its message, which is for the operator.
        """
        opened, refusal = self.opened, self.refusal  # the watcher may change both
        if opened is None:
            raise SnapshotUnavailable if refusal is None else type(refusal)
        return opened

    def checked_at(self, snapshot: Snapshot) -> datetime:
        """Return when a build last found a snapshot up to date, as the watcher last read it."""
        current = self._current
        if current is None or current.id != snapshot.id:
            return snapshot.checked_at
        return current.checked_at

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Open the first snapshot and run the watcher; at the end close the connector, too."""
        try:
            await asyncio.to_thread(self.open)
            self.start()
            yield
        finally:
            self.stop()
            if self._connector is not None:
                await self._connector.close()

    @property
    def is_watching(self) -> bool:
        """Whether the watcher runs, which opens the first snapshot as well."""
        return self._watcher is not None

    def start(self) -> None:
        """Start the watcher unless it runs; it ends with `stop`, or when the manager is freed."""
        with self._starting:
            if self._watcher is not None:
                return
            stopping = threading.Event()
            watcher = threading.Thread(
                target=_watch, args=(weakref.ref(self), stopping), daemon=True
            )
            try:
                watcher.start()
            except RuntimeError as error:  # too many threads; the next call tries again
                _log.error("%s is not watched: %s", self.path, error)
                return
            self._watcher, self._stopping = watcher, stopping

    def stop(self) -> None:
        """Stop the watcher and wait for it; the served snapshot stays."""
        with self._starting:
            watcher, self._watcher = self._watcher, None
            self._stopping.set()
        if watcher is not None:
            watcher.join(JOIN_TIMEOUT)

    def open(self) -> None:
        """Open the first snapshot in this thread, unless one is open; `current` raises failures."""
        if self.opened is None:
            self.poll()

    def poll(self) -> None:
        """Serve the published snapshot if it is another one, or if it is time for a retry."""
        with self._updating:
            self._look()
            self._observe(self)

    def _look(self) -> None:
        try:
            current = self._current = read_current(self.path)
        except SnapshotUnavailable as error:
            if self.opened is None and time.monotonic() >= self._retry_at:
                self._fall_back(EPOCH)
                self._retry_at = time.monotonic() + RETRY_AFTER
            self._refuse(error)
            return
        state = current, _inode(self.path / SNAPSHOTS / current.id)
        if self._served == (current.id, state[1]):
            self.refusal = None
        elif state != self._tried or time.monotonic() >= self._retry_at:
            refusal = self._serve(current.id, current.checked_at)
            if refusal is not None and self.opened is None:
                self._fall_back(current.checked_at)
            self._refuse(refusal)
            self._tried, self._retry_at = state, time.monotonic() + RETRY_AFTER

    def _fall_back(self, published_at: datetime) -> None:
        """Serve the newest whole snapshot that was built before the published one.

        Else it is a later one that the published one replaced by being published again. A rollback
        dates CURRENT back, so that none is served that it withdrew.
        """
        earlier, later = read_others(self.path)
        others = [*earlier, *(each for each in later if each.built_at <= published_at)]
        any(self._serve(each.id, each.built_at) is None for each in others)

    def _serve(self, snapshot_id: str, checked_at: datetime) -> SnapshotUnavailable | None:
        """Verify, open and serve a snapshot; returns why it cannot be served."""
        path = self.path / SNAPSHOTS / snapshot_id
        folder = _inode(path)
        try:
            snapshot = open_served(path, checked_at, self._connector)
        except SnapshotUnavailable as error:
            return error
        except Exception as error:  # noqa: BLE001  # too little memory, too many files
            _log.exception("%s cannot be opened", path)
            return SnapshotUnavailable(f"{path} cannot be opened: {error!r}")
        before, counts = self.opened, snapshot.manifest.counts
        self.opened, self._served = snapshot, (snapshot.id, folder)
        self.swaps += before is not None
        _log.info(
            "serving snapshot %s%s: %d services, %d endpoints, %d payments",
            snapshot.id,
            f" instead of {before.id}" if before else "",
            counts.services,
            counts.endpoints,
            counts.payments,
        )
        return None

    def _refuse(self, error: SnapshotUnavailable | None) -> None:
        """Keep why the published snapshot is not served, if there is a reason, and log a new one.

        The copy has no traceback, which would keep what its frames hold.
        """
        before, self.refusal = self.refusal, error and type(error)(*error.args)
        if error is None or str(before) == str(error):
            return
        if self.opened is not None:
            self.refusals += 1
            _log.error("still serving %s: %s", self.opened.id, error)
        elif before is not None:
            _log.error("still without a snapshot: %s", error)


def follow_snapshot(artifacts: str | Path) -> SnapshotManager:
    """Open the snapshot that CURRENT names, as `open_snapshot` does, and follow it from then on.

    Where that one is damaged, this is the newest whole one before, and `refusal` says why.
    """
    manager = SnapshotManager(Path(artifacts))
    manager.latest()
    return manager


def open_served(folder: Path, checked_at: datetime, connector: Connector | None) -> Snapshot:
    """Open the snapshot in a folder, and run the operations of the first requests."""
    snapshot = open_folder(folder, checked_at, connector)
    hits = snapshot.list(filters=Filters(facets=SERVICE_FACETS))
    if connector is None:
        snapshot.search(" ".join(hits.ids))
    return snapshot


def _watch(reference: weakref.ref[SnapshotManager], stopping: threading.Event) -> None:
    while (manager := reference()) is not None:
        manager.poll()
        del manager
        if stopping.wait(POLL_INTERVAL):
            return


def _inode(folder: Path) -> int:
    """Return the inode of a folder, which a build replaces where it is damaged; 0 without one."""
    with suppress(OSError):
        return folder.stat().st_ino
    return 0
