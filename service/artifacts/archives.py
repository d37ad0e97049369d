"""Making the downloads of a snapshot; one release of zstd makes the same bytes of it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from service.artifacts.downloads import add_downloads, names_of, read_downloads
from service.artifacts.publishing import DOWNLOADS, STAGING
from service.schema.snapshots import SnapshotFile
from service.snapshot.manifest import MANIFEST, Manifest, copy_manifest, hash_file
from service.storage.texts import IdTable, Records
from service.storage.zstd import zstd


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
        text = copy_manifest(manifest)
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
    _, lines, index = (staged / name for name in names_of(snapshot_id))
    with zstd.open(lines, "wb") as records, zstd.open(index, "wb") as hashes:
        for file in (records, hashes):
            file.write(b"")  # begins a frame: without services the file would have none
        for service_id, record in _services(folder):
            records.write(record)
            records.write(b"\n")
            digest = sha256(record).hexdigest()
            hashes.write(b'{"id":"%b","hash":"%b"}\n' % (service_id.encode(), digest.encode()))


def _services(folder: Path) -> Iterator[tuple[str, memoryview]]:
    """Yield the id and the stored JSON of each service, in order of id."""
    ids, records = IdTable(folder), Records(folder)
    numbered = sorted((ids[ordinal], ordinal) for ordinal in range(len(ids)))
    for service_id, ordinal in numbered:
        yield service_id, records.view(ordinal)
