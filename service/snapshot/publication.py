"""The published snapshot of an artifacts folder, and the other kept ones.

    artifacts/CURRENT          the id of the snapshot to serve, in one line; the time of the file is
                               when a build last found that the snapshot is up to date
    artifacts/snapshots/<id>/  the kept snapshots, ordered by the `built_at` of their manifests

In a folder without CURRENT, such as one that an archive was extracted to, the newest snapshot is
the published one.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from service.arrays.files import read_json
from service.errors import REBUILD, SnapshotDamaged, SnapshotMissing, SnapshotUnavailable
from service.schema.status import SourceState
from service.schema.values import EPOCH, GivenTime
from service.snapshot.manifest import ID_DIGITS, MANIFEST

CURRENT = "CURRENT"
SOURCES = "sources.json"
"""The file in the artifacts folder that has the sources of the last build."""
SNAPSHOTS = "snapshots"

_snapshot_id = re.compile(rf"[0-9a-f]{{{ID_DIGITS}}}")


class Publication(NamedTuple):
    """A snapshot that was published, and when a build last found it up to date."""

    id: str
    checked_at: datetime


class KeptSnapshot(Struct, frozen=True):
    """The part of a kept snapshot's manifest that every format has."""

    id: str
    built_at: GivenTime
    denials: frozenset[str] = frozenset()


def read_current(artifacts: Path) -> Publication:
    """Return the published snapshot; raises SnapshotUnavailable."""
    path = artifacts / CURRENT
    try:
        snapshot_id = path.read_text("ascii").strip()
        checked_at = _time_of(path)
    except FileNotFoundError as error:
        if kept := read_kept(artifacts):
            return Publication(kept[0].id, kept[0].built_at)
        raise SnapshotMissing(
            f"{artifacts} holds no snapshot; run `ratecard build SOURCE --out {artifacts}`"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise SnapshotUnavailable(f"{path} cannot be read: {error}") from error
    if not is_snapshot_id(snapshot_id):
        raise SnapshotDamaged(f"{path} names no snapshot; {REBUILD}")
    return Publication(snapshot_id, checked_at)


def read_kept(artifacts: Path) -> list[KeptSnapshot]:
    """Return the snapshots on disk, the newest build first; a damaged manifest is left out."""
    kept = []
    with suppress(OSError):
        for folder in (artifacts / SNAPSHOTS).iterdir():
            if is_snapshot_id(folder.name):
                manifest = read_json(folder / MANIFEST, KeptSnapshot)
                if manifest is not None and manifest.id == folder.name:
                    kept.append(manifest)
    return sorted(kept, key=lambda each: (each.built_at, each.id), reverse=True)


def read_others(artifacts: Path) -> tuple[list[KeptSnapshot], list[KeptSnapshot]]:
    """Return the other kept snapshots, those built before the published one and the later ones.

    The newest comes first in both. Where CURRENT or the manifest of the published one is damaged,
    the time of CURRENT takes the place of `built_at`: a rollback sets both to the same.
    """
    kept = read_kept(artifacts)
    try:
        current = read_current(artifacts)
    except SnapshotMissing:
        return [], []
    except SnapshotUnavailable:
        try:
            current = Publication("unknown", _time_of(artifacts / CURRENT))  # behind all ids
        except OSError:
            return kept, []
    times = {each.id: each.built_at for each in kept}
    served = times.get(current.id, current.checked_at), current.id
    others = [each for each in kept if each.id != current.id]
    later = [each for each in others if (each.built_at, each.id) > served]
    return others[len(later) :], later


def find_served(artifacts: Path) -> list[Path]:
    """Return the folder of the published snapshot, where there is one.

    Where CURRENT or its manifest is damaged, those of the others may take its place: they follow,
    the newest first.
    """
    try:
        names = [read_current(artifacts).id]
    except SnapshotMissing:
        return []
    except SnapshotUnavailable:
        names = []
    kept = [each.id for each in read_kept(artifacts)]
    if not set(names) & set(kept):
        names += kept
    return [artifacts / SNAPSHOTS / name for name in names]


def read_sources(artifacts: Path) -> list[SourceState]:
    """Return the sources of the last build, none where no build of this version wrote them."""
    return read_json(artifacts / SOURCES, list[SourceState]) or []


def is_snapshot_id(name: str) -> bool:
    """Return whether a name is the id of a snapshot: ID_DIGITS hexadecimal digits."""
    return _snapshot_id.fullmatch(name) is not None


def _time_of(path: Path) -> datetime:
    return EPOCH + timedelta(microseconds=path.stat().st_mtime_ns // 1000)
