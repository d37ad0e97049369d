"""Deduplication of the items of a feed, which are spooled to disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from service.storage.memory_map import open_bytes

KEY_BYTES = 16  # small, since the keys of a million items are held in memory

ItemKey = bytes
"""Digest of the text of an item."""

_one_line = bytes.maketrans(b"\r\n", b"  ")  # JSON has line breaks only between tokens


class FeedItems:
    """The distinct items of a feed, as JSON lines in a spool file."""

    def __init__(self, spool: BinaryIO) -> None:
        self._spool = spool
        self._starts: dict[ItemKey, int] = {}

    def __len__(self) -> int:
        return len(self._starts)

    def keys(self) -> Iterable[ItemKey]:
        """Return the keys of all items, in the order in which they first came."""
        return self._starts.keys()

    def add(self, item: bytes) -> ItemKey:
        """Spool an item unless it is a duplicate, and return its key."""
        text = item.translate(_one_line)
        key = hashlib.blake2b(text, digest_size=KEY_BYTES).digest()
        if key not in self._starts:
            self._starts[key] = self._spool.tell()
            self._spool.write(text + b"\n")
        return key

    def write(self, path: Path, keys: Iterable[ItemKey]) -> None:
        """Write the items of these keys, in this order, as JSON lines."""
        self._spool.flush()
        lines = open_bytes(Path(self._spool.name))
        with path.open("wb") as file:
            for key in keys:
                start = self._starts[key]
                file.write(lines[start : lines.find(b"\n", start) + 1])
