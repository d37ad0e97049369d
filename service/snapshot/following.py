"""The published snapshot of an artifacts folder, which changes when another one is published."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from service.errors import SnapshotUnavailable
from service.snapshot.publication import SNAPSHOTS, Publication, read_current, read_others
from service.snapshot.snapshot import Snapshot, open_folder

RETRY_AFTER = 5.0
"""Seconds until a snapshot that was refused is tried again."""

_log = logging.getLogger("uvicorn.error")


class SnapshotFollower:
    """Follows the snapshot that CURRENT names; safe to use from several threads.

    A snapshot is verified and opened before one assignment replaces the last one, whose files are
    closed as soon as nothing uses it. A snapshot that cannot be opened is refused, and tried again
    when CURRENT or its folder is replaced, or after RETRY_AFTER.
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
        self._served: tuple[str, int] | None = None
        self._tried: tuple[Publication, int] | None = None
        self._retry_at = 0.0
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
            raise SnapshotUnavailable if refusal is None else type(refusal)(*refusal.args)
        return opened

    def poll(self) -> None:
        """Serve the published snapshot if it is another one, or if it is time for a retry."""
        with self._updating:
            try:
                current = self._current = read_current(self.path)
            except SnapshotUnavailable as error:
                self._refuse(error)
                return
            state = current, _inode(self.path / SNAPSHOTS / current.id)
            if self._served == (current.id, state[1]):
                self.refusal = None
            elif state != self._tried or time.monotonic() >= self._retry_at:
                refusal = self._serve(current.id, current.checked_at)
                if refusal is not None and self.opened is None:
                    # The newest whole snapshot that was built before the published one.
                    earlier, _ = read_others(self.path)
                    any(self._serve(each.id, each.built_at) is None for each in earlier)
                self._refuse(refusal)
                self._tried, self._retry_at = state, time.monotonic() + RETRY_AFTER

    def _serve(self, snapshot_id: str, checked_at: datetime) -> SnapshotUnavailable | None:
        """Verify, open and serve a snapshot; returns why it cannot be served."""
        path = self.path / SNAPSHOTS / snapshot_id
        folder = _inode(path)
        try:
            snapshot = self._open(path, checked_at)
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

    def _open(self, path: Path, checked_at: datetime) -> Snapshot:
        """Open the snapshot in a folder; raises SnapshotUnavailable."""
        return open_folder(path, checked_at)

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


def follow_snapshot(artifacts: str | Path) -> SnapshotFollower:
    """Open the snapshot that CURRENT names, as `open_snapshot` does, and follow it from then on."""
    follower = SnapshotFollower(Path(artifacts))
    follower.latest()
    return follower


def _inode(folder: Path) -> int:
    """Return the inode of a folder, which a build replaces where it is damaged; 0 without one."""
    with suppress(OSError):
        return folder.stat().st_ino
    return 0
