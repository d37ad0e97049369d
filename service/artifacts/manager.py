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
from functools import partial
from pathlib import Path

from service.artifacts.changes_cache import ChangesCache
from service.artifacts.file_states import FileState
from service.artifacts.folder import ArtifactsFolder, KeptSnapshot
from service.artifacts.open_cache import OpenCache
from service.artifacts.opening import ServedSnapshot, files_of, open_served
from service.errors import SnapshotUnavailable, SnapshotWithdrawn
from service.snapshot.manifest import verify
from service.snapshot.publication import SNAPSHOTS, read_current, read_history
from service.snapshot.snapshot import Connector, Snapshot

POLL_INTERVAL = 0.5
"""Seconds between two looks at the artifacts folder."""
FIRST_RETRY, LAST_RETRY = 1.0, 30.0
"""The first and the longest back-off in seconds, which doubles with each failure."""
FULL = "too many snapshots are being opened; try again in a second"
JOIN_TIMEOUT = 5.0
"""Seconds that `stop` waits for the watcher, which a hung disk could hold up for ever."""

_log = logging.getLogger("uvicorn.error")


class SnapshotManager:
    """Holds the snapshot to serve, and swaps in the one that an artifacts folder publishes.

    A watcher thread polls the folder. It opens the first snapshot; later ones it verifies, opens
    and warms before it replaces the served one, by assigning one reference: requests keep the
    snapshot that they began with, and the last of them unmaps it. A snapshot that cannot be served
    is refused, and tried again when its folder changes or after a back-off. `connector` connects
    it with the engine that has its postings, None where its files have them. `downloads` tells
    whether the downloads in the folder are listed.
    """

    def __init__(
        self, artifacts: Path, connector: Connector | None = None, *, downloads: bool = False
    ) -> None:
        self.refusal: SnapshotUnavailable | None = None
        """Why the published snapshot is not the served one, or why there is none."""
        self.swaps = 0
        self.refusals = 0
        self.changes = ChangesCache()
        self.folder = ArtifactsFolder(artifacts, downloads=downloads)
        """The folder that is watched, as it was last read."""
        self._pinned: OpenCache[str, Snapshot] = OpenCache(1, "open-snapshot", FULL)
        self._connector = connector
        self._served: ServedSnapshot | None = None
        self._verified = False
        self._unreadable = ""
        self._seen: tuple[FileState, ...] = ()
        self._retry_after, self._retry_at = FIRST_RETRY, 0.0
        self._updating = threading.Lock()
        self._starting = threading.Lock()
        self._watcher: threading.Thread | None = None
        self._stopping = threading.Event()

    @property
    def opened(self) -> Snapshot | None:
        """The served snapshot, or None."""
        served = self._served
        return None if served is None else served.snapshot

    def current(self) -> Snapshot:
        """Return the served snapshot; never touches the disk.

        Raises the class of `refusal` without its message, which is for the operator.
        """
        served = self._served
        if served is None:
            raise SnapshotUnavailable if self.refusal is None else type(self.refusal)
        return served.snapshot

    def checked_at(self, snapshot: Snapshot) -> datetime:
        """Return when a build last found a snapshot up to date, as the watcher last read it."""
        current = self.folder.current
        if current is None or current.id != snapshot.id:
            return snapshot.checked_at
        return current.checked_at

    def find(self, snapshot_id: str, served: Snapshot, instead: str = "") -> KeptSnapshot:
        """Return a kept snapshot, or the served one also if it was removed.

        Raises SnapshotNotFound for an unknown id, and SnapshotGone, which names the snapshot to
        download: `instead`, or the served one.
        """
        if snapshot_id == served.id:
            checked_at = self.checked_at(served)
            return KeptSnapshot(served.id, served.manifest, served.folder, checked_at)
        return self.folder.kept.find(snapshot_id, instead or served.id)

    def is_open(self, snapshot_id: str) -> bool:
        """Return whether requests that name a snapshot need not wait until it is opened."""
        opened = self.opened
        is_served = opened is not None and opened.id == snapshot_id
        return is_served or self._pinned.get(snapshot_id) is not None

    async def pin(self, snapshot_id: str, served: Snapshot) -> Snapshot:
        """Return the served snapshot or another kept one, which a thread opens and verifies.

        Raises SnapshotNotFound for an unknown id, SnapshotWithdrawn for one that is no longer
        answered from, SnapshotUnavailable, and what `OpenCache.open` raises.
        """
        if snapshot_id == served.id:
            return served
        kept = self.folder.kept.find_published(snapshot_id, served.manifest)
        return await self._pinned.open(kept.id, partial(self._open_kept, kept, served.id))

    def _open_kept(self, kept: KeptSnapshot, served: str) -> Snapshot:
        try:
            verify(kept.folder)
            return open_served(kept.folder, kept.checked_at, self._connector).snapshot
        except SnapshotUnavailable as error:
            if not kept.folder.exists():
                raise SnapshotWithdrawn(kept.id, served) from error
            _log.error("%s cannot be answered from: %s", kept.id, error)
            message = f"the snapshot {kept.id} cannot be opened; the log of the service says why"
            raise type(error)(message) from error

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
                _log.error("%s is not watched: %s", self.folder.path, error)
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
        with self._updating:
            if self._served is None:
                self._refresh()
                self._attempt(self._open_first)

    def poll(self) -> None:
        """Serve the published snapshot if it is another one, or if it is time for a retry."""
        with self._updating:
            self._refresh()
            self._attempt(self._update)

    def _attempt(self, update: Callable[[], None]) -> None:
        """Run an update; keep the served snapshot, and record the refusal, when it fails."""
        try:
            update()
        except SnapshotUnavailable as error:
            self._refuse(error)
        except Exception as error:  # noqa: BLE001  # such as MemoryError: the watcher must not end
            _log.exception("the published snapshot cannot be opened; trying again")
            self._refuse(SnapshotUnavailable(f"{self.folder.path} cannot be opened: {error!r}"))

    def _refresh(self) -> None:
        try:
            self.folder.refresh()
            kept = {snapshot.id for snapshot in self.folder.kept.snapshots}
            self.changes.close_idle(kept.issuperset)
            self._pinned.close_idle()
            self._unreadable = ""
        except Exception as error:  # noqa: BLE001  # such as MemoryError: the watcher must not end
            if repr(error) != self._unreadable:
                _log.exception("the artifacts folder cannot be read; trying again")
            self._unreadable = repr(error)

    def _update(self) -> None:
        seen, now = self.folder.states, time.monotonic()
        if seen == self._seen and now < self._retry_at:
            return
        self._seen, self._retry_at = seen, now + self._retry_after
        self._retry_after = min(2 * self._retry_after, LAST_RETRY)
        if self._served is None:
            self._open_first()
            self._seen = ()  # the next poll verifies the hashes
        else:
            self._serve_published(self._served)
        if self.refusal is None:
            self._retry_after, self._retry_at = FIRST_RETRY, float("inf")

    def _open_first(self) -> None:
        """Serve the published snapshot, or the newest one before it that is whole.

        The hashes of the published one are left to the next poll: they take time, and nothing is
        served meanwhile.
        """
        current = read_current(self.folder.path)
        try:
            self._serve(self._folder(current.id), current.checked_at)
        except SnapshotUnavailable as error:
            for earlier in reversed(read_history(self.folder.path)[:-1]):
                folder = self._folder(earlier.id)
                try:
                    verify(folder)
                    self._serve(folder, earlier.checked_at)
                except SnapshotUnavailable:
                    continue
                self._refuse(error)
                return
            raise

    def _serve_published(self, served: ServedSnapshot) -> None:
        current = read_current(self.folder.path)
        folder = self._folder(current.id)
        is_served = current.id == served.snapshot.id and files_of(folder) == served.files
        if is_served and self._verified and self.refusal is None:
            return
        verify(folder)
        if not is_served:
            self._serve(folder, current.checked_at)
        self._verified, self.refusal = True, None

    def _serve(self, folder: Path, checked_at: datetime) -> None:
        served = open_served(folder, checked_at, self._connector)
        before, snapshot = self.opened, served.snapshot
        counts, self._served = snapshot.manifest.counts, served
        self._verified, self.refusal = False, None
        if before:
            self.swaps += 1
        _log.info(
            "serving snapshot %s%s: %d services, %d endpoints, %d payments",
            snapshot.id,
            f" instead of {before.id}" if before else "",
            counts.services,
            counts.endpoints,
            counts.payments,
        )

    def _refuse(self, error: SnapshotUnavailable) -> None:
        # A copy, as the traceback of the error would keep what its frames hold.
        before, self.refusal = self.refusal, type(error)(*error.args)
        if str(before) == str(error):
            return
        if self._served is not None:
            self.refusals += 1
            _log.error("still serving %s: %s", self._served.snapshot.id, self.refusal)
        elif before is not None:
            _log.error("still without a snapshot: %s", self.refusal)

    def _folder(self, snapshot_id: str) -> Path:
        return self.folder.path / SNAPSHOTS / snapshot_id


def _watch(reference: weakref.ref[SnapshotManager], stopping: threading.Event) -> None:
    while (manager := reference()) is not None:
        manager.poll()
        del manager
        if stopping.wait(POLL_INTERVAL):
            return
