"""Files that a build leaves for the next one: derived columns, and the results of reading.

They are neither served, copied nor verified with a snapshot. Each has a fixed name in a folder of
the artifacts; a description beside them has their hashes, and a file of another hash, as a crash
leaves it, counts as missing. A failed write is a note of the report: the snapshot is published.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from indexer.derive.columns import RecordColumns, open_columns
from indexer.intake.fingerprint import hash_program
from service.arrays.files import read_json, sha256
from service.errors import SnapshotUnavailable

REUSE = "reuse"
COLUMNS, RESULTS = "columns.arrays", "results.sqlite"
DESCRIPTION = "files.json"


class Kept(Struct, frozen=True):
    """The program that a build ran, its encoder, and the hashes of the files that it left."""

    program: str
    encoder: str
    columns: str
    results: str


class ReuseStore:
    """The files that the last build to an artifacts folder left, if it ran this program."""

    def __init__(self, artifacts: Path, *, is_empty: bool = False) -> None:
        self._folder = artifacts / REUSE
        kept = None if is_empty else read_json(self._folder / DESCRIPTION, Kept)
        self._kept = kept if kept and kept.program == hash_program() else None

    def columns(self, encoder: str) -> RecordColumns | None:
        """Return whole columns with vectors of an encoder, if there are any."""
        path = self._folder / COLUMNS
        if self._kept and self._kept.encoder == encoder and _has_hash(path, self._kept.columns):
            with suppress(OSError, KeyError, SnapshotUnavailable):
                return open_columns(path)
        return None

    def results(self) -> Path | None:
        """Return the path of the whole file of results, if there is one."""
        path = self._folder / RESULTS
        is_whole = self._kept and _has_hash(path, self._kept.results)
        return path if is_whole else None


def save(artifacts: Path, encoder: str, columns: Path, results: Path) -> None:
    """Move the files that a build leaves to the store.

    Called in `stage`. Files are not flushed to the disk, as the next build hashes them. Raises
    OSError.
    """
    folder = artifacts / REUSE
    folder.mkdir(exist_ok=True)
    kept = Kept(hash_program(), encoder, sha256(columns), sha256(results))
    for path, name in ((columns, COLUMNS), (results, RESULTS)):
        path.replace(folder / name)
    description = columns.with_name(DESCRIPTION)
    description.write_bytes(msgspec.json.encode(kept))
    description.replace(folder / DESCRIPTION)


def _has_hash(path: Path, digest: str) -> bool:
    with suppress(OSError):
        return sha256(path) == digest
    return False
