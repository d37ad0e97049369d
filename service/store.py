"""The record store: JSON texts laid end to end, so that a page is one slice of a file.

`<name>.json` holds the texts joined by commas; `<name>.offsets.npy` holds, as int64, the byte at
which each starts and one past the last comma that would follow the last text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from service.mapped import items_of, open_array, open_bytes


class Store:
    """JSON texts by ordinal."""

    def __init__(self, folder: Path, name: str) -> None:
        self._texts = open_bytes(folder / f"{name}.json")
        self._offsets = items_of(open_array(folder / f"{name}.offsets.npy"))

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def text(self, ordinal: int) -> bytes:
        """One JSON text."""
        return self.slice(ordinal, ordinal + 1)

    def run(self, ordinals: Sequence[int]) -> list[bytes]:
        """JSON texts that make the list of these ordinals when they are joined by commas."""
        if isinstance(ordinals, range):
            return [self.slice(ordinals.start, ordinals.stop)] if ordinals else []
        return [self.text(ordinal) for ordinal in ordinals]

    def slice(self, start: int, stop: int) -> bytes:
        """The texts from `start` up to `stop`, joined by commas; empty past the end."""
        stop = min(stop, len(self))
        if start >= stop:
            return b""
        return self._texts[self._offsets[start] : self._offsets[stop] - 1]
