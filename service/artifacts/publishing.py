"""Publishing to an artifacts folder: a staged snapshot becomes the served one by a rename, or not.

A lock keeps two writers apart. A crash at any instant leaves the old snapshot served or the new
one, and at worst a staging folder that the next writer removes.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from service.arrays.files import make_folder, replace_durably, sync, write_durably
from service.errors import ArtifactsBusy, PublishingFailed, SnapshotUnavailable
from service.schema.values import EPOCH
from service.snapshot.manifest import MANIFEST, Manifest, verify
from service.snapshot.publication import (
    CURRENT,
    SNAPSHOTS,
    SOURCES,
    is_snapshot_id,
    read_current,
    read_kept,
)

DOWNLOADS = "downloads"
"""The folder of the files that others copy, which a web server may serve as it is."""
KEPT = 3
"""Snapshots that stay on disk, unless told otherwise."""
LOCK = ".lock"
STAGING = "staging"
INCOMING = "incoming"
"""The folder of downloads that were cut, which the next attempt to copy continues."""
LAST = "last.json"
"""The file that holds the report of the last build."""
WHOOSH = "whoosh"
"""The folder of the Whoosh index of the published snapshot, for people."""
ACCEPTED = "accepted"
"""The name of the folder of sources in earlier releases."""
EARLIER = ("history.json", "pointer.json", "following.json", "feeds")
OBSOLETE = (
    *EARLIER,
    *(f"reuse/{'[0-9a-f]' * 64}.arrays", f"reuse/{'[0-9a-f]' * 20}.json"),
)
"""Patterns of the files and folders of earlier releases, which nothing reads."""
OWN = (CURRENT, LOCK)
"""Names that a folder of artifacts has at least one of, once a build was at work there."""
REMOVED = (STAGING, INCOMING, WHOOSH, ACCEPTED, LAST, SOURCES, *EARLIER)
"""Names of what a build or a copy removes, moves or replaces in such a folder."""
SYNCS = 16
"""Files that are flushed at a time: a file system commits many in about the time of one."""

_log = logging.getLogger(__name__)


@contextmanager
def stage(artifacts: Path, keep: int | None = KEPT) -> Iterator[Path]:
    """Lock an artifacts folder and yield a folder on its file system to work in.

    The remains of a killed build are removed first; at the end the staging folder goes, and
    the snapshots beyond the last `keep`, if that is given, with their downloads. Raises
    ArtifactsBusy while another build holds the lock, and PublishingFailed for a folder of
    something else that has files which a build removes.
    """
    _check_folder(artifacts)
    make_folder(artifacts / SNAPSHOTS)
    with _lock(artifacts):
        staging = artifacts / STAGING
        with suppress(FileNotFoundError):
            shutil.rmtree(staging)
        staging.mkdir()
        try:
            yield staging
        finally:
            if keep is not None:
                _prune(artifacts, keep)
            with suppress(OSError):  # the next build removes it, or reports why it cannot
                shutil.rmtree(staging)


def publish(
    artifacts: Path, built: Path, manifest: Manifest, checked_at: datetime | None = None
) -> None:
    """Make the snapshot in a staging folder the published one; called in `stage`.

    Every file is on disk before the manifest, the manifest before the rename, and the rename
    before CURRENT: a crash at any instant leaves the old snapshot served. A whole folder of this
    snapshot stays, with the new manifest; a damaged one is moved away, and stays readable for a
    process that has it open.
    """
    folder = artifacts / SNAPSHOTS / manifest.id
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    if _is_whole(folder):
        replace_durably(folder / MANIFEST, text, artifacts / STAGING / MANIFEST)
    else:
        paths = [built / name for name in manifest.files]
        with ThreadPoolExecutor(SYNCS) as pool:
            folders = {path.parent for path in paths} - {built}
            list(pool.map(sync, (*paths, *folders)))  # raises errors
        write_durably(built / MANIFEST, text)
        sync(built)
        with suppress(FileNotFoundError):
            folder.rename(artifacts / STAGING / "damaged")
        built.rename(folder)
        sync(folder.parent)
    write_current(artifacts, manifest.id, checked_at)


def write_current(artifacts: Path, snapshot_id: str, checked_at: datetime | None = None) -> None:
    """Name the snapshot to serve, found up to date at this time (now if None).

    Raises PublishingFailed where a power cut could undo it.
    """
    fresh = artifacts / STAGING / CURRENT
    fresh.write_text(f"{snapshot_id}\n", "ascii")
    if checked_at is not None:
        modified = (checked_at - EPOCH) // timedelta(microseconds=1) * 1000
        os.utime(fresh, ns=(modified, modified))
    sync(fresh)
    fresh.replace(artifacts / CURRENT)
    try:
        sync(artifacts)
    except OSError as error:
        raise PublishingFailed(
            f"{artifacts}: {error.strerror}; {snapshot_id} is served, but a power cut may bring "
            "back the one before: run this again"
        ) from error


def kept_snapshots(artifacts: Path) -> list[str]:
    """Return the ids of the snapshots on disk: the served one first, then the newest build."""
    kept = [each.id for each in read_kept(artifacts)]
    with suppress(SnapshotUnavailable):
        current = read_current(artifacts).id
        kept.sort(key=lambda each: each != current)
    return kept


def time_of_build(artifacts: Path) -> datetime:
    """Return the time of a new snapshot: now, or later than every kept one if the clock is back."""
    earliest = [each.built_at + timedelta(milliseconds=1) for each in read_kept(artifacts)[:1]]
    return max([datetime.now(UTC), *earliest])


def remove_obsolete(artifacts: Path) -> list[str]:
    """Remove the files of earlier releases that nothing reads; returns names in the folder."""
    paths = [path for pattern in OBSOLETE for path in artifacts.glob(pattern)]
    for path in paths:
        path.rename(artifacts / STAGING / f"obsolete-{path.name}")
    return [*dict.fromkeys(path.relative_to(artifacts).parts[0] for path in paths)]


def _check_folder(artifacts: Path) -> None:
    names = {path.name for path in artifacts.iterdir()} if artifacts.is_dir() else set()
    if names.isdisjoint(OWN) and (others := sorted(names.intersection(REMOVED))):
        raise PublishingFailed(
            f"{artifacts.absolute()} has `{others[0]}`, which a build would remove, and nothing "
            "that one published; name another folder for the artifacts, or an empty one"
        )


@contextmanager
def _lock(artifacts: Path) -> Iterator[None]:
    file = (artifacts / LOCK).open("a")
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ArtifactsBusy(
                f"another build is at work in {artifacts}; try again when it ends"
            ) from error
        yield
    finally:
        with suppress(OSError):  # the work under the lock is done
            file.close()


def _is_whole(folder: Path) -> bool:
    try:
        verify(folder)
    except SnapshotUnavailable:
        return False
    return True


def _prune(artifacts: Path, keep: int) -> None:
    """Move the snapshots beyond the last `keep` to the staging folder, which is removed.

    The published snapshot and the newest other one always stay. The downloads of a kept snapshot
    go, too, if they may have what the published one took down.
    """
    try:
        current = read_current(artifacts).id
        kept = read_kept(artifacts)
        others = [each.id for each in kept if each.id != current]
        for snapshot_id in others[max(keep - 1, 1) :]:
            (artifacts / SNAPSHOTS / snapshot_id).rename(artifacts / STAGING / snapshot_id)
        denials = {each.id: each.denials for each in kept}
        denied = denials.get(current, frozenset())
        for path in (artifacts / DOWNLOADS).glob("*"):
            snapshot_id = path.name.partition(".")[0]
            is_left = is_snapshot_id(snapshot_id) and (
                not (artifacts / SNAPSHOTS / snapshot_id).exists()
                or denied - denials.get(snapshot_id, frozenset())
            )
            if is_left:
                path.rename(artifacts / STAGING / path.name)
    except SnapshotUnavailable:
        return
    except OSError as error:  # the build is done, or failed for a reason of its own
        _log.warning("warning: older snapshots cannot be removed: %s", error)
