"""The reuse store: files that a build leaves for the builds after it, by the hash of their content.

    artifacts/reuse/<SHA-256>.arrays   a segment, the columns of records, or facts of source records
    artifacts/reuse/<id>.json          which of them the build of a snapshot left

Nothing of it is served, copied or verified with a snapshot. Every file is hashed before it is used,
and a build that cannot write here has made its snapshot all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from indexer.columns.files import open_columns
from indexer.columns.record_columns import RecordColumns, no_columns
from indexer.record_store import Run
from indexer.sources.fingerprint import hash_program
from service.errors import SnapshotUnavailable
from service.snapshot.manifest import File, read_manifest, sha256
from service.snapshot.publication import SNAPSHOTS
from service.storage.container import SUFFIX, arrays_path
from service.storage.record_store import Records

REUSE = "reuse"
NOT_KEPT = -1
"""Row of a record that is not kept."""
RECORD_FILES = ("records.json", "records.arrays")

Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class Leftovers(Struct, frozen=True):
    """The hashes of the files that a build by some program left."""

    program: str
    segments: list[Digest]
    columns: Digest
    facts: Digest

    @property
    def digests(self) -> list[str]:
        """All hashes."""
        return [*self.segments, self.columns, self.facts]


_leftovers = msgspec.json.Decoder(Leftovers)


class KeptRecords:
    """The stored records of an earlier snapshot, and their columns; none without a folder."""

    def __init__(self, folder: Path | None = None, columns: RecordColumns | None = None) -> None:
        self._records = None if folder is None else Records(folder)
        self.columns = no_columns() if columns is None else columns

    def run(self, start: int, stop: int) -> Run:
        """Return consecutive records, whose content is a part of a map of their file."""
        if self._records is None:
            raise IndexError("there are no kept records")
        sizes = [self._records.view(row).nbytes for row in range(start, stop)]
        content = self._records.slice(start, stop)
        return Run(content, sizes, self.columns.keys[start:stop].tobytes())


class ReuseStore:
    """The files that the builds of some snapshots left for this program.

    `snapshots` are their ids, the preferred ones first. What is damaged is as good as missing.
    """

    def __init__(self, artifacts: Path, snapshots: Sequence[str]) -> None:
        self._folder, self._snapshots = artifacts / REUSE, artifacts / SNAPSHOTS
        read = {each: self._read(each) for each in snapshots}
        program = hash_program()
        self._leftovers = {
            each: left for each, left in read.items() if left and left.program == program
        }

    def segments(self) -> Iterator[tuple[Path, File]]:
        """Yield the segments, by their paths without suffix."""
        for digest in dict.fromkeys(
            digest for left in self._leftovers.values() for digest in left.segments
        ):
            path = self._whole(digest)
            if path is not None:
                yield path, File(arrays_path(path).stat().st_size, digest)

    def facts(self) -> Iterator[Path]:
        """Yield the facts of source records, by their paths without suffix."""
        for left in self._leftovers.values():
            path = self._whole(left.facts)
            if path is not None:
                yield path

    @cached_property
    def records(self) -> KeptRecords:
        """The records of the preferred snapshot whose columns are here, none without one."""
        for snapshot_id, left in self._leftovers.items():
            snapshot = self._snapshots / snapshot_id
            columns = self._whole(left.columns)
            if columns is None:
                continue
            with suppress(OSError, SnapshotUnavailable):
                files = read_manifest(snapshot).files
                if all(sha256(snapshot / name) == files[name].sha256 for name in RECORD_FILES):
                    return KeptRecords(snapshot, open_columns(columns))
        return KeptRecords()

    def _whole(self, digest: str) -> Path | None:
        """Return the path without suffix of a file, None if it is missing or damaged."""
        path = self._folder / digest
        with suppress(OSError):
            if sha256(arrays_path(path)) == digest:
                return path
        return None

    def _read(self, snapshot_id: str) -> Leftovers | None:
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return _leftovers.decode((self._folder / f"{snapshot_id}.json").read_bytes())
        return None


def save(
    artifacts: Path,
    snapshot_id: str,
    segments: Sequence[tuple[Path, File]],
    columns: Path,
    facts: Path,
) -> None:
    """Move the files that a build leaves to the store, and remove those of no kept snapshot.

    Called in `stage`, with paths without suffix. Nothing is flushed to the disk: whatever a crash
    leaves is hashed before it is used. Raises OSError.
    """
    folder = artifacts / REUSE
    folder.mkdir(exist_ok=True)
    left = Leftovers(
        hash_program(),
        [_move(path, file.sha256, folder) for path, file in segments],
        *(_move(path, sha256(arrays_path(path)), folder) for path in (columns, facts)),
    )
    fresh = columns.with_name(f"{snapshot_id}.json")
    fresh.write_bytes(msgspec.json.encode(left))
    fresh.replace(folder / fresh.name)
    kept = {path.name for path in (artifacts / SNAPSHOTS).iterdir()}
    used: set[str] = set()
    for path in folder.glob("*.json"):
        try:
            index = _leftovers.decode(path.read_bytes())
        except (msgspec.MsgspecError, UnicodeDecodeError):
            index = None
        if index is None or path.stem not in kept:
            path.unlink()
        else:
            used.update(index.digests)
    for path in folder.glob(f"*{SUFFIX}"):
        if path.name.removesuffix(SUFFIX) not in used:
            path.unlink()


def _move(path: Path, digest: str, folder: Path) -> str:
    """Move a file into the store, unless it lies there; returns its hash."""
    if path.parent != folder:
        arrays_path(path).replace(arrays_path(folder / digest))
    return digest
