"""The downloads of snapshots: archives of each, and patches from the snapshot before.

    artifacts/downloads/<id>/<id>.tar.zst     the files that the service reads, as zstd frames
    artifacts/downloads/<id>/<id>.jsonl.zst   one service a line, in order of id
    artifacts/downloads/<id>/patches.zst      what makes files from those of the snapshot before
    artifacts/downloads/<id>/manifest.json    the manifest of the copy that the archive holds
    artifacts/downloads/<id>/index.json       where each frame is, and what it makes
    artifacts/downloads/<id>/pointer.json     the last pointer to this snapshot

The index is written after the files before it: a folder that has it is complete. The pointer
follows when the snapshot is published, and may be signed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from service.artifacts.file_states import state_of
from service.artifacts.pointer import ReadPointer, read_publication
from service.errors import SnapshotDamaged, SnapshotUnavailable
from service.schema.values import Whole
from service.snapshot.manifest import (
    MANIFEST,
    File,
    Manifest,
    check_files,
    copy_manifest,
    read_manifest,
)
from service.snapshot.publication import read_history

DOWNLOADS = "downloads"
INDEX = "index.json"
POINTER = "pointer.json"
PATCHES = "patches.zst"


class Frame(Struct, frozen=True):
    """A range of bytes in an archive, and their SHA-256."""

    offset: int
    bytes: int
    sha256: str


class ArchiveSection(Struct, frozen=True):
    """A section of a file, named by the hash of its content, and its zstd frame in the archive."""

    content: File
    frame: Frame


Width = Literal[0, 2, 4, 8]


class PatchPiece(Struct, frozen=True, array_like=True):
    """A piece of a file: a copied range of the earlier file, or a frame with that as its prefix.

    start, stop: the range of the earlier file
    size: bytes of the piece
    offset, bytes: the range of the frame in the file of patches, empty where the piece is copied
    width: bytes of the integers whose differences the frame has, 0 if it has the content itself
    """

    start: Whole
    stop: Whole
    size: Whole
    offset: Whole
    bytes: Whole
    width: Width


class SectionIndex(Struct):
    """The sections of the files of a copy, in the order of each file."""

    sections: dict[str, list[File]]


class PatchIndex(Struct, rename={"base": "from", "target": "to"}):
    """The pieces that make the changed files of a snapshot from those of another.

    file: the file of their frames
    """

    base: str
    target: str
    file: File
    patches: dict[str, list[PatchPiece]]


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
    sections: dict[str, list[ArchiveSection]]
    base: str
    patches: dict[str, list[PatchPiece]]
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
        return PatchIndex(self.base, self.id, self.patch_file, self.patches)


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
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
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


class DownloadRange(NamedTuple):
    """A range of bytes of a file of a snapshot's downloads, and their SHA-256."""

    snapshot_id: str
    path: Path
    offset: int
    bytes: int
    sha256: str


class _Complete(NamedTuple):
    """The downloads of a snapshot, and where its manifest and its sections stand in them."""

    download: Download
    manifest: DownloadRange
    sections: Mapping[str, DownloadRange]


class Downloads(Struct, frozen=True):
    """The downloads of an artifacts folder at one moment.

    complete: by the id of their snapshot
    publications: the pointers to snapshots that were not withdrawn, the newest first
    """

    complete: Mapping[str, _Complete] = {}
    publications: tuple[ReadPointer, ...] = ()

    def download(self, snapshot_id: str) -> Download | None:
        """Return the index of the downloads of a snapshot."""
        found = self.complete.get(snapshot_id)
        return None if found is None else found.download

    def archive(self, snapshot_id: str, name: str) -> DownloadRange | None:
        """Return an archive by its name."""
        found = self.complete.get(snapshot_id)
        file = None if found is None else found.download.archives.get(name)
        return None if found is None or file is None else _range_of(found, name, file)

    def manifest(self, digest: str) -> tuple[Download, DownloadRange] | None:
        """Return the manifest of a copy by its SHA-256, and the index of its downloads."""
        for found in self.complete.values():
            if found.download.manifest == digest:
                return found.download, found.manifest
        return None

    def section(self, digest: str) -> DownloadRange | None:
        """Return the zstd frame of a section by the SHA-256 of its content."""
        for found in self.complete.values():
            if (range_ := found.sections.get(digest)) is not None:
                return range_
        return None

    def patches(self, base: str, snapshot_id: str) -> tuple[Download, DownloadRange] | None:
        """Return the patches between two snapshots, and their index."""
        found = self.complete.get(snapshot_id)
        if found is None or not base or found.download.base != base:
            return None
        return found.download, _range_of(found, PATCHES, found.download.patch_file)

    def newest_publication(self) -> ReadPointer | None:
        """Return the newest pointer to a snapshot whose downloads are whole on disk.

        An unsigned one is returned only where none is signed, as replicas may trust no other.
        """
        is_signed = any(each.is_signed for each in self.publications)
        for publication in self.publications:
            found = self.complete.get(publication.pointer.id)
            if publication.is_signed == is_signed and found is not None:
                is_described = found.download.manifest == publication.pointer.manifest
                if is_described and _is_whole(found):
                    return publication
        return None


def read_downloads(artifacts: Path) -> Downloads:
    """List the complete downloads."""
    complete, published = {}, [artifacts / POINTER]
    published += [artifacts / DOWNLOADS / each.id / POINTER for each in read_history(artifacts)]
    with suppress(OSError):  # there are no downloads
        for folder in (artifacts / DOWNLOADS).iterdir():
            with suppress(SnapshotUnavailable, OSError):  # it is being pruned, or it is damaged
                complete[folder.name] = _read_complete(folder)
    publications = [each for path in published if (each := read_publication(path)) is not None]
    publications.sort(key=lambda each: each.pointer.serial, reverse=True)
    return Downloads(complete, tuple(publications))


def _read_complete(folder: Path) -> _Complete:
    """Read the downloads in a folder; raises SnapshotUnavailable or OSError."""
    download, manifest = read_download(folder), read_manifest(folder)
    paths = manifest.files.keys()
    if download.id != folder.name or not paths <= download.sections.keys():
        raise SnapshotDamaged(f"{folder} has not the downloads of its snapshot")
    archive = folder / archive_name(download.id)
    sections = {
        content.sha256: DownloadRange(download.id, archive, *astuple(frame))
        for path in paths
        for content, frame in map(astuple, download.sections[path])
    }
    path = folder / MANIFEST
    described = DownloadRange(download.id, path, 0, path.stat().st_size, download.manifest)
    return _Complete(download, described, sections)


def _is_whole(found: _Complete) -> bool:
    """Return whether the files of the downloads have their sizes."""
    files = {PATCHES: found.download.patch_file, **found.download.archives}
    ranges = [found.manifest, *(_range_of(found, name, file) for name, file in files.items())]
    return all(state_of(each.path)[1] == each.bytes for each in ranges)


def _range_of(found: _Complete, name: str, file: File) -> DownloadRange:
    path = found.manifest.path.with_name(name)
    return DownloadRange(found.download.id, path, 0, file.bytes, file.sha256)
