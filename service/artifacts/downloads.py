"""The downloads of snapshots: archives of each, and patches from the snapshot before.

    artifacts/downloads/<id>/<id>.tar.zst     the files that the service reads, as zstd frames
    artifacts/downloads/<id>/<id>.jsonl.zst   one service a line, in order of id
    artifacts/downloads/<id>/patches.zst      what makes files from those of the snapshot before
    artifacts/downloads/<id>/manifest.json    the manifest of the copy that the archive holds
    artifacts/downloads/<id>/index.json       where each frame is, and what it makes

The index is written last: a folder that has it is complete.
"""

from __future__ import annotations

import hashlib
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import astuple

from service.errors import SnapshotDamaged, SnapshotUnavailable
from service.snapshot.manifest import (
    MANIFEST,
    File,
    Manifest,
    check_files,
    copy_manifest,
    read_manifest,
)

DOWNLOADS = "downloads"
INDEX = "index.json"
POINTER = "pointer.json"
PATCHES = "patches.zst"
SETTLED_AFTER = 2 * 10**9
"""Nanoseconds after which a further change of a folder has another time on every file system."""


class Frame(Struct, frozen=True):
    """A range of bytes in an archive, and their SHA-256."""

    offset: int
    bytes: int
    sha256: str


class Section(Struct, frozen=True):
    """A section of a file, named by the hash of its content, and its zstd frame in the archive."""

    content: File
    frame: Frame


Count = Annotated[int, Meta(ge=0)]
Width = Literal[0, 2, 4, 8]


class Piece(Struct, frozen=True, array_like=True):
    """A piece of a file, made from bytes of the earlier file, which are copied if no frame is.

    start, stop: the range of the earlier file
    size: bytes of the piece
    offset, bytes: the range of the frame in the file of patches
    width: bytes of the integers whose differences the frame has, 0 if it has the content itself
    """

    start: Count
    stop: Count
    size: Count
    offset: Count
    bytes: Count
    width: Width


class SectionIndex(Struct):
    """The sections of the files of a copy, in the order of each file."""

    sections: dict[str, list[File]]


class PatchIndex(Struct, rename={"base": "from", "target": "to"}):
    """The pieces that make the changed files of a snapshot from those of another."""

    base: str
    target: str
    patches: dict[str, list[Piece]]


class Download(Struct, frozen=True):
    """The index of the downloads of a snapshot: a folder that has it is complete.

    manifest: SHA-256 of the manifest of the copy, which is the first file of the archive
    archives: the two archives by name
    sections: the sections of each file of the copy, by path; the manifest is among the files
    base: id of the snapshot that the patches start from, empty without patches
    patches: the pieces of each file that changed, by path
    patch_file: the file of the frames of all pieces
    jsonl_bytes: bytes of the services as lines, not compressed
    """

    id: str
    manifest: str
    archives: dict[str, File]
    sections: dict[str, list[Section]]
    base: str
    patches: dict[str, list[Piece]]
    patch_file: File
    services: int
    jsonl_bytes: int

    @property
    def section_index(self) -> SectionIndex:
        """The sections of the files that the manifest of the copy names."""
        return SectionIndex(
            {
                path: [section.content for section in sections]
                for path, sections in self.sections.items()
                if path != MANIFEST
            }
        )

    @property
    def patch_index(self) -> PatchIndex:
        """The pieces of the files that changed."""
        return PatchIndex(self.base, self.id, self.patches)


_download = msgspec.json.Decoder(Download)


def archive_name(snapshot_id: str) -> str:
    """Return the name of the archive of all files of a snapshot."""
    return f"{snapshot_id}.tar.zst"


def lines_name(snapshot_id: str) -> str:
    """Return the name of the file of all services as lines."""
    return f"{snapshot_id}.jsonl.zst"


