"""Publishing to an artifacts folder: a staged snapshot becomes the served one by a rename, or not.

A lock keeps two writers apart. A crash at any instant leaves the old snapshot served or the new
one, and at worst a staging folder that the next writer removes.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from msgspec import Struct

from service.artifacts.downloads import DOWNLOADS, POINTER
from service.errors import ArtifactsBusy, PublishingFailed, SnapshotUnavailable
from service.publishing.durable import make_folder, replace_durably, sync, write_durably
from service.schema.values import EPOCH
from service.snapshot.manifest import EARLIER, ID_DIGITS, MANIFEST, Manifest, is_whole
from service.snapshot.publication import (
    CURRENT,
    HISTORY,
    SNAPSHOTS,
    Publication,
    read_current,
    read_history,
)
from service.storage.json_file import read_json

KEPT = 3
"""Snapshots that stay on disk, unless told otherwise."""
LOCK = ".lock"
STAGING = "staging"
WHOOSH = "whoosh"
"""The folder that has the Whoosh index of each snapshot, for people, beside the snapshots."""
SYNCS = 16
"""Files that are flushed at a time: a file system commits many in about the time of one."""

_log = logging.getLogger(__name__)


class _Header(Struct):
    """The part of a manifest that every format has."""

    id: str
    built_at: datetime
    earlier: list[str] = []


_snapshot_id = re.compile(rf"[0-9a-f]{{{ID_DIGITS}}}")


@contextmanager
def stage(artifacts: Path, keep: int | None = KEPT) -> Iterator[Path]:
    """Lock an artifacts folder and yield a folder on its file system to work in.

    The remains of a killed build are removed first; at the end the staging folder goes, and
    the snapshots beyond the last `keep`, if that is given, with their downloads. Raises
    ArtifactsBusy while another build holds the lock.
    """
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


def publish(artifacts: Path, built: Path, manifest: Manifest) -> None:
    """Make the snapshot in a staging folder the published one; called in `stage`.

    Every file is on disk before the manifest, the manifest before the rename, and the rename
    before CURRENT: a crash at any instant leaves the old snapshot served. An existing folder of
    this snapshot is mended, as a service may read it.
    """
    _begin_history(artifacts)
    _sync_content(built)
    write_durably(built / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2))
    folder = artifacts / SNAPSHOTS / manifest.id
    if folder.exists():
        _mend(folder, built, manifest)
    else:
        sync(built)
        built.rename(folder)
        sync(folder.parent)
    make_current(artifacts, manifest.id)


def make_current(artifacts: Path, snapshot_id: str) -> None:
    """Have a snapshot served, as found up to date now; called in `stage`."""
    history = read_history(artifacts)
    if not history or history[-1].id != snapshot_id:
        write_history(artifacts, [*history, Publication(snapshot_id, datetime.now(UTC))])
    write_current(artifacts, snapshot_id)


def write_history(artifacts: Path, history: Sequence[Publication]) -> None:
    """Record these publications, oldest first; on disk before CURRENT, which tells their last."""
    existing = [each for each in history if (artifacts / SNAPSHOTS / each.id).exists()]
    content = msgspec.json.format(msgspec.json.encode(existing), indent=2)
    replace_durably(artifacts / HISTORY, content, artifacts / STAGING / HISTORY)


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


def write_pointer(artifacts: Path, snapshot_id: str, content: bytes) -> None:
    """Publish a pointer to a snapshot, for replicas; called in `stage`.

    Its downloads keep a copy of the pointer, for an origin that lost the downloads of a later one.
    """
    for folder in (artifacts, artifacts / DOWNLOADS / snapshot_id):
        if folder.is_dir():
            replace_durably(folder / POINTER, content, artifacts / STAGING / POINTER)


def kept_snapshots(artifacts: Path) -> list[str]:
    """Return the ids of the snapshots on disk: the served one first, then the newest."""
    newest = [publication.id for publication in reversed(read_history(artifacts))]
    with suppress(SnapshotUnavailable):
        newest.insert(0, read_current(artifacts).id)
    existing = (path.name for path in (artifacts / SNAPSHOTS).iterdir())
    known = dict.fromkeys([*newest, *sorted(existing)])
    return [each for each in known if (artifacts / SNAPSHOTS / each / MANIFEST).exists()]


def earlier_ids(artifacts: Path, snapshot_id: str) -> list[str]:
    """Return the ids of what was published before a new snapshot of this id, oldest first.

    Withdrawn snapshots come last: clients may have fetched changes up to one of them.
    """
    published = [publication.id for publication in read_history(artifacts)]
    withdrawn = [each for each in kept_snapshots(artifacts) if _snapshot_id.fullmatch(each)]
    ids: list[str] = []
    for each in dict.fromkeys([*published, *withdrawn]):
        header = read_json(artifacts / SNAPSHOTS / each / MANIFEST, _Header)
        ids += [*(header.earlier if header else ()), each]
    newest_first = dict.fromkeys(each for each in reversed(ids) if each != snapshot_id)
    return list(newest_first)[:EARLIER][::-1]


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


def _begin_history(artifacts: Path) -> None:
    """Write the history of a folder that has none, with the published snapshot if there is one.

    CURRENT is written first: without both files, as in an extracted archive, the only snapshot
    counts as published; with a history alone, none does.
    """
    if (artifacts / HISTORY).exists():
        return
    history = []
    with suppress(SnapshotUnavailable):
        history.append(read_current(artifacts))
        write_current(artifacts, *history[0])
    write_history(artifacts, history)


def _sync_content(folder: Path) -> None:
    """Flush every file and folder in a folder; the caller flushes the folder itself."""

    def fail(error: OSError) -> None:
        raise error

    paths = []
    for parent, folders, names in os.walk(folder, onerror=fail):
        paths += [Path(parent, name) for name in (*names, *folders)]
    with ThreadPoolExecutor(SYNCS) as pool:
        for _ in pool.map(sync, paths):  # raises the first error
            pass


def _mend(folder: Path, built: Path, manifest: Manifest) -> None:
    """Replace the missing and damaged files of a snapshot by those built again, one by one.

    A file that is open or mapped stays as it was for its readers. The manifest is replaced last, as
    it tells which files are whole.
    """
    changed = {folder}
    for name, file in manifest.files.items():
        path = folder / name
        if not is_whole(path, file):
            path.parent.mkdir(parents=True, exist_ok=True)
            (built / name).replace(path)
            changed.update(each for each in path.parents if each.is_relative_to(folder))
    (built / MANIFEST).replace(folder / MANIFEST)
    for each in changed:
        sync(each)


def _prune(artifacts: Path, keep: int) -> None:
    """Move the snapshots beyond the last `keep` to the staging folder, which is removed.

    The oldest publication goes first, after snapshots that were withdrawn or never published.
    """
    try:
        current = read_current(artifacts).id
        positions = {each.id: position for position, each in enumerate(read_history(artifacts))}
        others = [
            (positions.get(path.name, -1), built_at, path)
            for path in (artifacts / SNAPSHOTS).iterdir()
            if path.name != current
            and (built_at := _built_at(path, known=path.name in positions)) is not None
        ]
        for _, _, path in sorted(others, reverse=True)[keep - 1 :]:
            path.rename(artifacts / STAGING / path.name)
        for kind in (DOWNLOADS, WHOOSH):
            _prune_beside(artifacts, kind)
    except SnapshotUnavailable:
        return
    except OSError as error:  # the build is done, or failed for a reason of its own
        _log.warning("warning: older snapshots cannot be removed: %s", error)


def _prune_beside(artifacts: Path, kind: str) -> None:
    """Move the downloads or the indexes of snapshots that are gone to the staging folder."""
    with suppress(FileNotFoundError):
        for path in (artifacts / kind).iterdir():
            if not (artifacts / SNAPSHOTS / path.name).exists():
                path.rename(artifacts / STAGING / f"{kind}-{path.name}")


def _built_at(path: Path, *, known: bool) -> datetime | None:
    """Return when a snapshot was built, or None for a folder that is not one of ours.

    A published snapshot is `known` even if its manifest is damaged.
    """
    if _snapshot_id.fullmatch(path.name):
        header = read_json(path / MANIFEST, _Header)
        if header is not None and header.id == path.name:
            return header.built_at
    return EPOCH if known else None
