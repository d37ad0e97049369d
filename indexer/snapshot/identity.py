"""The files of a snapshot being built, and the snapshot it follows."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

from indexer.snapshot.compare import Changes, count_changes
from service.errors import SnapshotUnavailable
from service.publishing.artifacts import walk
from service.snapshot.manifest import File, Manifest, read_manifest, sha256, verify
from service.snapshot.publication import SNAPSHOTS, read_current


def list_files(
    folder: Path, threads: int, known: Mapping[str, File] = MappingProxyType({})
) -> dict[str, File]:
    """Return each file by its path in the folder; `known` ones are not read again."""
    paths = (Path(parent, name) for parent, names in walk(folder) for name in names)
    by_name = {path.relative_to(folder).as_posix(): path for path in sorted(paths)}
    unknown = [path for name, path in by_name.items() if name not in known]
    with ThreadPoolExecutor(threads) as pool:
        described = dict(zip(unknown, pool.map(_describe, unknown), strict=True))
    return dict(known) | {
        name: described[path] for name, path in by_name.items() if name not in known
    }


def find_whole(artifacts: Path, snapshot_id: str, threads: int) -> Manifest | None:
    """Return the manifest of the existing snapshot of this id if it is whole, or None."""
    try:
        return verify(artifacts / SNAPSHOTS / snapshot_id, threads)
    except SnapshotUnavailable:
        return None


def since_last(artifacts: Path, built: Path) -> tuple[str, Changes | None]:
    """Return the id of the served snapshot, and how the one in `built` differs, if known."""
    served = ""
    try:
        served = read_current(artifacts).id
        folder = artifacts / SNAPSHOTS / served
        read_manifest(folder)  # another format has other hashes
        return served, count_changes(folder, built)
    except SnapshotUnavailable:
        return served, None


def _describe(path: Path) -> File:
    return File(path.stat().st_size, sha256(path))
