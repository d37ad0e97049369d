"""The items of a feed, told apart as they come and spooled to disk, each as it came."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from service.storage.memory_map import open_bytes

# An item is known by a digest, since a feed of a million has to be held in memory.
DIGEST_BYTES = 16
EMPTY = b"[]\n"

Key = bytes


class Identified(Struct):
    """What a service is known by."""

    id: str | UnsetType = UNSET


_identified = msgspec.json.Decoder(Identified)
_one_line = bytes.maketrans(b"\r\n", b"  ")  # JSON has them between its tokens alone


class FeedItems:
    """Items, each once, in a spool of JSON lines.

    Services are known by their ids, and the text that came last is kept; other items are known by
    their bytes.
    """

    def __init__(self, spool: BinaryIO) -> None:
        self._spool = spool
        self._starts: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._starts)

    def keys(self) -> dict[Key, None]:
        """What all items are known by."""
        return dict.fromkeys(self._starts)

    def add(self, item: Raw, *, is_service: bool) -> Key:
        """Spool an item unless it is there already; returns what it is known by."""
        text = bytes(item).translate(_one_line)
        service_id = _id(text) if is_service else None
        known_by = text if service_id is None else b"id " + service_id.encode()
        key = hashlib.blake2b(known_by, digest_size=DIGEST_BYTES).digest()
        if service_id is not None or key not in self._starts:
            self._starts[key] = self._spool.tell()
            self._spool.write(text + b"\n")
        return key

    def write(self, path: Path, chosen: Collection[Key]) -> None:
        """Write the chosen ones in their order as JSON lines, or an empty array without any."""
        self._spool.flush()
        lines = open_bytes(Path(self._spool.name))
        with path.open("wb") as file:
            for key in chosen:
                start = self._starts[key]
                file.write(lines[start : lines.find(b"\n", start) + 1])
            if not chosen:
                file.write(EMPTY)


def _id(text: bytes) -> str | None:
    try:
        found = _identified.decode(text).id
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None  # the reader of the feed will say what is wrong with it
    return None if found is UNSET else found
