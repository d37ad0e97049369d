"""The published snapshot of an artifacts folder, which changes when another one is published."""

from __future__ import annotations

import logging
import threading
import time
from datetime import datetime
from pathlib import Path

from service.errors import SnapshotUnavailable
from service.snapshot.publication import SNAPSHOTS, Publication, read_current, read_others
from service.snapshot.snapshot import Snapshot, open_folder

FIRST_RETRY, LAST_RETRY = 1.0, 30.0
"""The first and the longest back-off in seconds, which doubles with each failure."""

_log = logging.getLogger("uvicorn.error")


class SnapshotFollower:
    """Follows the snapshot that CURRENT names; safe to use from several threads.

    A snapshot is verified and opened before one assignment replaces the last one, whose files are
    closed as soon as nothing uses it. A snapshot that cannot be opened is refused, and tried again
    when CURRENT or its folder is replaced, or after a back-off.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.opened: Snapshot | None = None
        """The snapshot that was opened last."""
        self.refusal: SnapshotUnavailable | None = None
        """Why the published snapshot is not the opened one, or why there is none."""
        self.swaps = 0
        self.refusals = 0
        self._current: Publication | None = None
        self._served_folder = 0
        self._tried: tuple[Publication, int] | None = None
        self._retry_after, self._retry_at = FIRST_RETRY, 0.0
        self._updating = threading.Lock()

    def latest(self) -> Snapshot:
        """Return the published snapshot, opened if it is another one than before.

        While another thread opens it, and where it cannot be opened, this is the one before.
        Raises SnapshotUnavailable where there is none.
        """
        if self.opened is None or not self._updating.locked():
            self.poll()
        opened, refusal = self.opened, self.refusal  # another thread may change both
        if opened is None:
            raise SnapshotUnavailable if refusal is None else _copy(refusal)
        return opened

    def poll(self) -> None:
        """Serve the published snapshot if it is another one, or if it is time for a retry."""
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
            snapshot = self._open(path, checked_at)
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

    def _open(self, path: Path, checked_at: datetime) -> Snapshot:
        """Open the snapshot in a folder; raises SnapshotUnavailable."""
        return open_folder(path, checked_at)

    def _refuse(self, error: SnapshotUnavailable) -> None:
        before, self.refusal = self.refusal, _copy(error)
        if str(before) == str(error):
            return
        if self.opened is not None:
            self.refusals += 1
            _log.error("still serving %s: %s", self.opened.id, self.refusal)
        elif before is not None:
            _log.error("still without a snapshot: %s", self.refusal)


def follow_snapshot(artifacts: str | Path) -> SnapshotFollower:
    """Open the snapshot that CURRENT names, as `open_snapshot` does, and follow it from then on."""
    follower = SnapshotFollower(Path(artifacts))
    follower.latest()
    return follower


def _copy(error: SnapshotUnavailable) -> SnapshotUnavailable:
    """Return an error without a traceback, which would keep what its frames hold."""
    return type(error)(*error.args)


def _inode(folder: Path) -> int:
    """Return the inode of a folder, which a build replaces where it is damaged; 0 without one."""
    try:
        return folder.stat().st_ino
    except OSError:
        return 0
