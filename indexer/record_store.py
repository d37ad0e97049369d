"""Spools of texts, and writing the stored services."""

from __future__ import annotations

import errno
import os
import tempfile
import weakref
from array import array
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

from service.arrays.container import write_arrays

KEY_SIZE = 16
"""The bytes of the hash of a record."""
Keys = npt.NDArray[np.uint8]
BUFFER = 2**18  # bytes


class Spool:
    """Texts by their numbers, in a file of a folder, by default that of temporary files."""

    def __init__(self, folder: Path | None = None) -> None:
        # Without a buffer there is nothing to write at the end, which a full disk would refuse.
        self._file = tempfile.TemporaryFile(  # noqa: SIM115  # closed with the spool
            dir=folder, buffering=0
        )
        weakref.finalize(self, self._file.close)
        self._offsets = array("q", [0])

    def add(self, text: bytes) -> int:
        """Write a text; returns its number."""
        if self._file.write(text) != len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._offsets.append(self._offsets[-1] + len(text))
        return len(self._offsets) - 2

    def read(self, number: int) -> bytes:
        """Return a text."""
        start, stop = self._offsets[number : number + 2]
        return os.pread(self._file.fileno(), stop - start, start)


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
