"""A sorted list of strings in two plain arrays."""

from __future__ import annotations

import mmap
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt

from service.storage.hash_table import (
    MASK,
    MULTIPLIER,
    HashTable,
    open_hash_table,
    write_hash_table,
)
from service.storage.memory_map import items_of, open_array, open_bytes

LEADING = 8
"""Bytes of each string that are also kept as a number, to find prefixes with."""


class StringTable:
    """Distinct strings in the order of their UTF-8 bytes, found by value, prefix and number."""

    def __init__(
        self,
        text: bytes | mmap.mmap,
        offsets: npt.NDArray[np.int64],
        leading: npt.NDArray[np.uint64],
        buckets: HashTable,
    ):
        self._text = text
        self._offsets = items_of(offsets)
        self._leading = items_of(leading)
        self._buckets = buckets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> str:
        return self.encoded(number).decode()

    def encoded(self, number: int) -> bytes:
        """The UTF-8 bytes of a string."""
        return self._text[self._offsets[number] : self._offsets[number + 1]]

    def find(self, string: str) -> int:
        """The number of a string, or -1."""
        wanted = string.encode()
        text, offsets = self._text, self._offsets
        for number in self._buckets.of((string_hash(wanted),)):
            if text[offsets[number] : offsets[number + 1]] == wanted:
                return number
        return -1

    def with_prefix(self, prefix: str) -> range:
        """The numbers of all strings that begin with a prefix."""
        first = prefix.encode()
        # No byte of UTF-8 is 0xFF, so this sorts after whatever begins with the prefix.
        beyond = first + b"\xff" * LEADING
        start = bisect_left(self._leading, leading_number(first))
        last = leading_number(beyond)
        if start == len(self) or self._leading[start] > last:
            # Most misspelt words begin no other: the second search is for those that do.
            return range(start, start)
        end = bisect_right(self._leading, last, lo=start)
        if len(first) > LEADING:
            alike = range(start, end)
            start = alike.start + bisect_left(alike, first, key=self.encoded)
            end = alike.start + bisect_left(alike, beyond, key=self.encoded)
        return range(start, end)


def leading_number(encoded: bytes) -> int:
    """The first bytes of a string as a number that orders as they do."""
    return int.from_bytes(encoded[:LEADING].ljust(LEADING, b"\0"), "big")


def string_hash(encoded: bytes) -> int:
    """64 bits of hash, of which the highest 32 are well spread."""
    return crc32(encoded) * MULTIPLIER & MASK


def write_string_table(path: Path, strings: Sequence[bytes]) -> None:
    """Write strings that are distinct and in ascending order."""
    Path(f"{path}.utf8").write_bytes(b"".join(strings))
    offsets = np.zeros(len(strings) + 1, dtype=np.int64)
    np.cumsum([len(string) for string in strings], out=offsets[1:])
    np.save(f"{path}.offsets.npy", offsets)
    np.save(
        f"{path}.leading.npy",
        np.fromiter(map(leading_number, strings), dtype=np.uint64, count=len(strings)),
    )
    hashes = np.fromiter(map(string_hash, strings), dtype=np.uint64, count=len(strings))
    write_hash_table(path, hashes, np.arange(len(strings), dtype=np.int32))


def open_string_table(path: Path) -> StringTable:
    """Map what `write_string_table` wrote."""
    offsets, leading = (open_array(Path(f"{path}.{part}.npy")) for part in ("offsets", "leading"))
    return StringTable(open_bytes(Path(f"{path}.utf8")), offsets, leading, open_hash_table(path))
