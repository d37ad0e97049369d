"""The reuse store: files that a build leaves for the builds after it, by the hash of their content.

    artifacts/reuse/<SHA-256>.arrays   a segment, the columns of records, or facts of source records
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
from indexer.record_store import RecordRun
from service.errors import SnapshotUnavailable
from service.snapshot.manifest import File, read_manifest, sha256
from service.snapshot.publication import SNAPSHOTS
from service.storage.container import SUFFIX, arrays_path
from service.storage.json_file import read_json
from service.storage.record_store import Records

REUSE = "reuse"
RECORD_FILES = ("records.json", "records.arrays")

Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class ReuseIndex(Struct, frozen=True):
    """The program that a build ran, and the hashes of the files that it left."""

    program: str
    segments: list[Digest]
    columns: Digest
    facts: Digest

    @property
    def digests(self) -> list[str]:
        """All hashes."""
        return [*self.segments, self.columns, self.facts]


class KeptRecords:
    """Stored records of an earlier snapshot, with their columns; no records without a folder."""

    def __init__(self, folder: Path | None = None, columns: RecordColumns | None = None) -> None:
        self._records = None if folder is None else Records(folder)
        self.columns = no_columns() if columns is None else columns

    def run(self, start: int, stop: int) -> RecordRun:
        """Return the records from `start` to `stop`; the content is a view of the mapped file."""
        if self._records is None:
            raise IndexError("there are no kept records")
        sizes = [self._records.view(row).nbytes for row in range(start, stop)]
        content = self._records.slice(start, stop)
        return RecordRun(content, sizes, self.columns.keys[start:stop].tobytes())


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

    def facts(self) -> Iterator[Path]:
        """Yield the facts of source records, by their paths without suffix."""
        for index in self._indexes.values():
            path = self._verified(index.facts)
            if path is not None:
                yield path

    @cached_property
    def records(self) -> KeptRecords:
        """The records of the first snapshot whose records and columns are whole, else none."""
        for snapshot_id, index in self._indexes.items():
            snapshot = self._snapshots / snapshot_id
            columns = self._verified(index.columns)
            if columns is None:
                continue
            with suppress(OSError, KeyError, SnapshotUnavailable):
                files = read_manifest(snapshot).files
                if all(sha256(snapshot / name) == files[name].sha256 for name in RECORD_FILES):
                    return KeptRecords(snapshot, open_columns(columns))
        return KeptRecords()

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
    facts: Path,
) -> None:
    """Move the files that a build leaves to the store, and remove those that no snapshot uses.

    Called in `stage`, with paths without suffix. Files are not flushed to the disk: a build hashes
    each before its use, so that a torn one counts as missing. Raises OSError.
    """
    folder = artifacts / REUSE
    folder.mkdir(exist_ok=True)
    index = ReuseIndex(
        hash_program(),
        segments=[_move(path, file.sha256, folder) for path, file in segments],
        columns=_move(columns, sha256(arrays_path(columns)), folder),
        facts=_move(facts, sha256(arrays_path(facts)), folder),
    )
    fresh = columns.with_name(f"{snapshot_id}.json")
    fresh.write_bytes(msgspec.json.encode(index))
    fresh.replace(folder / fresh.name)
    kept = {path.name for path in (artifacts / SNAPSHOTS).iterdir()}
    used: set[str] = set()
    for path in folder.glob("*.json"):
        each = read_json(path, ReuseIndex)
        if each is None or path.stem not in kept:
            path.unlink()
        else:
            used.update(each.digests)
    for path in folder.glob(f"*{SUFFIX}"):
        if path.name.removesuffix(SUFFIX) not in used:
            path.unlink()


def _move(path: Path, digest: str, folder: Path) -> str:
    """Move a file into the store, unless it is there; return its hash."""
    if path.parent != folder:
        arrays_path(path).replace(arrays_path(folder / digest))
    return digest
