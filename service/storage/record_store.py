"""JSON records laid end to end, so that a page of them is one slice of a file; and their ids."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from service.storage.container import open_arrays
from service.storage.hash_table import HashTable, text_hash
from service.storage.layouts import RECORD_STORE, RECORDS
from service.storage.memory_map import items_of, open_bytes


class RecordStore:
    """JSON texts by ordinal, joined by commas in the file.

    texts: the bytes of the file, slices of which are not copied
    """

    def __init__(self, folder: Path, name: str) -> None:
        arrays = open_arrays(folder / name, RECORD_STORE, cold={"texts"})
        self.texts, self._offsets = items_of(arrays["texts"]), items_of(arrays["offsets"])

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def text(self, ordinal: int) -> bytes:
        """Return a copy of one JSON text."""
        return bytes(self.view(ordinal))

    def view(self, ordinal: int) -> memoryview:
        """Return one JSON text without copying it."""
        return self.texts[self._offsets[ordinal] : self._offsets[ordinal + 1] - 1]

    def run(self, ordinals: Sequence[int]) -> list[memoryview]:
        """Return slices of the file that, joined by commas, are the texts of these ordinals."""
        if isinstance(ordinals, range):
            return [self.slice(ordinals.start, ordinals.stop)] if ordinals else []
        texts, offsets = self.texts, self._offsets
        return [texts[offsets[ordinal] : offsets[ordinal + 1] - 1] for ordinal in ordinals]

    def fitting(self, ordinals: Sequence[int], size: int) -> int:
        """Return how many of the first texts have at most this many bytes, at least one."""
        for count, ordinal in enumerate(ordinals):
            size -= self._offsets[ordinal + 1] - self._offsets[ordinal]
            if size < 0 and count:
                return count
        return len(ordinals)

    def slice(self, start: int, stop: int) -> memoryview:
        """Return the texts from `start` up to `stop`, joined by commas; empty past the end."""
        stop = min(stop, len(self))
        if start >= stop:
            return self.texts[:0]
        return self.texts[self._offsets[start] : self._offsets[stop] - 1]


class Records(RecordStore):
    """The services in listing order, whose texts are `records.json`, and a hash of each."""

    def __init__(self, folder: Path) -> None:
        arrays = open_arrays(folder / "records", RECORDS)
        self.texts = memoryview(open_bytes(folder / "records.json"))
        self._offsets, self._tags = items_of(arrays["offsets"]), items_of(arrays["tags"])

    def tag(self, ordinal: int) -> bytes:
        """Return a hash of the text of a service, 16 hexadecimal digits."""
        return b"%016x" % self._tags[ordinal]


class IdTable:
    """The ids of the services, found by ordinal and by value."""

    def __init__(self, folder: Path) -> None:
        self._texts = RecordStore(folder, "ids")
        self._ordinals = HashTable(folder / "id_hashes")

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, ordinal: int) -> str:
        return str(self._texts.view(ordinal)[1:-1], "ascii")

    def find(self, service_id: str) -> int | None:
        """Return the ordinal of a service, or None."""
        for ordinal in self._ordinals.candidates((text_hash(service_id),)):
            if self[ordinal] == service_id:
                return ordinal
        return None
