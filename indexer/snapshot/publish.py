"""Publishing: a staged snapshot becomes the served one by a rename, or not at all."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

import msgspec

from indexer.errors import Busy, IndexerError
from indexer.snapshot.compare import Changes, count_changes
from service.errors import SnapshotDamaged, SnapshotUnavailable
from service.search.config import SEARCH_CONFIG
from service.snapshot.snapshot import (
    CURRENT,
    FORMAT,
    MANIFEST,
    SNAPSHOTS,
    File,
    Manifest,
    list_snapshots,
    read_current,
    sha256,
    verify,
)
from service.storage.memory_map import open_array

KEPT = 3
LOCK = ".lock"
STAGING = "staging"

NEVER = 0
"""The time of the folder of a snapshot that was not published yet, or withdrawn. That of others is
when they were published last: by it a rollback finds the one before, and the oldest goes first."""

_log = logging.getLogger(__name__)


@contextmanager
def stage(artifacts: Path) -> Iterator[Path]:
    """A folder to work in, on the file system of `artifacts`, under a lock.

    Whatever a build that was cut off left there is removed first, as this one's is at the end, with
    the snapshots that are too many. Raises Busy while another build holds the lock.
    """
    (artifacts / SNAPSHOTS).mkdir(parents=True, exist_ok=True)
    with _lock(artifacts):
        staging = artifacts / STAGING
        with suppress(FileNotFoundError):
            shutil.rmtree(staging)
        staging.mkdir()
        _note_publication(artifacts)
        try:
            yield staging
        finally:
            _prune(artifacts)
            with suppress(OSError):  # the next build removes it, or says why it cannot
                shutil.rmtree(staging)


def list_files(folder: Path, known: Mapping[str, File] = MappingProxyType({})) -> dict[str, File]:
    """The size and hash of every file of a folder by its path in it, but for those known.

    Raises OSError for an array that is not whole, too.
    """
    files = dict(known)
    for path in sorted(Path(parent, name) for parent, names in _walk(folder) for name in names):
        name = path.relative_to(folder).as_posix()
        if name not in files:
            if path.suffix == ".npy":
                _check_array(path)
            files[name] = File(path.stat().st_size, sha256(path))
    return files


def identify(files: Mapping[str, File]) -> str:
    """The id of a snapshot: a hash of what is served, and of how it is searched."""
    served = [f"{name} {file.sha256}" for name, file in sorted(files.items()) if ".json" in name]
    engine = msgspec.json.encode(SEARCH_CONFIG).decode()
    return hashlib.sha256("\n".join([str(FORMAT), engine, *served]).encode()).hexdigest()[:20]


def reuse(artifacts: Path, snapshot_id: str) -> Manifest | None:
    """Publish the snapshot of this id if there is a whole one; returns its manifest."""
    folder = artifacts / SNAPSHOTS / snapshot_id
    try:
        manifest = verify(folder, threads=os.cpu_count() or 1)
    except (SnapshotUnavailable, ValueError):  # the latter for a manifest that is not UTF-8
        return None
    make_current(artifacts, snapshot_id)
    return manifest


def since_last(artifacts: Path, built: Path) -> tuple[str, Changes | None]:
    """The id of the snapshot served now, and how what is built differs, where it can be told."""
    served = ""
    try:
        served, _ = read_current(artifacts)
        return served, Changes(*count_changes(artifacts / SNAPSHOTS / served, built))
    except SnapshotUnavailable:
        return served, None


def publish(artifacts: Path, built: Path, manifest: Manifest) -> None:
    """Make what was built in a staging folder the snapshot to serve.

    Every byte is on disk before the manifest, the manifest before the rename, and the rename
    before `CURRENT`; a crash at any instant leaves the old snapshot served.
    """
    for parent, names in _walk(built):
        for name in names:
            _sync(Path(parent, name))
        _sync(Path(parent))
    _write_durably(built / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2))
    os.utime(built, (NEVER, NEVER))
    _sync(built)
    folder = artifacts / SNAPSHOTS / manifest.id
    if folder.exists():  # a damaged one, or it would have been reused
        folder.rename(built.with_name("damaged"))
    built.rename(folder)
    _sync(folder.parent)
    make_current(artifacts, manifest.id)


def make_current(artifacts: Path, snapshot_id: str, checked_at: int | None = None) -> None:
    """Have this snapshot served, as checked now or at a time in nanoseconds of the epoch.

    Called in `stage`. Raises IndexerError where that may not outlast a power cut.
    """
    fresh = artifacts / STAGING / CURRENT
    _write_durably(fresh, f"{snapshot_id}\n".encode())
    if checked_at is not None:
        os.utime(fresh, ns=(checked_at, checked_at))
    fresh.replace(artifacts / CURRENT)
    _note_publication(artifacts)
    try:
        _sync(artifacts)
    except OSError as error:
        raise IndexerError(
            f"{artifacts}: {error.strerror}; {snapshot_id} is served, but a power cut may bring "
            "back the one before: run this again"
        ) from error


@contextmanager
def _lock(artifacts: Path) -> Iterator[None]:
    file = (artifacts / LOCK).open("a")
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Busy(
                f"another build is at work in {artifacts}; try again when it ends"
            ) from error
        yield
    finally:
        with suppress(OSError):  # what was done under the lock is done
            file.close()


def _note_publication(artifacts: Path) -> None:
    """Give the folder of the served snapshot its time; the next build does when this one cannot."""
    with suppress(OSError, SnapshotUnavailable):
        published_at = (artifacts / CURRENT).stat().st_mtime_ns
        snapshot_id, _ = read_current(artifacts)
        os.utime(artifacts / SNAPSHOTS / snapshot_id, ns=(published_at, published_at))


def _prune(artifacts: Path) -> None:
    """Move the snapshots that are too many to where what is staged is removed."""
    try:
        current, _ = read_current(artifacts)
        others = [path for path in list_snapshots(artifacts) if path.name != current]
        for path in others[KEPT - 1 :]:
            path.rename(artifacts / STAGING / path.name)
    except SnapshotUnavailable:
        return
    except OSError as error:  # what this build was for is done, or failed for a reason of its own
        _log.warning("warning: older snapshots cannot be removed: %s", error)


def _check_array(path: Path) -> None:
    """NumPy is silent when the end of what it saves cannot be written."""
    try:
        open_array(path)
    except SnapshotDamaged as error:
        cut_short = "was not written whole; is the disk full?"
        raise OSError(errno.EIO, cut_short, str(path)) from error


def _walk(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The folders in a folder, itself included, each with the files in it; raises OSError."""

    def fail(error: OSError) -> None:
        raise error

    for parent, _, names in os.walk(folder, onerror=fail):
        yield parent, names


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
