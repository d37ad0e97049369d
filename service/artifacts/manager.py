"""The served snapshot, swapped by a watcher thread when another one is published."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from service.artifacts.opening import open_served
from service.errors import SnapshotUnavailable
from service.snapshot.publication import SNAPSHOTS, Publication, read_current, read_others
from service.snapshot.snapshot import Connector, Snapshot

POLL_INTERVAL = 0.5
"""Seconds between two looks at CURRENT."""
FIRST_RETRY, LAST_RETRY = 1.0, 30.0
"""The first and the longest back-off in seconds, which doubles with each failure."""
JOIN_TIMEOUT = 5.0
"""Seconds that `stop` waits for the watcher, which a hung disk could hold up for ever."""

_log = logging.getLogger("uvicorn.error")


class SnapshotManager:
    """Serves the snapshot that CURRENT names.

    A snapshot is verified, opened and warmed before one assignment replaces the served one:
    requests keep the snapshot that they began with, and the last of them unmaps it. A snapshot that
    cannot be served is refused, and tried again when CURRENT or its folder is replaced, or after a
    back-off. `connector` connects it with the engine that has its postings, None where its files
    have them. `observe` is called after each look at CURRENT.
    """

    def __init__(
        self,
        path: Path,
        connector: Connector | None = None,
        observe: Callable[[SnapshotManager], None] = lambda _: None,
    ) -> None:
        self.path = path
        self.opened: Snapshot | None = None
        """The served snapshot."""
        self.refusal: SnapshotUnavailable | None = None
        """Why the published snapshot is not the served one, or why there is none."""
        self.swaps = 0
        self.refusals = 0
        self._connector = connector
        self._observe = observe
        self._current: Publication | None = None
        self._served_folder = 0
        self._tried: tuple[Publication, int] | None = None
        self._retry_after, self._retry_at = FIRST_RETRY, 0.0
        self._updating = threading.Lock()
        self._starting = threading.Lock()
        self._watcher: threading.Thread | None = None
        self._stopping = threading.Event()

    def current(self) -> Snapshot:
        """Return the served snapshot; never touches the disk.

        Raises the class of `refusal` without its message, which is for the operator.
        """
        if self.opened is None:
            raise SnapshotUnavailable if self.refusal is None else type(self.refusal)
        return self.opened

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
        self._update()
        with self._updating:
            self._observe(self)

    def _update(self) -> None:
        with self._updating:
            try:
                self._current = current = read_current(self.path)
            except SnapshotUnavailable as error:
                self._refuse(error)
                return
            folder = _inode(self.path / SNAPSHOTS / current.id)
            served, state = self.opened, (current, folder)
            if served is not None and (served.id, self._served_folder) == (current.id, folder):
                self.refusal = None
                return
            if state != self._tried:
                self._retry_after = FIRST_RETRY
            elif time.monotonic() < self._retry_at:
                return
            self._tried = state
            if self._serve(current.id, current.checked_at):
                self.refusal = None
                return
            self._retry_at = time.monotonic() + self._retry_after
            self._retry_after = min(2 * self._retry_after, LAST_RETRY)
            if self.opened is None:
                self._serve_earlier()

    def _serve_earlier(self) -> None:
        """Serve the newest whole snapshot built before the published one, which is refused."""
        earlier, _ = read_others(self.path)
        refusal = self.refusal
        is_served = any(self._serve(each.id, each.built_at) for each in earlier)
        self.refusal = None if is_served else refusal
        if is_served and refusal is not None:
            self._refuse(refusal)  # counted and logged with what is served instead

    def _serve(self, snapshot_id: str, checked_at: datetime) -> bool:
        """Verify, open and serve a snapshot, or refuse it; returns whether it is served."""
        path = self.path / SNAPSHOTS / snapshot_id
        folder = _inode(path)
        try:
            snapshot = open_served(path, checked_at, self._connector)
        except SnapshotUnavailable as error:
            self._refuse(error)
            return False
        except Exception as error:  # noqa: BLE001  # too little memory, too many files
            _log.exception("%s cannot be opened", path)
            self._refuse(SnapshotUnavailable(f"{path} cannot be opened: {error!r}"))
            return False
        before, counts = self.opened, snapshot.manifest.counts
        self.opened, self._served_folder = snapshot, folder
        self.swaps += before is not None
        _log.info(
            "serving snapshot %s%s: %d services, %d endpoints, %d payments",
            snapshot.id,
            f" instead of {before.id}" if before else "",
            counts.services,
            counts.endpoints,
            counts.payments,
        )
        return True

    def _refuse(self, error: SnapshotUnavailable) -> None:
        # A copy, as the traceback of the error would keep what its frames hold.
        before, self.refusal = self.refusal, type(error)(*error.args)
        if str(before) == str(error):
            return
        if self.opened is not None:
            self.refusals += 1
            _log.error("still serving %s: %s", self.opened.id, self.refusal)
        elif before is not None:
            _log.error("still without a snapshot: %s", self.refusal)


def _inode(folder: Path) -> int:
    """Return the inode of a folder, which a build replaces where it is damaged; 0 without one."""
    try:
        return folder.stat().st_ino
    except OSError:
        return 0


def _watch(reference: weakref.ref[SnapshotManager], stopping: threading.Event) -> None:
    while (manager := reference()) is not None:
        manager.poll()
        del manager
        if stopping.wait(POLL_INTERVAL):
            return
