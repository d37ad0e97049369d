"""A snapshot: its files, their manifest, and the operations that are answered from them."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from service.ecosystem import Ecosystem
from service.errors import (
    SnapshotDamaged,
    SnapshotMissing,
    SnapshotUnavailable,
    SnapshotUnsupported,
)
from service.ranking import Ranking
from service.records import Counts
from service.store import IdLookup, Store

FORMAT = 1
CURRENT = "CURRENT"
MANIFEST = "manifest.json"
SNAPSHOTS = "snapshots"
REBUILD = "rebuild it with `make index` or `python -m indexer build SOURCE`"


class File(Struct):
    """What a file of a snapshot must be."""

    bytes: int
    sha256: str


class Source(Struct):
    """What came from one source."""

    name: str
    records: int
    rejected: int


class Manifest(Struct):
    """What a snapshot holds; written last, so that a snapshot with one is whole."""

    format: int
    id: str
    built_at: datetime
    counts: Counts
    sources: list[Source]
    files: dict[str, File]


class _Format(Struct):
    """The part of a manifest that every format has."""

    format: int


_format = msgspec.json.Decoder(_Format)
_manifest = msgspec.json.Decoder(Manifest)


class Hits(Struct, frozen=True):
    """One page of search results: the ids in rank order, and the count of every match."""

    total: int
    ids: list[str]
    ordinals: list[int]


class Snapshot:
    """An open snapshot: immutable, and safe to read from several threads."""

    def __init__(self, folder: Path, manifest: Manifest, checked_at: datetime) -> None:
        self.manifest = manifest
        self.id = manifest.id
        self.checked_at = checked_at
        self.services = Store(folder, "records")
        self.ecosystem = Ecosystem(folder / "ecosystem")
        self._ids = IdLookup(folder)
        self._ranking = Ranking(folder / "whoosh")

    def find(self, service_id: str) -> bytes | None:
        """The stored JSON of a service, or None."""
        ordinal = self._ids.ordinal(service_id)
        return None if ordinal is None else self.services.text(ordinal)

    def search(self, query: str, limit: int = 24, offset: int = 0) -> Hits:
        """Rank the services that match a plain-text query."""
        total, ordinals = self._ranking.search(query, limit, offset)
        return Hits(total, [self._ids.id(ordinal) for ordinal in ordinals], ordinals)


def open_snapshot(artifacts: str | Path) -> Snapshot:
    """Open the snapshot that `CURRENT` names, having checked its manifest and file sizes.

    Raises SnapshotMissing when nothing was published, SnapshotUnsupported for another format and
    SnapshotDamaged when a file is absent or has another size.
    """
    artifacts = Path(artifacts)
    snapshot_id, checked_at = read_current(artifacts)
    folder = artifacts / SNAPSHOTS / snapshot_id
    manifest = read_manifest(folder)
    for name, file in manifest.files.items():
        _check_size(folder / name, file.bytes)
    try:
        return Snapshot(folder, manifest, checked_at)
    except OSError as error:
        raise SnapshotDamaged(f"{folder}: {error}; {REBUILD}") from error


def read_current(artifacts: Path) -> tuple[str, datetime]:
    """The id of the published snapshot, and when the catalogue was last checked."""
    current = artifacts / CURRENT
    try:
        snapshot_id = current.read_text("ascii").strip()
        checked_at = datetime.fromtimestamp(current.stat().st_mtime, UTC)
    except FileNotFoundError as error:
        raise SnapshotMissing(
            f"{artifacts} holds no snapshot; run `make index` or "
            f"`python -m indexer build SOURCE --out {artifacts}`"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise SnapshotUnavailable(f"{current} cannot be read: {error}") from error
    if not snapshot_id.isalnum():
        raise SnapshotDamaged(f"{current} names no snapshot; {REBUILD}")
    return snapshot_id, checked_at


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a snapshot folder; the format is checked before anything else is read."""
    path = folder / MANIFEST
    try:
        text = path.read_bytes()
        found = _format.decode(text).format
        if found != FORMAT:
            raise SnapshotUnsupported(
                f"{path} has format {found}, this version reads format {FORMAT}; {REBUILD}"
            )
        return _manifest.decode(text)
    except OSError as error:
        raise SnapshotDamaged(f"{path} cannot be read: {error.strerror}; {REBUILD}") from error
    except msgspec.MsgspecError as error:
        raise SnapshotDamaged(f"{path} is not a manifest: {error}; {REBUILD}") from error


def verify(folder: Path) -> Manifest:
    """Check every file of a snapshot against its size and hash; raises SnapshotDamaged."""
    manifest = read_manifest(folder)
    if manifest.id != folder.name:
        raise SnapshotDamaged(f"{folder} holds the snapshot {manifest.id}; {REBUILD}")
    for name, file in manifest.files.items():
        _check_size(folder / name, file.bytes)
        if sha256(folder / name) != file.sha256:
            raise SnapshotDamaged(f"{folder / name} is not what was published; {REBUILD}")
    return manifest


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_size(path: Path, size: int) -> None:
    try:
        found = path.stat().st_size
    except OSError as error:
        raise SnapshotDamaged(f"{path} cannot be read: {error.strerror}; {REBUILD}") from error
    if found != size:
        raise SnapshotDamaged(f"{path} has {found} bytes, not {size}; {REBUILD}")
