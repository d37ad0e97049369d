"""Rolling back: the snapshot that was published before the served one is served again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from indexer.processes.resources import available_cpus
from indexer.progress import Progress
from indexer.publishing.publication import Publisher
from service.errors import SnapshotMissing, SnapshotUnavailable
from service.publishing.artifacts import stage, write_current, write_history
from service.publishing.downloads import make_downloads
from service.schema.values import format_timestamp
from service.snapshot.manifest import verify
from service.snapshot.publication import SNAPSHOTS, read_current, read_history


def roll_back(
    artifacts: Path,
    publisher: Publisher | None = None,
    switch: Callable[[str], None] | None = None,
) -> str:
    """Serve the newest whole snapshot that was published before the served one.

    The served snapshot is withdrawn: no rollback returns to it until a build publishes it again.
    Where replicas may follow, the snapshot gets downloads, and the pointer names it before CURRENT
    does. Returns a description of the rollback. Raises SnapshotMissing when there is no such
    snapshot, and ArtifactsBusy while a build is at work.

    switch: names the index of a snapshot by the alias of a cluster
    """
    if not (artifacts / SNAPSHOTS).is_dir():
        raise SnapshotMissing(f"{artifacts} holds no snapshot to go back to")
    publisher = publisher or Publisher()
    with stage(artifacts, keep=None):
        history = read_history(artifacts)
        try:
            served = read_current(artifacts).id
            history.pop()
        except SnapshotUnavailable:
            served = "unknown"
        damaged: list[str] = []
        while history:
            publication = history[-1]
            try:
                manifest = verify(artifacts / SNAPSHOTS / publication.id, available_cpus())
                break
            except SnapshotUnavailable as error:
                damaged.append(f"passed over {error}")
                history.pop()
        else:
            reasons = "".join(f"\n  {reason}" for reason in damaged)
            raise SnapshotMissing(f"{artifacts} holds no snapshot to go back to{reasons}")
        if switch is not None and manifest.index is not None:
            switch(manifest.index)
        notes = []
        if publisher.is_followed(artifacts):
            folder = artifacts / SNAPSHOTS / manifest.id
            try:
                make_downloads(artifacts, folder, manifest, served, available_cpus())
            except (OSError, SnapshotUnavailable) as error:
                notes.append(
                    f"its downloads cannot be made: {error}; replicas that do not keep "
                    f"{manifest.id} stay at {served}"
                )
            publisher.point(artifacts, manifest.id)
        write_history(artifacts, history)
        write_current(artifacts, publication.id, publication.checked_at)
        pushed = publisher.publish(artifacts, Progress())
    built_at = format_timestamp(manifest.built_at)
    done = (
        f"rolled back from {served} to {manifest.id}, built {built_at}, "
        f"{manifest.counts.services:,} services; "
        "the next build publishes again what its sources make"
    )
    if switch is None and manifest.index is not None:
        notes.append("the alias of the cluster was left; --opensearch-url switches it")
    return "\n".join([*damaged, done, *notes, *map(str, pushed)])
