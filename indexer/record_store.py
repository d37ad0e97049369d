"""Spools of texts, and writing the stores of JSON records and the table of ids."""

from __future__ import annotations

import os
import tempfile
import weakref
from array import array
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from hashlib import blake2b, sha256
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from service.snapshot.manifest import File
from service.storage.container import write_arrays, writing_arrays
from service.storage.hash_table import text_hash, write_hash_table
from service.storage.layouts import RECORD_STORE, RECORDS

KEY_SIZE = 16
"""The bytes of the hash of a record."""
Keys = npt.NDArray[np.uint8]
RECORDS_FILE = "records.json"
HASHED = 2**20  # bytes that are hashed at a time
BUFFER = 2**18  # bytes of a spool


class Spool:
    """Texts by their numbers, in a file without a name; `offsets` has where each starts."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file = tempfile.TemporaryFile(  # noqa: SIM115  # closed with the spool
            dir=folder, buffering=BUFFER
        )
        weakref.finalize(self, _discard, self._file)
        self.offsets = array("q", [0])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def add(self, text: bytes) -> int:
        """Write a text; returns its number."""
        self._file.write(text)
        self.offsets.append(self.offsets[-1] + len(text))
        return len(self) - 1

    def read(self, number: int, count: int = 1) -> bytes:
        """Return a text, or several that follow each other."""
        start, stop = self.offsets[number], self.offsets[number + count]
        self._file.flush()  # what was written may be read at once
        return os.pread(self._file.fileno(), stop - start, start)


def _discard(file: IO[bytes]) -> None:
    with suppress(OSError):  # a full disk cannot take what is buffered, which nobody needs
        file.close()


def write_record_store(folder: Path, name: str, texts: Iterable[bytes]) -> int:
    """Write the file of a `RecordStore`; returns the count of texts."""
    with writing_arrays(folder / name, RECORD_STORE) as writer:
        sizes = writer.stream("texts", _joined(texts))
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        offsets[1:] += 1  # the comma that follows is a part of the next piece
        writer.write("offsets", offsets)
    return len(sizes)


def _joined(texts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield texts, each after the first with a comma before it."""
    comma = b""
    for text in texts:
        yield comma + text
        comma = b","


class RecordRun(NamedTuple):
    """Consecutive records of a store, joined by commas; their sizes, and their hashes in a row."""

    content: bytes | memoryview
    sizes: Sequence[int]
    keys: bytes


def run_of(text: bytes) -> RecordRun:
    """Return one record as a run."""
    return RecordRun(text, (len(text),), record_key(text))


def record_key(text: bytes) -> bytes:
    """Return the hash of a record."""
    return blake2b(text, digest_size=KEY_SIZE).digest()


def write_records(folder: Path, runs: Iterable[RecordRun]) -> tuple[Keys, dict[str, File]]:
    """Write the stored services in listing order, and 64 bits of the hash of each for entity tags.

    Returns the hashes, uint8[services, KEY_SIZE], and the file of the records, the largest one.
    """
    digests, sizes = bytearray(), array("q", [0])
    with (folder / RECORDS_FILE).open("wb") as file, ThreadPoolExecutor(1) as thread:
        writer = _HashingWriter(file, thread)
        for run in runs:
            if digests:
                writer.write(b",")
            writer.write(run.content)
            sizes.extend(run.sizes)
            digests += run.keys
        records = writer.finish()
    offsets = np.cumsum(np.asarray(sizes, np.int64) + 1) - 1
    keys = np.frombuffer(bytes(digests), np.uint8).reshape(-1, KEY_SIZE)
    tags = np.ascontiguousarray(keys[:, :8]).view("<u8").ravel()
    write_arrays(folder / "records", RECORDS, {"offsets": offsets, "tags": tags})
    return keys, {RECORDS_FILE: records}


def write_ids(folder: Path, ids: list[str]) -> None:
    """Write the files of an `IdTable`: ids in listing order, and ordinals by the hashes of ids."""
    write_record_store(folder, "ids", (b'"%b"' % service_id.encode() for service_id in ids))
    hashes = np.fromiter(map(text_hash, ids), np.uint64, len(ids))
    write_hash_table(folder / "id_hashes", hashes, np.arange(len(ids), dtype=np.int32))


class _HashingWriter:
    """Writes a file, and hashes its content in a thread."""

    def __init__(self, file: BinaryIO, thread: ThreadPoolExecutor) -> None:
        self._file, self._thread = file, thread
        self._digest = sha256()
        self._pieces: list[bytes | memoryview] = []
        self._size = 0
        self._hashed: Future[None] | None = None

    def write(self, content: bytes | memoryview) -> None:
        """Add the next bytes."""
        for start in range(0, len(content), HASHED):
            piece = content[start : start + HASHED]
            self._pieces.append(piece)
            self._size += len(piece)
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
