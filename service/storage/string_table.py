"""A sorted list of distinct strings in plain arrays."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import numpy as np

from service.storage.hash_table import HASH_MASK, HashTable, write_hash_table
from service.storage.memory_map import items_of, open_array, open_bytes

HEAD = 8
"""Leading bytes of each string that are also stored as an integer, for searching by prefix."""
GOLDEN_RATIO = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio, the multiplier of Fibonacci hashing."""


class StringTable:
    """Strings in the order of their UTF-8 bytes, found by value, by prefix and by number.

    `<path>.utf8` holds the strings end to end, `<path>.offsets.npy` (int64[strings + 1]) the byte
    at which each begins, `<path>.heads.npy` (uint64[strings]) the head of each.
    """

    def __init__(self, path: Path) -> None:
        self._text = open_bytes(Path(f"{path}.utf8"))
        self._offsets = items_of(open_array(Path(f"{path}.offsets.npy")))
        self._heads = items_of(open_array(Path(f"{path}.heads.npy")))
        self._numbers = HashTable(path)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> str:
        return self.encoded(number).decode()

    def encoded(self, number: int) -> bytes:
        """Return the UTF-8 bytes of a string."""
        return self._text[self._offsets[number] : self._offsets[number + 1]]

    def find(self, string: str) -> int:
        """Return the number of a string, or -1."""
        encoded = string.encode()
        text, offsets = self._text, self._offsets
        for number in self._numbers.candidates((_hash(encoded),)):
            if text[offsets[number] : offsets[number + 1]] == encoded:
                return number
        return -1

    def with_prefix(self, prefix: str) -> range:
        """Return the numbers of all strings that begin with a prefix."""
        lowest = prefix.encode()
        # No byte of UTF-8 is 0xFF, so this sorts after every string with the prefix.
        highest = lowest + b"\xff" * HEAD
        start = bisect_left(self._heads, _head(lowest))
        last = _head(highest)
        if start == len(self) or self._heads[start] > last:
            # Most misspelt words are a prefix of no other, which saves the second search.
            return range(start, start)
        end = bisect_right(self._heads, last, lo=start)
        if len(lowest) > HEAD:
            same_head = range(start, end)
            start = same_head.start + bisect_left(same_head, lowest, key=self.encoded)
            end = same_head.start + bisect_left(same_head, highest, key=self.encoded)
        return range(start, end)


def write_string_table(path: Path, strings: Sequence[bytes]) -> None:
    """Write distinct UTF-8 strings, which must be in ascending order."""
    Path(f"{path}.utf8").write_bytes(b"".join(strings))
    offsets = np.zeros(len(strings) + 1, dtype=np.int64)
    np.cumsum([len(string) for string in strings], out=offsets[1:])
    np.save(f"{path}.offsets.npy", offsets)
    np.save(f"{path}.heads.npy", np.array(strings, f"S{HEAD}").view(">u8").astype(np.uint64))
    checksums = np.fromiter(map(crc32, strings), np.uint64, len(strings))
    hashes = checksums * np.uint64(GOLDEN_RATIO)
    write_hash_table(path, hashes, np.arange(len(strings), dtype=np.int32))


def _head(encoded: bytes) -> int:
    """Return the first bytes of a string as an integer of the same order."""
    return int.from_bytes(encoded[:HEAD].ljust(HEAD, b"\0"), "big")


def _hash(encoded: bytes) -> int:
    """Return a hash whose highest 32 bits are well spread; five times as fast as `text_hash`."""
    return crc32(encoded) * GOLDEN_RATIO & HASH_MASK
