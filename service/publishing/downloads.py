"""Making the downloads of a snapshot, before it is published.

The archive is a tar file of zstd frames: the content of each file is a frame of its own, and what
stands between is others. So a file of the snapshot is a range of bytes of the archive, and a frame
of the archive before is copied where its file did not change. The same snapshot gives the same
bytes with one release of zstd.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from service.artifacts.downloads import (
    DOWNLOADS,
    INDEX,
    PATCHES,
    Download,
    Frame,
    archive_name,
    lines_name,
    read_download,
    verify_downloads,
)
from service.errors import SnapshotUnavailable
from service.publishing.artifacts import STAGING
from service.publishing.durable import sync, write_durably
from service.publishing.frames import CHUNK, ArchiveWriter, Buffer
from service.publishing.patches import make_patch
from service.publishing.renumbering import Renumbering
from service.snapshot.manifest import MANIFEST, File, Manifest, copy_manifest, read_manifest
from service.snapshot.publication import SNAPSHOTS, read_current
from service.storage.container import open_arrays
from service.storage.layouts import RECORDS
from service.storage.record_store import IdTable

TAR_BLOCK = 512
TAR_END = bytes(2 * TAR_BLOCK)
PATCH_SHARE = 0.9
"""Share of the frame of a file that its patch may have; a larger one is left out."""
REPLACED = "replaced-downloads"


def make_downloads(
    artifacts: Path, folder: Path, manifest: Manifest, threads: int, base: str = ""
) -> Download:
    """Make the downloads of the snapshot in a folder, unless they are there and whole.

    Called in `stage`. Patches start from the snapshot `base`, or else from the served one. Raises
    OSError; what was there stays.
    """
    existing = artifacts / DOWNLOADS / manifest.id
    with suppress(SnapshotUnavailable):
        return verify_downloads(existing, manifest, threads)
    staged = artifacts / STAGING / DOWNLOADS
    with suppress(FileNotFoundError):
        shutil.rmtree(staged)
    staged.mkdir()
    download = _write(staged, folder, manifest, _find_earlier(artifacts, manifest, base), threads)
    for path in staged.iterdir():
        sync(path)
    write_durably(staged / INDEX, msgspec.json.format(msgspec.json.encode(download), indent=2))
    sync(staged)
    existing.parent.mkdir(exist_ok=True)
    if existing.exists():
        existing.rename(artifacts / STAGING / REPLACED)
    staged.rename(existing)
    sync(existing.parent)
    sync(artifacts)
    return download


class _Earlier(NamedTuple):
    """The served snapshot: its folder and files, and the frames of its archive by path."""

    folder: Path
    files: Mapping[str, File]
    archive: Path
    frames: Mapping[str, Frame]

    def has(self, path: str, file: File) -> bool:
        """Return whether a file did not change."""
        return path in self.files and self.files[path].sha256 == file.sha256


def _find_earlier(artifacts: Path, manifest: Manifest, base: str) -> _Earlier | None:
    """Return the snapshot `base` or else the served one, if this one is patched from it."""
    with suppress(SnapshotUnavailable):
        served = base or read_current(artifacts).id
        folder = artifacts / SNAPSHOTS / served
        files = read_manifest(folder).files
        archive = artifacts / DOWNLOADS / served / archive_name(served)
        frames: Mapping[str, Frame] = {}
        with suppress(SnapshotUnavailable):
            frames = read_download(archive.parent).frames
        return None if served == manifest.id else _Earlier(folder, files, archive, frames)
    return None


def _write(
    staged: Path, folder: Path, manifest: Manifest, earlier: _Earlier | None, threads: int
) -> Download:
    """Write the files of the downloads but for the index, which is returned."""
    content = copy_manifest(manifest)
    (staged / MANIFEST).write_bytes(content)
    names = archive_name(manifest.id), lines_name(manifest.id)
    with (staged / names[0]).open("wb") as file:
        archive = ArchiveWriter(file, threads)
        frames = _write_archive(archive, folder, manifest, content, earlier)
    with (staged / names[1]).open("wb") as file:
        lines = ArchiveWriter(file, threads)
        lines_bytes = _write_lines(lines, folder)
    with (staged / PATCHES).open("wb") as file:
        patches = ArchiveWriter(file, threads)
        patched = _write_patches(patches, folder, manifest, earlier, frames, threads)
    return Download(
        id=manifest.id,
        manifest=hashlib.sha256(content).hexdigest(),
        archives=dict(zip(names, (archive.file, lines.file), strict=True)),
        frames=frames,
        base=earlier.folder.name if earlier and patched else "",
        patches=patched,
        patch_file=patches.file,
        services=manifest.counts.services,
        jsonl_bytes=lines_bytes,
    )


def _write_archive(
    archive: ArchiveWriter,
    folder: Path,
    manifest: Manifest,
    content: bytes,
    earlier: _Earlier | None,
) -> dict[str, Frame]:
    """Write the copy of a snapshot as a tar file; returns the frame of each file."""
    head = _tar_head(manifest.id, MANIFEST, len(content))
    archive.compress([head], len(head))
    frames = {MANIFEST: archive.compress([content], len(content))}
    padding = _padding(len(content))
    for path, file in sorted(manifest.files.items()):
        head = padding + _tar_head(manifest.id, path, file.bytes)
        archive.compress([head], len(head))
        known = _earlier_frame(earlier, path, file)
        if known is None:
            with (folder / path).open("rb") as source:
                frames[path] = archive.compress(iter(lambda: source.read(CHUNK), b""), file.bytes)
        else:
            frames[path] = archive.append([known])
        padding = _padding(file.bytes)
    archive.compress([padding + TAR_END], len(padding) + len(TAR_END))
    return frames


def _earlier_frame(earlier: _Earlier | None, path: str, file: File) -> bytes | None:
    """Return the frame that the archive before has for a file that did not change."""
    if earlier is None or path not in earlier.frames or not earlier.has(path, file):
        return None
    frame = earlier.frames[path]
    try:
        with earlier.archive.open("rb") as archive:
            content = os.pread(archive.fileno(), frame.bytes, frame.offset)
    except OSError:
        return None
    return content if hashlib.sha256(content).hexdigest() == frame.sha256 else None


def _write_lines(lines: ArchiveWriter, folder: Path) -> int:
    """Write the services in order of id, one a line; returns the bytes of the lines."""
    ids = IdTable(folder)
    order = sorted(range(len(ids)), key=ids.__getitem__)
    offsets = open_arrays(folder / "records", RECORDS)["offsets"].tolist()
    with (folder / "records.json").open("rb") as records:
        texts = (
            os.pread(
                records.fileno(), offsets[ordinal + 1] - offsets[ordinal] - 1, offsets[ordinal]
            )
            for ordinal in order
        )
        lines.compress(_joined(texts), offsets[-1])
    return int(offsets[-1])


def _joined(texts: Iterable[bytes]) -> Iterator[Buffer]:
    """Yield texts as lines, some hundred kilobytes at a time."""
    chunk = bytearray()
    for text in texts:
        chunk += text
        chunk += b"\n"
        if len(chunk) >= CHUNK:
            yield chunk
            chunk = bytearray()
    yield chunk


def _write_patches(
    patches: ArchiveWriter,
    folder: Path,
    manifest: Manifest,
    earlier: _Earlier | None,
    frames: Mapping[str, Frame],
    threads: int,
) -> dict[str, Frame]:
    """Write the patches that are smaller than the frames of their files, in order of path."""
    if earlier is None:
        return {}
    changed = {
        path: file
        for path, file in sorted(manifest.files.items())
        if path in earlier.files and not earlier.has(path, file)
    }
    renumbering = Renumbering(earlier.folder, folder)
    patched: dict[str, Frame] = {}
    with ThreadPoolExecutor(threads) as pool:
        made = {
            path: pool.submit(
                make_patch, earlier.folder / path, folder / path, renumbering.transform(path)
            )
            for path in sorted(changed, key=lambda path: -changed[path].bytes)
        }
        for path in changed:
            patch = made.pop(path).result()
            if len(patch) <= PATCH_SHARE * frames[path].bytes:
                patched[path] = patches.append([patch])
    return patched


def _tar_head(snapshot_id: str, path: str, size: int) -> bytes:
    entry = tarfile.TarInfo(f"{snapshot_id}/{path}")
    entry.size = size
    return entry.tobuf(tarfile.PAX_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % TAR_BLOCK)
