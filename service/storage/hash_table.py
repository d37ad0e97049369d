"""Members grouped by hash, in plain arrays: a hash table that opens without being read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from service.storage.memory_map import items_of, open_array

Hashes: TypeAlias = npt.NDArray[np.uint64]

MULTIPLIER = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio: spreads what differs in the low bits over the high ones."""
MASK = (1 << 64) - 1


class HashTable:
    """Finds the members of a hash.

    `starts` (buckets + 1, int32) says where each bucket begins in `members` (int32) and `tags`
    (uint8), the lowest 8 bits of each member's hash. The bucket of a hash is its highest
    `64 - shift` bits.
    """

    def __init__(
        self,
        starts: npt.NDArray[np.int32],
        members: npt.NDArray[np.int32],
        tags: npt.NDArray[np.uint8],
    ):
        self._starts = items_of(starts)
        self._members = items_of(members)
        self._tags = items_of(tags)
        self._shift = 64 - (len(starts) - 2).bit_length()

    def of(self, hashes: Iterable[int]) -> list[int]:
        """The members of any of the hashes, some twice, and few that only share a bucket with one.

        Of those, one in 256 has the same tag.
        """
        starts, tags, members, shift = self._starts, self._tags, self._members, self._shift
        found = []
        for hashed in hashes:
            bucket = hashed >> shift
            start, end = starts[bucket], starts[bucket + 1]
            if start != end:
                tag = hashed & 0xFF
                while start < end:
                    if tags[start] == tag:
                        found.append(members[start])
                    start += 1
        return found


def write_hash_table(path: Path, hashes: Hashes, members: npt.NDArray[np.int32]) -> None:
    """Write the members of the hashes (both one-dimensional, aligned), about a bucket for each."""
    bits = max(1, len(hashes).bit_length())
    order = np.argsort(hashes, kind="stable")
    hashes = hashes[order]
    counts = np.bincount((hashes >> np.uint64(64 - bits)).astype(np.int64), minlength=1 << bits)
    starts = np.zeros((1 << bits) + 1, dtype=np.int32)
    np.cumsum(counts, out=starts[1:])
    np.save(f"{path}.starts.npy", starts)
    np.save(f"{path}.members.npy", members[order].astype(np.int32))
    np.save(f"{path}.tags.npy", hashes.astype(np.uint8))


def open_hash_table(path: Path) -> HashTable:
    """Map what `write_hash_table` wrote."""
    starts, members, tags = (
        open_array(Path(f"{path}.{part}.npy")) for part in ("starts", "members", "tags")
    )
    return HashTable(starts, members, tags)
