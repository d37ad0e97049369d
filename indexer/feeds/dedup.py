"""Deduplication of the items of a feed, which are spooled to disk."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from service.storage.memory_map import open_bytes

KEY_BYTES = 16  # small, since the keys of a million items are held in memory
EMPTY = b"[]\n"

Key = bytes
"""Digest of what identifies an item: the id of a service, else the text of the item."""


class Identified(Struct):
    """The id of a service."""

    id: str | UnsetType = UNSET


_identified = msgspec.json.Decoder(Identified)
_one_line = bytes.maketrans(b"\r\n", b"  ")  # JSON has line breaks only between tokens


class FeedItems:
    """The distinct items of a feed, as JSON lines in a spool file.

    Of services with one id the text that came last is kept.
    """

    def __init__(self, spool: BinaryIO) -> None:
        self._spool = spool
        self._starts: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._starts)

    def keys(self) -> dict[Key, None]:
        """Return the keys of all items, in the order in which they first came."""
        return dict.fromkeys(self._starts)

    def add(self, item: Raw, *, is_service: bool) -> Key:
        """Spool an item unless it is a duplicate, and return its key."""
        text = bytes(item).translate(_one_line)
        service_id = _service_id(text) if is_service else None
        identity = text if service_id is None else b"id " + service_id.encode()
        key = hashlib.blake2b(identity, digest_size=KEY_BYTES).digest()
        if service_id is not None or key not in self._starts:
            self._starts[key] = self._spool.tell()
            self._spool.write(text + b"\n")
        return key

    def write(self, path: Path, keys: Collection[Key]) -> None:
        """Write the items of these keys, in this order, as JSON lines; without any, as `[]`."""
        self._spool.flush()
        lines = open_bytes(Path(self._spool.name))
        with path.open("wb") as file:
            for key in keys:
                start = self._starts[key]
                file.write(lines[start : lines.find(b"\n", start) + 1])
            if not keys:
                file.write(EMPTY)


def _service_id(text: bytes) -> str | None:
    try:
        service_id = _identified.decode(text).id
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None  # an invalid record, which is rejected when the feed is read
    return None if service_id is UNSET else service_id
