"""A static hash table in plain arrays, which is opened without being read."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from service.storage.container import open_arrays, write_arrays
from service.storage.layouts import HASH_TABLE
from service.storage.memory_map import items_of

Hashes: TypeAlias = npt.NDArray[np.uint64]

HASH_MASK = (1 << 64) - 1
TAG_MASK = 0xFF
NO_LIMIT = 1 << 31

COUNTED = 1 << 18
"""Hashes that are counted at a time: to count all takes twice their memory."""


class HashTable:
    """Maps 64-bit hashes to int32 values; the bucket of a hash is its highest `64 - shift` bits.

    Keys that strangers choose need `text_hash`, or a `limit`: many keys in one bucket would make
    look-ups slow.
    """

    def __init__(self, path: Path) -> None:
        arrays = map(items_of, open_arrays(path, HASH_TABLE).values())
        self._starts, self._values, self._tags = arrays
        self._shift = 64 - (len(self._starts) - 2).bit_length()

    def candidates(self, hashes: Iterable[int], limit: int = NO_LIMIT) -> list[int]:
        """Return the values of any of the hashes; callers compare the keys.

        The list may hold duplicates, and one in 256 of the other values in the same buckets. Of
        each bucket the first `limit` values are looked at.
        """
        starts, tags, values, shift = self._starts, self._tags, self._values, self._shift
        candidates = []
        for key_hash in hashes:
            bucket = key_hash >> shift
            position, end = starts[bucket], starts[bucket + 1]
            if position != end:
                end = min(end, position + limit)
                tag = key_hash & TAG_MASK
                while position < end:
                    if tags[position] == tag:
                        candidates.append(values[position])
                    position += 1
        return candidates


def text_hash(text: str) -> int:
    """Return 64 bits of the BLAKE2b of a text; lone surrogates are hashed as well."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def write_hash_table(path: Path, hashes: Hashes, values: npt.NDArray[np.int32]) -> None:
    """Write a table with about one bucket for each hash; `values` is aligned with `hashes`.

    The values of a bucket keep their order.
    """
    # Sorting integers of a bucket and a position is three times as fast as sorting positions.
    bits = max(1, len(hashes).bit_length())
    packed = hashes >> np.uint64(64 - bits) << np.uint64(bits)
    packed |= np.arange(len(hashes), dtype=np.uint64)
    packed.sort()
    starts = np.zeros((1 << bits) + 1, dtype=np.int32)
    for start in range(0, len(packed), COUNTED):
        buckets = (packed[start : start + COUNTED] >> np.uint64(bits)).view(np.int64)
        counts = np.bincount(buckets - buckets[0])
        starts[buckets[0] + 1 : buckets[-1] + 2] += counts.astype(np.int32)
    np.cumsum(starts, out=starts)
    packed &= np.uint64((1 << bits) - 1)
    order = packed.view(np.int64)
    values, tags = values.astype(np.int32, copy=False)[order], hashes.astype(np.uint8)[order]
    write_arrays(path, HASH_TABLE, {"starts": starts, "values": values, "tags": tags})
