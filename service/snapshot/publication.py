"""The published snapshot of an artifacts folder, and the ones published before it.

    artifacts/CURRENT          the id of the snapshot to serve, in one line; the time of the file is
                               when a build last found that the snapshot is up to date
    artifacts/history.json     the publications up to that of CURRENT, oldest first
    artifacts/snapshots/<id>/  the snapshots

CURRENT alone decides which snapshot is served. The history is written before CURRENT, so that its
entries after that of CURRENT were withdrawn, or never became current. In a folder that has neither,
such as one that an archive was extracted to, the only snapshot is the published one.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec

from service.errors import REBUILD, SnapshotDamaged, SnapshotMissing, SnapshotUnavailable
from service.schema.values import EPOCH
from service.snapshot.manifest import MANIFEST, read_manifest

CURRENT = "CURRENT"
HISTORY = "history.json"
SNAPSHOTS = "snapshots"


class Publication(NamedTuple):
    """A snapshot that was published, and when a build last found it up to date."""

    id: str
    checked_at: datetime


_history = msgspec.json.Decoder(list[Publication])


def read_current(artifacts: Path) -> Publication:
    """Return the published snapshot; raises SnapshotUnavailable."""
    path = artifacts / CURRENT
    try:
        snapshot_id = path.read_text("ascii").strip()
        modified = path.stat().st_mtime_ns
    except FileNotFoundError as error:
        if (extracted := _read_extracted(artifacts)) is not None:
            return extracted
        raise SnapshotMissing(
            f"{artifacts} holds no snapshot; run `make index` or "
            f"`ratecard build SOURCE --out {artifacts}`"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise SnapshotUnavailable(f"{path} cannot be read: {error}") from error
    if not snapshot_id.isalnum():
        raise SnapshotDamaged(f"{path} names no snapshot; {REBUILD}")
    return Publication(snapshot_id, EPOCH + timedelta(microseconds=modified // 1000))


def _read_extracted(artifacts: Path) -> Publication | None:
    """Return the only snapshot of a folder that no build has written to."""
    if (artifacts / HISTORY).exists():
        return None
    manifests = list((artifacts / SNAPSHOTS).glob(f"*/{MANIFEST}"))
    if len(manifests) != 1:
        return None
    manifest = read_manifest(manifests[0].parent)
    return Publication(manifests[0].parent.name, manifest.built_at)


def read_history(artifacts: Path) -> list[Publication]:
    """Return the publications up to the current one, oldest first, each snapshot once.

    Without a history, or with a damaged one, only the current publication is known. Where CURRENT
    cannot be read, all recorded publications are returned.
    """
    try:
        history = _history.decode((artifacts / HISTORY).read_bytes())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        history = []
    try:
        current = read_current(artifacts)
    except SnapshotUnavailable:
        pass
    else:
        ids = [publication.id for publication in history]
        if current.id in ids:
            history = history[: len(ids) - 1 - ids[::-1].index(current.id)]
        history.append(current)
    newest_first = {publication.id: publication for publication in reversed(history)}
    return list(newest_first.values())[::-1]
