"""The reuse store: files that a build leaves for the builds after it, by the hash of their content.

    artifacts/reuse/<SHA-256>.arrays   a segment, the columns of records, or results of reading
    artifacts/reuse/<id>.json          which of them the build of a snapshot left

They are neither served, copied nor verified with a snapshot. A build hashes each file before its
use. A failed write is a note of the report: the snapshot is published already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from indexer.columns.record_columns import RecordColumns, no_columns, open_columns
from indexer.intake.fingerprint import hash_program
from indexer.record_store import arrays_path
from service.errors import SnapshotUnavailable
from service.snapshot.manifest import File
from service.snapshot.publication import SNAPSHOTS
from service.storage.container import SUFFIX
from service.storage.files import read_json, sha256

REUSE = "reuse"

Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class ReuseIndex(Struct, frozen=True):
    """The program that a build ran, and the hashes of the files that it left."""

    program: str
    segments: list[Digest]
    columns: Digest
    results: Digest


class ReuseStore:
    """The files that the builds of some snapshots left for this program.

    `snapshots` are their ids, the preferred ones first. A damaged file counts as missing.
    """

    def __init__(self, artifacts: Path, snapshots: Sequence[str]) -> None:
        self._folder, self._snapshots = artifacts / REUSE, artifacts / SNAPSHOTS
        indexes = {each: read_json(self._folder / f"{each}.json", ReuseIndex) for each in snapshots}
        program = hash_program()
        self._indexes = {
            each: index for each, index in indexes.items() if index and index.program == program
        }

    def segments(self) -> Iterator[tuple[Path, File]]:
        """Yield the segments, by their paths without suffix."""
        for digest in dict.fromkeys(
            digest for index in self._indexes.values() for digest in index.segments
        ):
            path = self._verified(digest)
            if path is not None:
                yield path, File(arrays_path(path).stat().st_size, digest)

    @cached_property
    def columns(self) -> RecordColumns:
        """The columns of the records of the first snapshot that left whole ones, else none."""
        for index in self._indexes.values():
            path = self._verified(index.columns)
            if path is not None:
                with suppress(OSError, KeyError, SnapshotUnavailable):
                    return open_columns(path)
        return no_columns()

    def results(self) -> Path | None:
        """Return the whole file of results of the first snapshot that left one."""
        found = (self._verified(index.results) for index in self._indexes.values())
        return next((arrays_path(path) for path in found if path is not None), None)

    def _verified(self, digest: str) -> Path | None:
        """Return the path without suffix of a file that has this hash, None without one."""
        path = self._folder / digest
        with suppress(OSError):
            if sha256(arrays_path(path)) == digest:
                return path
        return None


def save(
    artifacts: Path,
    snapshot_id: str,
    segments: Sequence[tuple[Path, File]],
    columns: Path,
    results: Path,
) -> None:
    """Move the files that a build leaves to the store, and remove those that no snapshot uses.

    Of results, which are large and change little, those of this build stay alone.

    Called in `stage`, with paths without suffix. Files are not flushed to the disk: a build hashes
    each before its use, so that a torn one counts as missing. Raises OSError.
    """
    folder = artifacts / REUSE
    folder.mkdir(exist_ok=True)
    index = ReuseIndex(
        hash_program(),
        segments=[_move(path, file.sha256, folder) for path, file in segments],
        columns=_move(columns, sha256(arrays_path(columns)), folder),
        results=_move(results, sha256(arrays_path(results)), folder),
    )
    fresh = columns.with_name(f"{snapshot_id}.json")
    fresh.write_bytes(msgspec.json.encode(index))
    fresh.replace(folder / fresh.name)
    kept = {path.name for path in (artifacts / SNAPSHOTS).iterdir()}
    used = {index.results}
    for path in folder.glob("*.json"):
        each = read_json(path, ReuseIndex)
        if each is None or path.stem not in kept:
            path.unlink()
        else:
            used.update((*each.segments, each.columns))
    for path in folder.glob(f"*{SUFFIX}"):
        if path.name.removesuffix(SUFFIX) not in used:
            path.unlink()


def _move(path: Path, digest: str, folder: Path) -> str:
    """Move a file into the store, unless it is there; return its hash."""
    if path.parent != folder:
        arrays_path(path).replace(arrays_path(folder / digest))
    return digest
