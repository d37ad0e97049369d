"""A snapshot: its files, their manifest, and the operations that are answered from them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from service.errors import (
    REBUILD,
    SnapshotDamaged,
    SnapshotMissing,
    SnapshotUnavailable,
    SnapshotUnsupported,
)
from service.records import Counts
from service.search.facets import Mask
from service.search.filters import NO_FILTERS, Counted, FilterIndex, Filters
from service.search.searcher import open_searcher
from service.snapshot.ecosystem import Ecosystem
from service.storage.ids import IdTable
from service.storage.memory_map import items_of, open_array
from service.storage.record_store import RecordStore

FORMAT = 2
CURRENT = "CURRENT"
MANIFEST = "manifest.json"
SNAPSHOTS = "snapshots"


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


class Hits:
    """One page of services in order, and the count of every match.

    `facets` holds the counted values of the facets that were asked for, or None.
    """

    def __init__(
        self, total: int, ordinals: Sequence[int], lookup: IdTable, facets: Counted | None
    ) -> None:
        self.total = total
        self.ordinals = ordinals
        self.facets = facets
        self._lookup = lookup

    @property
    def ids(self) -> list[str]:
        """The ids of the page."""
        return [self._lookup[ordinal] for ordinal in self.ordinals]


class Snapshot:
    """An open snapshot: immutable, and safe to read from several threads."""

    def __init__(self, folder: Path, manifest: Manifest, checked_at: datetime) -> None:
        self.manifest = manifest
        self.id = manifest.id
        self.name = manifest.id.encode()
        self.checked_at = checked_at
        self.services = RecordStore(folder, "records")
        self.summaries = RecordStore(folder, "summaries")
        self.ecosystem = Ecosystem(folder / "ecosystem")
        self._ids = IdTable(folder)
        self._tags = items_of(open_array(folder / "tags.npy"))
        self._postings = open_searcher(folder / "postings")
        self._narrower = FilterIndex(folder / "narrowing", len(self.services))

    def find(self, service_id: str) -> bytes | None:
        """The stored JSON of a service, or None."""
        ordinal = self.ordinal_of(service_id)
        return None if ordinal is None else self.services.text(ordinal)

    def ordinal_of(self, service_id: str) -> int | None:
        """The place of a service in listing order, or None."""
        return self._ids.find(service_id)

    def tag_of(self, ordinal: int) -> bytes:
        """16 letters that change when the stored JSON of a service does."""
        return b"%016x" % self._tags[ordinal]

    def list(self, limit: int = 24, offset: int = 0, narrowing: Filters = NO_FILTERS) -> Hits:
        """One page of the services that satisfy the conditions, in the order asked for."""
        keep = self._narrower.keep(narrowing)
        return self._page(keep, limit, offset, narrowing)

    def search(
        self, query: str, limit: int = 24, offset: int = 0, narrowing: Filters = NO_FILTERS
    ) -> Hits:
        """One page of the services that match a plain-text query, best first unless asked."""
        keep = self._narrower.keep(narrowing)
        match_all = narrowing.match_all
        if narrowing.sort != "relevance":
            return self._page(
                self._postings.matches(query, keep, match_all), limit, offset, narrowing
            )
        found = self._postings.search(query, limit, offset, keep, match_all)
        facets = None
        if narrowing.counted:
            matches = self._postings.matches(query, keep, match_all)
            facets = self._narrower.count(narrowing.counted, matches)
        return Hits(found.total, found.ordinals.tolist(), self._ids, facets)

    def _page(self, matches: Mask | None, limit: int, offset: int, narrowing: Filters) -> Hits:
        narrower = self._narrower
        total = len(self.services) if matches is None else int(np.count_nonzero(matches))
        facets = narrower.count(narrowing.counted, matches) if narrowing.counted else None
        ordinals = narrower.page(matches, narrowing.sort, limit, offset)
        return Hits(total, ordinals, self._ids, facets)


def open_snapshot(artifacts: str | Path) -> Snapshot:
    """Open the snapshot that `CURRENT` names, having checked its manifest and file sizes.

    Raises SnapshotMissing when nothing was published, SnapshotUnsupported for what another version
    made and SnapshotDamaged when a file is absent, has another size or does not hold what it must.
    """
    artifacts = Path(artifacts)
    snapshot_id, checked_at = read_current(artifacts)
    return open_folder(artifacts / SNAPSHOTS / snapshot_id, checked_at)


def open_folder(folder: Path, checked_at: datetime) -> Snapshot:
    """Open one snapshot as `open_snapshot` does, whether or not it is the published one."""
    try:
        manifest = read_manifest(folder)
        for name, file in manifest.files.items():
            _check_size(folder / name, file.bytes)
    except ValueError as error:  # not UTF-8, or no name of a file
        raise SnapshotDamaged(f"{folder / MANIFEST}: {error}; {REBUILD}") from error
    try:
        return Snapshot(folder, manifest, checked_at)
    except SnapshotUnsupported:
        raise
    except Exception as error:  # there is no end to what damaged bytes can be taken for
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


def list_snapshots(artifacts: Path) -> list[Path]:
    """The folders of all snapshots, the one that was published last first."""
    folders = [path for path in (artifacts / SNAPSHOTS).iterdir() if path.is_dir()]
    return sorted(folders, key=lambda folder: folder.stat().st_mtime_ns, reverse=True)


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
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SnapshotDamaged(f"{path} is not a manifest: {error}; {REBUILD}") from error


def verify(folder: Path, threads: int = 1) -> Manifest:
    """Check every file of a snapshot against its size and hash; raises SnapshotDamaged."""
    manifest = read_manifest(folder)
    if manifest.id != folder.name:
        raise SnapshotDamaged(f"{folder} holds the snapshot {manifest.id}; {REBUILD}")
    try:
        for name, file in manifest.files.items():
            _check_size(folder / name, file.bytes)
        with ThreadPoolExecutor(threads) as pool:
            hashes = pool.map(sha256, [folder / name for name in manifest.files])
            for (name, file), found in zip(manifest.files.items(), hashes, strict=True):
                if found != file.sha256:
                    raise SnapshotDamaged(f"{folder / name} is not what was published; {REBUILD}")
    except (OSError, ValueError) as error:  # the latter for no name of a file
        raise SnapshotDamaged(f"{folder} cannot be read: {error}; {REBUILD}") from error
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
