"""Rolling back: an earlier snapshot is served again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from indexer.text import count_of
from indexer.whoosh_index import update_whoosh_index
from service.artifacts.downloads import make_downloads, name_current, read_downloads
from service.artifacts.publishing import stage, write_current
from service.errors import SnapshotMissing, SnapshotUnavailable
from service.schema.values import format_timestamp
from service.snapshot.manifest import Manifest, read_manifest, verify
from service.snapshot.publication import SNAPSHOTS, KeptSnapshot, read_current, read_others


def roll_back(artifacts: Path, switch: Callable[[Manifest], None] | None = None) -> str:
    """Serve the newest whole snapshot built before the served one, else the newest other one.

    `current.json` names it before CURRENT does, so that no copy gets what was rolled back. Returns
    a description of the rollback. Raises SnapshotMissing when there is no such snapshot, and
    ArtifactsBusy while a build is at work.

    switch: names the index of a snapshot by the alias of a cluster
    """
    if not (artifacts / SNAPSHOTS).is_dir():
        raise SnapshotMissing(f"{artifacts} holds no snapshot to go back to")
    with stage(artifacts, keep=None):
        earlier, later = read_others(artifacts)
        manifest, damaged = _find_whole(artifacts, [*earlier, *later])
        served, denials = _served(artifacts)
        if switch is not None:
            switch(manifest)
        notes = []
        if read_downloads(artifacts, served):
            try:
                make_downloads(artifacts, artifacts / SNAPSHOTS / manifest.id, manifest)
            except (OSError, SnapshotUnavailable) as error:
                notes.append(f"its downloads cannot be made: {error}; nobody can copy it")
        name_current(artifacts, manifest, manifest.built_at)
        write_current(artifacts, manifest.id, manifest.built_at)
        notes += update_whoosh_index(artifacts, manifest.id)
    done = f"rolled back from {served} to {manifest.id}"
    if all(manifest.id != each.id for each in earlier):
        older = "older snapshot that is whole" if earlier else "older snapshot"
        done = f"there is no {older}: serves the newest other one, {manifest.id}"
    done += (
        f", built {format_timestamp(manifest.built_at)}, "
        f"{count_of(manifest.counts.services, 'service')}; "
        "the next build publishes again what its sources make"
    )
    if lacking := len(denials.difference(manifest.denials)):
        done += f"\nit lacks {count_of(lacking, 'denial')} since then, which the next build applies"
    return "\n".join([*damaged, done, *notes])


def _find_whole(artifacts: Path, others: list[KeptSnapshot]) -> tuple[Manifest, list[str]]:
    """Return the first whole one of these snapshots, and the damaged ones before it."""
    damaged: list[str] = []
    for each in others:
        try:
            return verify(artifacts / SNAPSHOTS / each.id), damaged
        except SnapshotUnavailable as error:
            damaged.append(f"passed over {error}")
    reasons = "".join(f"\n  {reason}" for reason in damaged)
    raise SnapshotMissing(f"{artifacts} holds no snapshot to go back to{reasons}")


def _served(artifacts: Path) -> tuple[str, set[str]]:
    """Return the id and the denials of the served snapshot, as far as they can be read."""
    served = "unknown"
    with suppress(SnapshotUnavailable):
        served = read_current(artifacts).id
        return served, {*read_manifest(artifacts / SNAPSHOTS / served).denials}
    return served, set()
