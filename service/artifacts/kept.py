"""The snapshots that an artifacts folder keeps, and the ids of those that it had."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from service.errors import SnapshotGone, SnapshotNotFound, SnapshotUnavailable
from service.snapshot.manifest import MANIFEST, Manifest, read_manifest
from service.snapshot.publication import CURRENT, HISTORY, SNAPSHOTS, read_history

SETTLED_AFTER = 2 * 10**9
"""Nanoseconds after which a further change of a folder has another time on every file system."""

FileState: TypeAlias = tuple[int, int, int]
ABSENT: FileState = (0, 0, 0)
"""The state of a file that cannot be read."""


class KeptSnapshot(Struct, frozen=True):
    """A snapshot on disk, and when a build last found it up to date."""

    id: str
    manifest: Manifest
    folder: Path
    checked_at: datetime


class _Listing(NamedTuple):
    """The kept snapshots, newest first, and the ids of all snapshots that are remembered."""

    snapshots: tuple[KeptSnapshot, ...]
    known: frozenset[str]


class KeptSnapshots:
    """Lists the snapshots of an artifacts folder: `refresh` reads the disk, all else does not.

    One thread may refresh while others read.
    """

    def __init__(self, artifacts: Path) -> None:
        self._artifacts = artifacts
        self._listing = _Listing((), frozenset())
        self._seen: tuple[FileState, ...] = ()
        self._manifests: dict[tuple[str, FileState], Manifest | None] = {}

    @property
    def snapshots(self) -> tuple[KeptSnapshot, ...]:
        """The snapshots on disk that this version reads, the newest publication first.

        Snapshots that were withdrawn, or never published, come last, by the time of their build.
        """
        return self._listing.snapshots

    def find(self, snapshot_id: str, instead: str) -> KeptSnapshot:
        """Return a kept snapshot; raises SnapshotNotFound for an unknown id.

        Raises SnapshotGone for one that was removed, with the one to download instead.
        """
        snapshots, known = self._listing
        for snapshot in snapshots:
            if snapshot.id == snapshot_id:
                return snapshot
        if snapshot_id in known:
            raise SnapshotGone(snapshot_id, instead)
        raise SnapshotNotFound(
            f"there was no snapshot {snapshot_id} here; /v1/snapshots lists those that are kept"
        )

    def refresh(self) -> None:
        """Read the folder if it may have changed since it was last read."""
        now = time.time_ns()
        paths = [self._artifacts / name for name in (CURRENT, HISTORY, SNAPSHOTS)]
        seen = tuple(map(state_of, paths))
        if seen == self._seen:
            return
        self._listing = self._read()
        is_settled = all(now - modified > SETTLED_AFTER for _, _, modified in seen)
        self._seen = seen if is_settled else ()

    def _read(self) -> _Listing:
        history = read_history(self._artifacts)
        checked_at = {publication.id: publication.checked_at for publication in history}
        positions = {publication.id: place for place, publication in enumerate(history)}
        try:
            folders = list((self._artifacts / SNAPSHOTS).iterdir())
        except OSError:
            folders = []
        self._manifests = {
            key: self._manifests[key] if key in self._manifests else _read_whole(folder)
            for folder in folders
            if (key := (folder.name, state_of(folder / MANIFEST)))[1] != ABSENT
        }
        snapshots = [
            KeptSnapshot(
                manifest.id,
                manifest,
                self._artifacts / SNAPSHOTS / manifest.id,
                checked_at.get(manifest.id, manifest.built_at),
            )
            for manifest in self._manifests.values()
            if manifest is not None
        ]
        snapshots.sort(
            key=lambda kept: (positions.get(kept.id, -1), kept.manifest.built_at), reverse=True
        )
        known = {*positions, *(kept.id for kept in snapshots)}
        return _Listing(
            tuple(snapshots), frozenset(known.union(*(kept.manifest.earlier for kept in snapshots)))
        )


def state_of(path: Path) -> FileState:
    """Return the inode, the size and the time of a file, which change when it is replaced."""
    try:
        state = path.stat()
    except OSError:
        return ABSENT
    return state.st_ino, state.st_size, state.st_mtime_ns


def _read_whole(folder: Path) -> Manifest | None:
    """Return the manifest of a snapshot folder, None if there is none of this format."""
    try:
        manifest = read_manifest(folder)
    except SnapshotUnavailable:
        return None
    return manifest if manifest.id == folder.name else None
