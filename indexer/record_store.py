"""Spools of texts, and writing the stored services."""

from __future__ import annotations

import os
import tempfile
import weakref
from array import array
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from service.storage.container import SUFFIX, write_arrays

KEY_SIZE = 16
"""The bytes of the hash of a record."""
Keys = npt.NDArray[np.uint8]
BUFFER = 2**18  # bytes


class Spool:
    """Texts by their numbers, in a file without a name.

    folder: of the file, by default that of temporary files
    offsets: int64[texts + 1], where each text starts, and where the last one stops
    """

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


def record_key(text: bytes) -> bytes:
    """Return the hash of a record."""
    return blake2b(text, digest_size=KEY_SIZE).digest()


def write_records(folder: Path, texts: Iterable[bytes]) -> Keys:
    """Write the stored services in listing order, and the hash of each.

    Returns the hashes, uint8[services, KEY_SIZE].
    """
    digests, sizes = bytearray(), array("q")
    with (folder / "records.json").open("wb", BUFFER) as file:
        for text in texts:
            if digests:
                file.write(b",")
            file.write(text)
            sizes.append(len(text))
            digests += record_key(text)
    keys = np.frombuffer(bytes(digests), np.uint8).reshape(-1, KEY_SIZE)
    offsets = np.cumsum([0, *(size + 1 for size in sizes)])
    arrays = {"offsets": offsets, "hashes": keys.view("<u8")}
    write_arrays(folder / "records.arrays", arrays)
    return keys


def arrays_path(path: Path) -> Path:
    """Return the path of a file of arrays."""
    return path.with_name(path.name + SUFFIX)
