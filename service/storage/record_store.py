"""The record store: JSON texts laid end to end, so that a page is one slice of a file.

`<name>.json` holds the texts joined by commas; `<name>.offsets.npy` holds, as int64, the byte at
which each starts and one past the last comma that would follow the last text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from service.storage.memory_map import items_of, open_array, open_bytes


class RecordStore:
    """JSON texts by ordinal."""

    def __init__(self, folder: Path, name: str) -> None:
        self._texts = memoryview(open_bytes(folder / f"{name}.json"))
        self._offsets = items_of(open_array(folder / f"{name}.offsets.npy"))

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def text(self, ordinal: int) -> bytes:
        """One JSON text."""
        return bytes(self.view(ordinal))

    def view(self, ordinal: int) -> memoryview:
        """One JSON text as it lies in the file, to be copied once, where it goes."""
        return self._texts[self._offsets[ordinal] : self._offsets[ordinal + 1] - 1]

    def run(self, ordinals: Sequence[int]) -> list[memoryview]:
        """JSON texts that make the list of these ordinals when they are joined by commas."""
        if isinstance(ordinals, range):
            return [self.slice(ordinals.start, ordinals.stop)] if ordinals else []
        texts, offsets = self._texts, self._offsets
        return [texts[offsets[ordinal] : offsets[ordinal + 1] - 1] for ordinal in ordinals]

    def slice(self, start: int, stop: int) -> memoryview:
        """The texts from `start` up to `stop`, joined by commas; empty past the end."""
        stop = min(stop, len(self))
        if start >= stop:
            return self._texts[:0]
        return self._texts[self._offsets[start] : self._offsets[stop] - 1]
