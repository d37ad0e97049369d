"""Rolling back: the snapshot that was published before the served one is served again."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from indexer.snapshot.publish import NEVER, make_current, stage
from service.errors import SnapshotMissing, SnapshotUnavailable
from service.records import format_timestamp
from service.snapshot.snapshot import SNAPSHOTS, Manifest, list_snapshots, read_current, verify


def roll_back(artifacts: Path) -> str:
    """Serve the newest whole snapshot that was published before the served one.

    The one that was served is withdrawn: it is there no more to be gone back to, until a build
    publishes it again. Returns what was done, for a person to read. Raises SnapshotMissing when
    there is nothing to go back to, and Busy while a build is at work.
    """
    if not (artifacts / SNAPSHOTS).is_dir():
        raise SnapshotMissing(f"{artifacts} holds no snapshot to go back to")
    with stage(artifacts):
        served = _served(artifacts)
        manifest, damaged = _find_previous(artifacts, served)
        folder = artifacts / SNAPSHOTS / manifest.id
        with suppress(FileNotFoundError):  # what is lost need not be withdrawn
            os.utime(artifacts / SNAPSHOTS / served, (NEVER, NEVER))
        make_current(artifacts, manifest.id, folder.stat().st_mtime_ns)
    built_at = format_timestamp(manifest.built_at)
    done = (
        f"rolled back from {served} to {manifest.id}, built {built_at}, "
        f"{manifest.counts.services:,} services; "
        "the next build publishes again what its sources make"
    )
    return "\n".join([*(f"passed over {reason}" for reason in damaged), done])


def _served(artifacts: Path) -> str:
    """The id that `CURRENT` holds, or of no snapshot where it cannot be read."""
    try:
        return read_current(artifacts)[0]
    except SnapshotUnavailable:
        return "unknown"


def _find_previous(artifacts: Path, served: str) -> tuple[Manifest, list[str]]:
    """The manifest of the snapshot to go back to, and why newer ones were passed over."""
    damaged: list[str] = []
    for folder in list_snapshots(artifacts):
        if folder.name != served and folder.stat().st_mtime != NEVER:
            try:
                return verify(folder, threads=os.cpu_count() or 1), damaged
            except SnapshotUnavailable as error:
                damaged.append(str(error))
    passed = "".join(f"\n  passed over {reason}" for reason in damaged)
    raise SnapshotMissing(f"{artifacts} holds no snapshot to go back to{passed}")
