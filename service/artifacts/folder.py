"""An artifacts folder as it was last read: the published snapshot, kept snapshots, downloads."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from service.artifacts.downloads import DOWNLOADS, POINTER, Downloads, read_downloads
from service.artifacts.file_states import FileState, are_settled, state_of
from service.errors import SnapshotGone, SnapshotNotFound, SnapshotUnavailable, SnapshotWithdrawn
from service.snapshot.manifest import Manifest, read_manifest
from service.snapshot.publication import (
    CURRENT,
    HISTORY,
    SNAPSHOTS,
    Publication,
    read_current,
    read_history,
)


class KeptSnapshot(Struct, frozen=True):
    """A snapshot on disk, and when a build last found it up to date."""

    id: str
    manifest: Manifest
    folder: Path
    checked_at: datetime


class KeptSnapshots(Struct, frozen=True):
    """The kept snapshots of an artifacts folder, at one moment.

    snapshots: of this format; the newest publication first, then withdrawn and unpublished ones,
        the newest build first
    known: ids of all snapshots that are remembered
    published: ids of the publications that were not withdrawn
    """

    snapshots: tuple[KeptSnapshot, ...] = ()
    known: frozenset[str] = frozenset()
    published: frozenset[str] = frozenset()

    def find(self, snapshot_id: str, instead: str) -> KeptSnapshot:
        """Return a kept snapshot; raises SnapshotNotFound for an unknown id.

        Raises SnapshotGone for one that was removed, with the one to start from instead.
        """
        for snapshot in self.snapshots:
            if snapshot.id == snapshot_id:
                return snapshot
        if snapshot_id in self.known:
            raise SnapshotGone(snapshot_id, instead)
        raise SnapshotNotFound(f"there was no snapshot {snapshot_id} here")

    def find_published(self, snapshot_id: str, served: Manifest) -> KeptSnapshot:
        """Return a kept snapshot to answer from; raises SnapshotNotFound for an unknown id.

        Raises SnapshotWithdrawn for one that was removed, that a rollback withdrew, or that lacks a
        denial of the served snapshot: it may have what was taken down.
        """
        try:
            kept = self.find(snapshot_id, served.id)
        except SnapshotGone as error:
            raise SnapshotWithdrawn(snapshot_id, served.id) from error
        if snapshot_id not in self.published or {*served.denials} - {*kept.manifest.denials}:
            raise SnapshotWithdrawn(snapshot_id, served.id)
        return kept


class ArtifactsFolder:
    """Watches an artifacts folder: `refresh` reads it again after a change, all else does not.

    For any thread. `downloads` tells whether they are read, too.
    """

    def __init__(self, path: Path, *, downloads: bool = False) -> None:
        self.path = path
        self.current: Publication | None = None
        """The published snapshot, None where none is named."""
        self.kept = KeptSnapshots()
        self.downloads = Downloads() if downloads else None
        """The downloads of the kept snapshots, None where they are not read."""
        self.states: tuple[FileState, ...] = ()
        """The states of the files that change when anything is published, repaired or removed."""
        self.version = 0
        """A number that grows with each change of `current`, `kept` or `downloads`."""
        self._read: tuple[FileState, ...] = ()
        self._refreshing = threading.Lock()

    def refresh(self) -> None:
        """Read the folder if it may have changed since it was last read."""
        with self._refreshing:
            now, current = time.time_ns(), None
            with suppress(SnapshotUnavailable):
                current = read_current(self.path)
            names = [CURRENT, HISTORY, SNAPSHOTS, POINTER, DOWNLOADS]
            if current is not None:
                names.append(f"{SNAPSHOTS}/{current.id}")
            states = self.states = tuple(state_of(self.path / name) for name in names)
            if states != self._read:
                before, downloads = (self.current, self.kept, self.downloads), self.downloads
                kept = read_kept(self.path)
                if downloads is not None:
                    downloads = read_downloads(self.path)
                self.current, self.kept, self.downloads = current, kept, downloads
                self.version += before != (current, kept, downloads)
                self._read = states if are_settled(states, now) else ()


def read_kept(artifacts: Path) -> KeptSnapshots:
    """List the kept snapshots; a folder without a manifest of this format has none."""
    history = read_history(artifacts)
    checked_at = {publication.id: publication.checked_at for publication in history}
    positions = {publication.id: place for place, publication in enumerate(history)}
    try:
        folders = list((artifacts / SNAPSHOTS).iterdir())
    except OSError:
        folders = []
    snapshots = []
    for folder in folders:
        with suppress(SnapshotUnavailable):
            manifest = read_manifest(folder)
            if manifest.id == folder.name:
                checked = checked_at.get(manifest.id, manifest.built_at)
                snapshots.append(KeptSnapshot(manifest.id, manifest, folder, checked))
    snapshots.sort(
        key=lambda kept: (positions.get(kept.id, -1), kept.manifest.built_at), reverse=True
    )
    earlier = (kept.manifest.earlier for kept in snapshots)
    ids = frozenset(positions).union((kept.id for kept in snapshots), *earlier)
    return KeptSnapshots(tuple(snapshots), ids, frozenset(positions))