def read_download(folder: Path) -> Download:
    """Read the index of a folder of downloads; raises SnapshotDamaged."""
    path = folder / INDEX
    try:
        return _download.decode(path.read_bytes())
    except OSError as error:
        raise SnapshotDamaged(f"{path} cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SnapshotDamaged(f"{path} is no index of downloads: {error}") from error


def verify_downloads(folder: Path, manifest: Manifest, threads: int = 1) -> Download:
    """Check the downloads of a snapshot against their hashes; raises SnapshotDamaged."""
    download = read_download(folder)
    content = copy_manifest(manifest)
    copied = File(len(content), hashlib.sha256(content).hexdigest())
    if (download.id, download.manifest) != (manifest.id, copied.sha256):
        raise SnapshotDamaged(f"{folder} has the downloads of another snapshot")
    files = {MANIFEST: copied, PATCHES: download.patch_file, **download.archives}
    check_files(folder, files, threads)
    return download


class Part(NamedTuple):
    """A range of bytes of a file, and their SHA-256."""

    path: Path
    offset: int
    bytes: int
    sha256: str


class _Listing(NamedTuple):
    """The downloads of the kept snapshots by id, and parts of their files by what they hold."""

    downloads: dict[str, Download]
    manifests: dict[str, tuple[Download, Part]]
    sections: dict[str, Part]


class Downloads:
    """The downloads in an artifacts folder, found by their names. Each call reads the disk."""

    def __init__(self, artifacts: Path) -> None:
        self.pointer = artifacts / POINTER
        """The file that names the last publication, for replicas."""
        self._folder = artifacts / DOWNLOADS
        self._listing = _Listing({}, {}, {})
        self._seen = (0, 0)
        self._refreshing = threading.Lock()

    def download(self, snapshot_id: str) -> Download | None:
        """Return the index of the downloads of a snapshot."""
        return self._refresh().downloads.get(snapshot_id)

    def archive(self, snapshot_id: str, name: str) -> Part | None:
        """Return an archive by its name."""
        download = self.download(snapshot_id)
        if download is None or name not in download.archives:
            return None
        file = download.archives[name]
        return Part(self._folder / snapshot_id / name, 0, file.bytes, file.sha256)

    def manifest(self, digest: str) -> tuple[Download, Part] | None:
        """Return the manifest of a copy by its SHA-256, and the index of its downloads."""
        return self._refresh().manifests.get(digest)

    def section(self, digest: str) -> Part | None:
        """Return the zstd frame of a section by the SHA-256 of its content."""
        return self._refresh().sections.get(digest)

    def patches(self, base: str, snapshot_id: str) -> tuple[Download, Part] | None:
        """Return the patches between two snapshots, and their index."""
        download = self.download(snapshot_id)
        if download is None or not base or download.base != base:
            return None
        path, file = self._folder / snapshot_id / PATCHES, download.patch_file
        return download, Part(path, 0, file.bytes, file.sha256)

    def _refresh(self) -> _Listing:
        with self._refreshing:
            try:
                state = self._folder.stat()
                seen = state.st_ino, state.st_mtime_ns
                if seen != self._seen:
                    self._listing = self._read()
                    is_settled = time.time_ns() - state.st_mtime_ns > SETTLED_AFTER
                    self._seen = seen if is_settled else (0, 0)
            except FileNotFoundError:
                self._listing, self._seen = _Listing({}, {}, {}), (0, 0)
            return self._listing

    def _read(self) -> _Listing:
        listing = _Listing({}, {}, {})
        for folder in self._folder.iterdir():
            with suppress(SnapshotUnavailable, OSError):  # it is being pruned, or it is damaged
                download, manifest = read_download(folder), read_manifest(folder)
                paths = manifest.files.keys()
                if download.id != folder.name or not paths <= download.sections.keys():
                    continue
                archive = folder / archive_name(download.id)
                listing.downloads[download.id] = download
                size = (folder / MANIFEST).stat().st_size
                part = Part(folder / MANIFEST, 0, size, download.manifest)
                listing.manifests[download.manifest] = download, part
                for path in paths:
                    for content, frame in map(astuple, download.sections[path]):
                        part = Part(archive, frame.offset, frame.bytes, frame.sha256)
                        listing.sections[content.sha256] = part
        return listing
