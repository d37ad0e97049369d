"""Publishing: a staged snapshot becomes the served one by a rename, or not at all."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import msgspec

from indexer.errors import Busy
from service.engine import ENGINE
from service.errors import SnapshotUnavailable
from service.snapshot import (
    CURRENT,
    FORMAT,
    MANIFEST,
    SNAPSHOTS,
    File,
    Manifest,
    read_current,
    sha256,
    verify,
)

KEPT = 3
LOCK = ".lock"
STAGING = "staging"


@contextmanager
def stage(artifacts: Path) -> Iterator[Path]:
    """A folder to build in, on the file system of `artifacts`, under a lock.

    Whatever a build that was cut off left there is removed first, as this one's is at the end.
    Raises Busy while another build holds the lock.
    """
    (artifacts / SNAPSHOTS).mkdir(parents=True, exist_ok=True)
    with (artifacts / LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Busy(
                f"another build is at work in {artifacts}; try again when it ends"
            ) from error
        staging = artifacts / STAGING
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        try:
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def list_files(folder: Path, known: Mapping[str, File] = MappingProxyType({})) -> dict[str, File]:
    """The size and hash of every file of a folder by its path in it, but for those known."""
    files = dict(known)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        if name not in files:
            files[name] = File(path.stat().st_size, sha256(path))
    return files


def identify(files: Mapping[str, File]) -> str:
    """The id of a snapshot: a hash of what is served, and of how it is searched."""
    served = [f"{name} {file.sha256}" for name, file in sorted(files.items()) if ".json" in name]
    engine = msgspec.json.encode(ENGINE).decode()
    return hashlib.sha256("\n".join([str(FORMAT), engine, *served]).encode()).hexdigest()[:20]


def reuse(artifacts: Path, snapshot_id: str) -> Manifest | None:
    """Publish the snapshot of this id if there is a whole one; returns its manifest."""
    folder = artifacts / SNAPSHOTS / snapshot_id
    try:
        manifest = verify(folder, threads=os.cpu_count() or 1)
    except (SnapshotUnavailable, ValueError):  # the latter for a manifest that is not UTF-8
        return None
    _make_current(artifacts, snapshot_id)
    return manifest


def publish(artifacts: Path, built: Path, manifest: Manifest) -> None:
    """Make what was built in a staging folder the snapshot to serve.

    Every byte is on disk before the manifest, the manifest before the rename, and the rename
    before `CURRENT`; a crash at any instant leaves the old snapshot served.
    """
    for path in built.rglob("*"):
        _sync(path)
    _write_durably(built / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2))
    _sync(built)
    folder = artifacts / SNAPSHOTS / manifest.id
    if folder.exists():  # a damaged one, or it would have been reused
        folder.rename(built.with_name("damaged"))
    built.rename(folder)
    _sync(folder.parent)
    _make_current(artifacts, manifest.id)
    _prune(artifacts)


def _make_current(artifacts: Path, snapshot_id: str) -> None:
    os.utime(artifacts / SNAPSHOTS / snapshot_id)  # so that the oldest by this time goes first
    fresh = artifacts / f"{CURRENT}.new"
    _write_durably(fresh, f"{snapshot_id}\n".encode())
    fresh.replace(artifacts / CURRENT)
    _sync(artifacts)


def _prune(artifacts: Path) -> None:
    current, _ = read_current(artifacts)
    snapshots = [path for path in (artifacts / SNAPSHOTS).iterdir() if path.name != current]
    snapshots.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in snapshots[KEPT - 1 :]:
        shutil.rmtree(path, ignore_errors=True)


def _write_durably(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
