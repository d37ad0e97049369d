"""Making the downloads of a published snapshot.

The archive is a tar file of zstd frames: each section of a file (`service.publishing.frames.cut`)
is a frame of its own, and what stands between files is in others. So a section is a range of bytes
of the archive, and the frame of the archive before is copied where its content did not change. The
same snapshot with the same base gives the same bytes with one release of zstd.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from service.artifacts.downloads import (
    DOWNLOADS,
    INDEX,
    PATCHES,
    ArchiveSection,
    Download,
    Frame,
    PatchPiece,
    archive_name,
    lines_name,
    read_download,
    verify_downloads,
)
from service.errors import SnapshotUnavailable
from service.publishing.artifacts import STAGING
from service.publishing.durable import sync, write_durably
from service.publishing.frames import (
    CHUNK,
    ArchiveWriter,
    Buffer,
    chunks_of,
    cut,
)
from service.publishing.patches import MEMORY, make_piece, plan
from service.snapshot.manifest import MANIFEST, File, Manifest, copy_manifest, read_manifest
from service.snapshot.publication import SNAPSHOTS
from service.storage.memory_map import open_bytes
from service.storage.record_store import IdTable, Records

TAR_BLOCK = 512
TAR_END = bytes(2 * TAR_BLOCK)
PATCH_SHARE = 0.9
"""Share of the archive that the patches may have; larger ones are left out."""
REPLACED = "replaced-downloads"


def make_downloads(
    artifacts: Path,
    folder: Path,
    manifest: Manifest,
    base: str,
    threads: int = 1,
    memory: int = MEMORY,
) -> Download:
    """Make the downloads of the snapshot in a folder, unless they are there and whole.

    Called in `stage`. Patches start from the snapshot `base`, if there is one of this id. As many
    threads run as fit into the memory, at least one. Raises OSError, and leaves earlier downloads.
    """
    threads = max(1, min(threads, memory // MEMORY))
    existing = artifacts / DOWNLOADS / manifest.id
    with suppress(SnapshotUnavailable):
        return verify_downloads(existing, manifest, threads)
    staged = artifacts / STAGING / DOWNLOADS
    with suppress(FileNotFoundError):
        shutil.rmtree(staged)
    staged.mkdir()
    earlier = None if base == manifest.id else _find_earlier(artifacts, base)
    download = _write(staged, folder, manifest, earlier, threads)
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
    """An earlier snapshot: its folder and files, its archive and the frames there by content."""

    folder: Path
    files: Mapping[str, File]
    archive: Buffer
    frames: Mapping[str, Frame]

    def frame(self, content: str) -> memoryview | None:
        """Return the frame of a section with this hash, None without a whole one."""
        if content not in self.frames:
            return None
        frame = self.frames[content]
        packed = memoryview(self.archive)[frame.offset : frame.offset + frame.bytes]
        return packed if hashlib.sha256(packed).hexdigest() == frame.sha256 else None


def _find_earlier(artifacts: Path, base: str) -> _Earlier | None:
    folder, downloads = artifacts / SNAPSHOTS / base, artifacts / DOWNLOADS / base
    try:
        files = read_manifest(folder).files
    except SnapshotUnavailable:
        return None
    try:
        sections = read_download(downloads).sections.values()
        archive = open_bytes(downloads / archive_name(base))
    except (SnapshotUnavailable, OSError):
        return _Earlier(folder, files, b"", {})
    frames = {each.content.sha256: each.frame for file in sections for each in file}
    return _Earlier(folder, files, archive, frames)


def _write(
    staged: Path, folder: Path, manifest: Manifest, earlier: _Earlier | None, threads: int
) -> Download:
    """Write the files of the downloads but for the index, which is returned."""
    content = copy_manifest(manifest)
    (staged / MANIFEST).write_bytes(content)
    names = archive_name(manifest.id), lines_name(manifest.id)
    with (
        (staged / names[0]).open("wb") as archive_file,
        (staged / names[1]).open("wb") as lines_file,
        (staged / PATCHES).open("wb") as patch_file,
        ThreadPoolExecutor(threads) as pool,
    ):
        archive, lines = ArchiveWriter(archive_file, threads), ArchiveWriter(lines_file, threads)
        patches = ArchiveWriter(patch_file, threads)
        archived = pool.submit(_write_archive, archive, folder, manifest, content, earlier)
        listed = pool.submit(_write_lines, lines, folder)
        patched = {}
        if earlier is not None:
            patched = _write_patches(patches, folder, manifest, earlier, pool, 2 * threads)
        sections, lines_bytes = archived.result(), listed.result()
        if patches.file.bytes > PATCH_SHARE * archive.file.bytes:
            patch_file.truncate(0)
            patches, patched = ArchiveWriter(patch_file, threads), {}
    return Download(
        id=manifest.id,
        manifest=hashlib.sha256(content).hexdigest(),
        archives=dict(zip(names, (archive.file, lines.file), strict=True)),
        sections=sections,
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
) -> dict[str, list[ArchiveSection]]:
    """Write the copy of a snapshot as a tar file; returns the sections of each file."""
    head = _tar_head(manifest.id, MANIFEST, len(content))
    archive.compress([head], len(head))
    whole = File(len(content), hashlib.sha256(content).hexdigest())
    sections = {MANIFEST: _write_sections(archive, content, whole, None)}
    padding = _padding(len(content))
    for path, file in sorted(manifest.files.items()):
        head = padding + _tar_head(manifest.id, path, file.bytes)
        archive.compress([head], len(head))
        sections[path] = _write_sections(archive, open_bytes(folder / path), file, earlier)
        padding = _padding(file.bytes)
    archive.compress([padding + TAR_END], len(padding) + len(TAR_END))
    return sections


def _write_sections(
    archive: ArchiveWriter, content: Buffer, whole: File, earlier: _Earlier | None
) -> list[ArchiveSection]:
    """Write the sections of a file, copying the frames of those that an earlier archive has."""
    sections = []
    for start, stop in cut(content):
        section = memoryview(content)[start:stop]
        is_whole = len(section) == whole.bytes
        digest = whole.sha256 if is_whole else hashlib.sha256(section).hexdigest()
        known = earlier.frame(digest) if earlier else None
        if known is None:
            frame = archive.compress(chunks_of(section), len(section))
        else:
            frame = archive.append(chunks_of(known))
        sections.append(ArchiveSection(File(len(section), digest), frame))
    return sections


def _write_lines(lines: ArchiveWriter, folder: Path) -> int:
    """Write the services in order of id, one a line; returns the bytes of the lines."""
    ids, records = IdTable(folder), Records(folder)
    order = sorted(range(len(ids)), key=ids.__getitem__)
    size = sum(len(records.view(ordinal)) + 1 for ordinal in order)
    lines.compress(_joined(map(records.view, order)), size)
    return size


def _joined(texts: Iterable[memoryview]) -> Iterator[Buffer]:
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
    earlier: _Earlier,
    pool: Executor,
    ahead: int,
) -> dict[str, list[PatchPiece]]:
    """Write the frames of the pieces of the files that changed; returns the pieces by path.

    At most `ahead` frames are made before the first of them is written, which bounds memory.
    """
    changed = [
        path
        for path, file in sorted(manifest.files.items())
        if path in earlier.files and earlier.files[path].sha256 != file.sha256
    ]
    patched: dict[str, list[PatchPiece]] = {path: [] for path in changed}
    pending: deque[tuple[str, Future[tuple[PatchPiece, bytes]]]] = deque()

    def write_next() -> None:
        path, future = pending.popleft()
        piece, frame = future.result()
        offset = patches.append([frame]).offset
        patched[path].append(replace(piece, offset=offset))

    for path in changed:
        before, after = open_bytes(earlier.folder / path), open_bytes(folder / path)
        for each in plan(before, after):
            pending.append((path, pool.submit(make_piece, before, after, each)))
            if len(pending) > ahead:
                write_next()
    while pending:
        write_next()
    return patched


def _tar_head(snapshot_id: str, path: str, size: int) -> bytes:
    entry = tarfile.TarInfo(f"{snapshot_id}/{path}")
    entry.size = size
    return entry.tobuf(tarfile.PAX_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % TAR_BLOCK)
