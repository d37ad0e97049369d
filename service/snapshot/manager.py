"""The published snapshot: opened on first use, and replaced when another one is published."""

from __future__ import annotations

import logging
import threading
import weakref
from datetime import datetime
from pathlib import Path

from service.errors import SnapshotDamaged, SnapshotUnavailable
from service.search.facets import FACETS
from service.search.filters import Filters
from service.snapshot.snapshot import (
    CURRENT,
    SNAPSHOTS,
    Snapshot,
    list_snapshots,
    open_folder,
    read_current,
    verify,
)

LOOK_EVERY = 0.5
"""Seconds between two looks at what is published."""

Signature = tuple[tuple[int, int, int], ...]

_log = logging.getLogger("uvicorn.error")


class SnapshotManager:
    """What an artifacts folder publishes, as one application serves it.

    A thread looks at it twice a second. A snapshot that was published since is verified, opened and
    warmed there, and then served by replacing one reference: requests that began before keep the
    one that they began with, and the last of them unmaps it. One that does not verify is refused:
    `refusal` says why until it is repaired or replaced.
    """

    def __init__(self, artifacts: Path) -> None:
        self._artifacts = artifacts
        self.opened: Snapshot | None = None
        self._folder = 0  # the inode of what is served: once repaired, a snapshot has the same id
        self._verified = False
        self._seen: Signature = ()
        self._opening = threading.Lock()
        self._closed = threading.Event()
        self._follower: threading.Thread | None = None
        self.refusal: SnapshotUnavailable | None = None
        self.swaps = self.refusals = 0
        self._checked_at: dict[str, datetime] = {}
        self._error: SnapshotUnavailable = SnapshotUnavailable("opening")

    def current(self) -> Snapshot:
        if self.opened is None:
            raise self._error
        return self.opened

    def open(self) -> None:
        with self._opening:
            if self.opened is None:
                try:
                    self._open_first()
                except SnapshotUnavailable as error:
                    self._error = error

    def checked_at(self, snapshot: Snapshot) -> datetime:
        try:
            published, checked_at = read_current(self._artifacts)
        except SnapshotUnavailable:
            return snapshot.checked_at
        return checked_at if published == snapshot.id else snapshot.checked_at

    def start(self) -> None:
        if self._follower is None:
            self._closed = threading.Event()
            self._follower = threading.Thread(
                target=_follow, args=(weakref.ref(self), self._closed), daemon=True
            )
            self._follower.start()

    def stop(self) -> None:
        self._closed.set()
        self._follower = None

    def look(self) -> None:
        if self.opened is None:
            self.open()
            return
        if (seen := self._look_at_files()) == self._seen:
            return
        self._seen = seen
        try:
            self._serve_published(self.opened)
        except SnapshotUnavailable as error:
            self._refuse(error)

    def _open_first(self) -> Snapshot:
        snapshot_id, checked_at = read_current(self._artifacts)
        folder = self._artifacts / SNAPSHOTS / snapshot_id
        try:
            return self._serve(folder, open_folder(folder, checked_at))
        except SnapshotUnavailable as error:
            for earlier in list_snapshots(self._artifacts):
                if not earlier.stat().st_mtime:  # it was withdrawn, or never published
                    continue
                try:
                    manifest = verify(earlier)
                    serving = self._serve(earlier, open_folder(earlier, manifest.built_at))
                except SnapshotUnavailable:
                    continue
                self._refuse(error)
                return serving
            raise

    def _serve_published(self, served: Snapshot) -> None:
        snapshot_id, checked_at = read_current(self._artifacts)
        folder = self._artifacts / SNAPSHOTS / snapshot_id
        is_served = snapshot_id == served.id and _inode(folder) == self._folder
        if is_served and self._verified and self.refusal is None:
            return
        verify(folder)
        if not is_served or self.refusal is not None:
            snapshot = open_folder(folder, checked_at)
            _warm(snapshot)
            self._serve(folder, snapshot)
        self._verified = True

    def _serve(self, folder: Path, snapshot: Snapshot) -> Snapshot:
        before = self.opened
        self.refusal = None
        self.opened, self._folder, self._verified = snapshot, _inode(folder), False
        counts = snapshot.manifest.counts
        _log.info(
            "serving snapshot %s%s: %d services, %d endpoints, %d payments",
            snapshot.id,
            f" instead of {before.id}" if before else "",
            counts.services,
            counts.endpoints,
            counts.payments,
        )
        if before:
            self.swaps += 1
        return snapshot

    def _refuse(self, error: SnapshotUnavailable) -> None:
        before, self.refusal = self.refusal, error
        if str(before) == str(error):
            return
        self.refusals += 1
        served = self.opened.id if self.opened else "nothing"
        _log.error("still serving %s: %s", served, error)

    def _look_at_files(self) -> Signature:
        """What changes when something is published or, while that is refused, repaired."""
        paths = [self._artifacts / CURRENT]
        if self.refusal is not None:
            paths += sorted((self._artifacts / SNAPSHOTS).rglob("*"))
        return tuple(_state_of(path) for path in paths)


def _follow(reference: weakref.ref[SnapshotManager], closed: threading.Event) -> None:
    while not closed.wait(LOOK_EVERY):
        published = reference()
        if published is None:
            return
        try:
            published.look()
        except Exception:  # noqa: BLE001  # what is served stays, whatever a disk comes up with
            _log.exception("looking at what is published failed; trying again")
        del published


def _warm(snapshot: Snapshot) -> None:
    """Ask once what the first requests will ask; better it fails here."""
    try:
        hits = snapshot.list(narrowing=Filters(counted=tuple(FACETS)))
        for name in hits.ids:
            snapshot.find(name)
        snapshot.search(" ".join(hits.ids))
        snapshot.summaries.run(hits.ordinals)
        snapshot.ecosystem.overview(1)
        snapshot.ecosystem.stats(1)
        snapshot.ecosystem.transactions(0, 1)
    except Exception as error:  # there is no end to what damaged bytes can be taken for
        raise SnapshotDamaged(f"the snapshot {snapshot.id} cannot be searched: {error}") from error


def _state_of(path: Path) -> tuple[int, int, int]:
    try:
        state = path.stat()
    except OSError:
        return (0, 0, 0)
    return state.st_ino, state.st_size, state.st_mtime_ns


def _inode(folder: Path) -> int:
    return _state_of(folder)[0]
