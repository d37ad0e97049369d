"""The served snapshot, swapped by a watcher thread when another one is published."""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from service.conditions import SERVICE_FACETS, Filters
from service.errors import SnapshotUnavailable
from service.snapshot.following import SnapshotFollower
from service.snapshot.snapshot import Connector, Snapshot, open_folder

POLL_INTERVAL = 0.5
"""Seconds between two looks at CURRENT."""
JOIN_TIMEOUT = 5.0
"""Seconds that `stop` waits for the watcher, which a hung disk could hold up for ever."""

_log = logging.getLogger("uvicorn.error")


class SnapshotManager(SnapshotFollower):
    """Serves the snapshot that CURRENT names, as the watcher finds it.

    A snapshot is warmed, too, before it is served: requests keep the snapshot that they began with,
    and the last of them unmaps it. `connector` connects it with another engine, if there is
    one. `observe` is called after each look at CURRENT.
    """

    def __init__(
        self,
        path: Path,
        connector: Connector | None = None,
        observe: Callable[[SnapshotManager], None] = lambda _: None,
    ) -> None:
        super().__init__(path)
        self._connector = connector
        self._observe = observe
        self._starting = threading.Lock()
        self._watcher: threading.Thread | None = None
        self._stopping = threading.Event()

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
        super().poll()
        with self._updating:
            self._observe(self)

    def _open(self, path: Path, checked_at: datetime) -> Snapshot:
        """Open and warm the snapshot in a folder; raises SnapshotUnavailable."""
        return open_served(path, checked_at, self._connector)


def open_served(folder: Path, checked_at: datetime, connector: Connector | None) -> Snapshot:
    """Open the snapshot in a folder, and run the operations of the first requests."""
    snapshot = open_folder(folder, checked_at, connector)
    hits = snapshot.list(filters=Filters(facets=SERVICE_FACETS))
    for index in (snapshot.filters, snapshot.endpoints.filters):
        for facet in index.facets.values():
            facet.number_of("")  # makes the table of its values
    if connector is None:
        snapshot.search(" ".join(hits.ids))
    return snapshot


def _watch(reference: weakref.ref[SnapshotManager], stopping: threading.Event) -> None:
    while (manager := reference()) is not None:
        manager.poll()
        del manager
        if stopping.wait(POLL_INTERVAL):
            return
