"""The data that earlier builds kept in their snapshots, for the builds after them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.columns.files import open_columns, write_columns
from indexer.columns.record_columns import RecordColumns, no_columns
from indexer.record_store import Run
from indexer.sources.fingerprint import hash_program
from service.errors import SnapshotUnavailable
from service.snapshot.manifest import SEGMENTS, File, read_manifest, sha256
from service.snapshot.publication import SNAPSHOTS
from service.storage import layouts
from service.storage.container import open_arrays

Offsets = npt.NDArray[np.int64]
NOT_KEPT = -1
"""Row of a record that is not kept."""
PROGRAM = "program"
"""The file with the hash of the program that a snapshot was built by."""
RECORDS = "records"
"""The folder of the columns of the records."""
COLUMNS = "columns"
"""The container of the columns, without its suffix."""


class KeptFolder(NamedTuple):
    """A folder of `segments/` in a snapshot, and its files as the manifest has them."""

    path: Path
    files: dict[str, File]

    def is_whole(self) -> bool:
        """Whether its files are those of the manifest, no more and no less."""
        try:
            paths = list(self.path.rglob("*"))
            if any(path.is_symlink() for path in (self.path, *paths)):
                return False
            names = {path.relative_to(self.path).as_posix() for path in paths if path.is_file()}
            return names == self.files.keys() and all(
                sha256(self.path / name) == file.sha256 for name, file in self.files.items()
            )
        except OSError:
            return False


class KeptRecords:
    """The stored records of an earlier snapshot, and their columns.

    file, offsets: those of the `RecordStore`
    """

    def __init__(self, file: BinaryIO, offsets: Offsets, columns: RecordColumns) -> None:
        self._file, self._offsets, self.columns = file, offsets, columns

    def run(self, start: int, stop: int) -> Run:
        """Return consecutive records."""
        offsets = self._offsets[start : stop + 1]
        content = os.pread(self._file.fileno(), int(offsets[-1] - offsets[0]) - 1, int(offsets[0]))
        sizes = (np.diff(offsets) - 1).tolist()
        return Run(content, sizes, self.columns.keys[start:stop].tobytes())


class Kept:
    """The data that the snapshots of a folder keep for a build by the same program, until closed.

    `snapshots` are their ids, the preferred ones first. What is damaged is as good as missing.
    """

    def __init__(self, artifacts: Path, snapshots: Sequence[str]) -> None:
        self._snapshots = [artifacts / SNAPSHOTS / each for each in snapshots]
        self._files = ExitStack()

    def close(self) -> None:
        """Close the files that are open."""
        self._files.close()

    def folders(self, name: str) -> Iterator[KeptFolder]:
        """Yield the folder of this name of each snapshot that has it; it may be damaged."""
        prefix = f"{SEGMENTS}/{name}/"
        for snapshot in self._snapshots:
            try:
                files = read_manifest(snapshot).files
                program = (snapshot / SEGMENTS / PROGRAM).read_text()
            except (SnapshotUnavailable, OSError, UnicodeDecodeError):
                continue
            own = {
                path.removeprefix(prefix): file
                for path, file in files.items()
                if path.startswith(prefix)
            }
            if own and program == hash_program():
                yield KeptFolder(snapshot / SEGMENTS / name, own)

    def whole(self, name: str) -> Iterator[Path]:
        """Yield the folder of this name of each snapshot where it is whole."""
        return (folder.path for folder in self.folders(name) if folder.is_whole())

    @cached_property
    def records(self) -> KeptRecords:
        """The records of the preferred snapshot that has their columns, none without one."""
        for folder in self.whole(RECORDS):
            snapshot = folder.parents[1]
            names = ("records.json", "records.arrays")
            with suppress(OSError, SnapshotUnavailable):
                files = read_manifest(snapshot).files
                if all(sha256(snapshot / name) == files[name].sha256 for name in names):
                    offsets = open_arrays(snapshot / "records", layouts.RECORDS)["offsets"]
                    file = self._files.enter_context((snapshot / names[0]).open("rb"))
                    return KeptRecords(file, offsets, open_columns(folder / COLUMNS))
        return KeptRecords(BytesIO(), np.zeros(1, np.int64), no_columns())


def keep(built: Path, columns: RecordColumns) -> None:
    """Write the columns of a snapshot that is being built, and the hash of the program."""
    folder = built / SEGMENTS / RECORDS
    folder.mkdir(parents=True)
    write_columns(folder / COLUMNS, columns)
    (built / SEGMENTS / PROGRAM).write_text(hash_program())
