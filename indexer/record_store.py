"""Writing and reading back the stores of JSON records, and the table of ids."""

from __future__ import annotations

import errno
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b, sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from service.snapshot.manifest import File
from service.storage.hash_table import text_hash, write_hash_table

KEY_SIZE = 16
"""The bytes of the hash of a record."""
Keys = npt.NDArray[np.uint8]
RECORDS = "records.json"
BUFFER = 2**18  # bytes that are read or written at a time
HASHED = 2**20  # bytes that are hashed at a time


def write_record_store(folder: Path, name: str, texts: Iterable[bytes]) -> int:
    """Write the files of a `RecordStore`; returns the count of texts."""
    offsets = array("q", [0])
    with (folder / f"{name}.json").open("wb", buffering=BUFFER) as file:
        for text in texts:
            if len(offsets) > 1:
                file.write(b",")
            file.write(text)
            offsets.append(offsets[-1] + len(text) + 1)
    np.save(folder / f"{name}.offsets.npy", np.asarray(offsets, np.int64))
    return len(offsets) - 1


def read_record_store(
    folder: Path, name: str, ordinals: Sequence[int] | None = None
) -> Iterator[bytes]:
    """Yield the texts of a store in order, or those of some ordinals.

    The file is read and not mapped: pages of a mapping would count as memory of the process.
    """
    offsets = load_array(folder / f"{name}.offsets.npy").tolist()
    path = folder / f"{name}.json"
    if ordinals is None:
        with path.open("rb", buffering=BUFFER) as file:
            for start, stop in pairwise(offsets):
                yield file.read(stop - start)[: stop - start - 1]
        return
    with path.open("rb", buffering=0) as file:
        for ordinal in ordinals:
            start, stop = offsets[ordinal : ordinal + 2]
            yield os.pread(file.fileno(), stop - start - 1, start)


def load_array(path: Path) -> npt.NDArray[Any]:
    """Read an array of this build; raises OSError for one that was not written whole.

    NumPy does not report that the end of an array could not be written.
    """
    try:
        array: npt.NDArray[Any] = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise OSError(errno.EIO, "was not written whole; is the disk full?", str(path)) from error
    return array


class Run(NamedTuple):
    """Consecutive records of a store, joined by commas; their sizes, and their hashes in a row."""

    content: bytes
    sizes: Sequence[int]
    keys: bytes


def run_of(text: bytes) -> Run:
    """Return one record as a run."""
    return Run(text, (len(text),), record_key(text))


def record_key(text: bytes) -> bytes:
    """Return the hash of a record."""
    return blake2b(text, digest_size=KEY_SIZE).digest()


def write_records(folder: Path, runs: Iterable[Run]) -> tuple[Keys, dict[str, File]]:
    """Write the stored services in listing order, and 64 bits of the hash of each for entity tags.

    Returns the hashes, uint8[services, KEY_SIZE], and the file of the records, the largest one.
    """
    digests, sizes = bytearray(), array("q", [0])
    with (folder / RECORDS).open("wb") as file, ThreadPoolExecutor(1) as thread:
        writer = _HashingWriter(file, thread)
        for run in runs:
            if digests:
                writer.write(b",")
            writer.write(run.content)
            sizes.extend(run.sizes)
            digests += run.keys
        records = writer.finish()
    offsets = np.cumsum(np.asarray(sizes, np.int64) + 1) - 1
    np.save(folder / "records.offsets.npy", offsets)
    keys = np.frombuffer(bytes(digests), np.uint8).reshape(-1, KEY_SIZE)
    np.save(folder / "tags.npy", np.ascontiguousarray(keys[:, :8]).view("<u8").ravel())
    return keys, {RECORDS: records}


def write_ids(folder: Path, ids: list[str]) -> None:
    """Write the files of an `IdTable`: ids in listing order, and ordinals by the hashes of ids."""
    write_record_store(folder, "ids", (b'"%b"' % service_id.encode() for service_id in ids))
    hashes = np.fromiter(map(text_hash, ids), np.uint64, len(ids))
    write_hash_table(folder / "ids", hashes, np.arange(len(ids), dtype=np.int32))


class _HashingWriter:
    """Writes a file, and hashes in a thread what is written."""

    def __init__(self, file: BinaryIO, thread: ThreadPoolExecutor) -> None:
        self._file, self._thread = file, thread
        self._digest = sha256()
        self._pieces: list[bytes] = []
        self._size = 0
        self._hashed: Future[None] | None = None

    def write(self, content: bytes) -> None:
        """Add the next bytes."""
        self._pieces.append(content)
        self._size += len(content)
        if self._size >= HASHED:
            self._flush()

    def finish(self) -> File:
        """Write the last bytes; returns the size and the hash of the file."""
        self._flush()
        self._wait()
        return File(self._file.tell(), self._digest.hexdigest())

    def _flush(self) -> None:
        content = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        self._wait()
        self._hashed = self._thread.submit(self._digest.update, content)
        self._file.write(content)

    def _wait(self) -> None:
        if self._hashed is not None:
            self._hashed.result()
