"""The files that others copy, and their description; one release of zstd makes the same bytes.

downloads/<id>.tar.zst           the folder of the snapshot, its manifest first; other bytes where a
                                 snapshot that was pruned is built again, as the manifest is dated
downloads/<id>.jsonl.zst         the services, one a line in order of id
downloads/<id>.index.jsonl.zst   `{"id":…,"hash":…}` of each service, in the same order
downloads/<id>.json              the sizes and hashes of these three, written last
downloads/current.json           the answer of `/v1/snapshots/current`, for a static host
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec.structs import replace

from service.arrays.files import read_json, replace_durably, sync, zstd
from service.arrays.texts import IdTable, Records
from service.artifacts.publishing import DOWNLOADS, STAGING
from service.schema.status import SnapshotDescription, SnapshotEnvelope, SnapshotFile
from service.schema.values import format_timestamp
from service.snapshot.manifest import MANIFEST, Manifest, hash_file

ARCHIVE = "tar.zst"
KINDS = (ARCHIVE, "jsonl.zst", "index.jsonl.zst")
"""The names of the files after the id and a dot."""
CURRENT_FILE = "current.json"


def read_downloads(artifacts: Path, snapshot_id: str) -> list[SnapshotFile]:
    """Return the files of a snapshot, none where they were not made or one is missing."""
    folder = artifacts / DOWNLOADS
    files = read_json(folder / f"{snapshot_id}.json", list[SnapshotFile]) or []
    with suppress(OSError):
        if all((folder / each.path).stat().st_size == each.bytes for each in files):
            return files
    return []


def add_downloads(
    artifacts: Path, snapshot_id: str, staged: Path, files: Sequence[SnapshotFile]
) -> None:
    """Move the files of a snapshot, which stand in a staged folder, to the downloads."""
    target = artifacts / DOWNLOADS
    target.mkdir(exist_ok=True)
    for each in files:
        sync(staged / each.path)
        (staged / each.path).replace(target / each.path)
    draft = artifacts / STAGING / f"{snapshot_id}.json"
    replace_durably(target / f"{snapshot_id}.json", msgspec.json.encode(files), draft)


def name_current(artifacts: Path, manifest: Manifest, checked_at: datetime) -> None:
    """Have `current.json` name a snapshot, or remove it where the snapshot has no downloads."""
    path = artifacts / DOWNLOADS / CURRENT_FILE
    if files := read_downloads(artifacts, manifest.id):
        content = msgspec.json.encode(describe(manifest, checked_at, files))
        replace_durably(path, content, artifacts / STAGING / CURRENT_FILE)
    elif path.exists():
        path.unlink()
        sync(path.parent)


def describe(
    manifest: Manifest, checked_at: datetime, files: Sequence[SnapshotFile]
) -> SnapshotEnvelope:
    """Describe a snapshot and its downloads."""
    return SnapshotEnvelope(
        SnapshotDescription(
            id=manifest.id,
            built_at=format_timestamp(manifest.built_at),
            checked_at=format_timestamp(checked_at),
            counts=manifest.counts,
            files=list(files),
        )
    )


def names_of(snapshot_id: str) -> list[str]:
    """Return the names of the files of a snapshot."""
    return [f"{snapshot_id}.{kind}" for kind in KINDS]


def make_downloads(artifacts: Path, folder: Path, manifest: Manifest) -> list[SnapshotFile]:
    """Make the files of the snapshot in a folder, unless they are there and whole.

    Called in `stage`. Raises OSError or SnapshotDamaged.
    """
    target = artifacts / DOWNLOADS
    existing = read_downloads(artifacts, manifest.id)
    if existing and all(hash_file(target / each.path).sha256 == each.sha256 for each in existing):
        return existing
    staged = artifacts / STAGING / DOWNLOADS
    staged.mkdir(exist_ok=True)
    with ThreadPoolExecutor(2) as pool:  # zstd and SHA-256 release the lock of the interpreter
        lines = pool.submit(_write_lines, staged, folder, manifest.id)
        _write_archive(staged / f"{manifest.id}.tar.zst", folder, manifest)
        lines.result()
    files = []
    for name in names_of(manifest.id):
        file = hash_file(staged / name)
        files.append(SnapshotFile(name, file.bytes, file.sha256))
    add_downloads(artifacts, manifest.id, staged, files)
    return files


def _write_archive(path: Path, folder: Path, manifest: Manifest) -> None:
    """Write a tar file of the folder; the manifest comes first, so that readers know the sizes.

    In the format of GNU, sizes beyond 8 GiB need no extended header, which readers refuse.
    """
    with (
        zstd.open(path, "wb") as file,
        tarfile.open(fileobj=file, mode="w|", format=tarfile.GNU_FORMAT) as archive,
    ):
        text = msgspec.json.encode(replace(manifest, inputs=None))
        archive.addfile(_member(f"{manifest.id}/{MANIFEST}", len(text)), io.BytesIO(text))
        for name, described in sorted(manifest.files.items()):
            with (folder / name).open("rb") as content:
                archive.addfile(_member(f"{manifest.id}/{name}", described.bytes), content)


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    return member


def _write_lines(staged: Path, folder: Path, snapshot_id: str) -> None:
    """Write the services and their index, in order of id."""
    ids, services = IdTable(folder), Records(folder)
    _, lines, index = (staged / name for name in names_of(snapshot_id))
    with zstd.open(lines, "wb") as records, zstd.open(index, "wb") as hashes:
        for file in (records, hashes):
            file.write(b"")  # begins a frame: without services the file would have none
        for service_id, ordinal in sorted((ids[ordinal], ordinal) for ordinal in range(len(ids))):
            record = services.view(ordinal)
            records.write(record)
            records.write(b"\n")
            digest = sha256(record).hexdigest()
            hashes.write(b'{"id":"%b","hash":"%b"}\n' % (service_id.encode(), digest.encode()))
