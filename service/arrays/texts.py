"""Texts laid end to end, so that a page of them is one slice of a file; and the stored services.

`write_texts` streams the texts of a `Texts` under a name: NAME.texts are the texts, joined by
commas, and NAME.offsets the byte at which each begins, and one more would.
"""

from __future__ import annotations

import mmap
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.arrays.container import (
    Arrays,
    ArraysWriter,
    items_of,
    narrow,
    open_arrays,
    writing_arrays,
)

BATCH = 64
"""Texts that are written at a time: few enough for the largest, and most are short."""


class Texts:
    """JSON texts by ordinal, joined by commas.

    texts: the bytes of all, slices of which are not copied
    """

    def __init__(self, arrays: Arrays, name: str) -> None:
        self.texts = items_of(arrays[f"{name}.texts"])
        self._offsets = items_of(arrays[f"{name}.offsets"])

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


def write_texts(writer: ArraysWriter, name: str, texts: Iterable[bytes]) -> int:
    """Stream the texts of a `Texts`; returns their count."""
    offsets = array("q", [0])

    def joined() -> Iterator[bytes]:
        remaining, comma = iter(texts), b""
        while batch := [*islice(remaining, BATCH)]:
            yield comma + b",".join(batch)
            comma = b","
            for text in batch:
                offsets.append(offsets[-1] + len(text) + 1)

    writer.stream(f"{name}.texts", joined())
    writer.write(f"{name}.offsets", narrow(np.asarray(offsets)))
    return len(offsets) - 1


class Records(Texts):
    """The services in listing order, whose texts are `records.json`.

    offsets: the byte at which each begins, and one more would
    hashes: uint64[services, 2], 128 bits of the hash of each
    """

    def __init__(self, folder: Path) -> None:
        arrays = open_arrays(folder / "records.arrays")
        self.texts = _map(folder / "records.json")
        self._offsets, self._hashes = items_of(arrays["offsets"]), items_of(arrays["hashes"])

    def tag(self, ordinal: int) -> bytes:
        """Return a hash of the text of a service, 16 hexadecimal digits."""
        return b"%016x" % self._hashes[ordinal, 0]


def _map(path: Path) -> memoryview:
    with path.open("rb") as file:
        if not path.stat().st_size:  # mmap refuses empty files
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


class Summaries:
    """The services with empty `endpoints` and an `endpointCount`, spliced from their records.

    starts, stops: where the value of `endpoints` stands in the record, or -1 - n and 0 for the
        n-th rewritten text, of a record that cannot be spliced
    counts: of the endpoints
    """

    def __init__(self, arrays: Arrays, records: Records) -> None:
        self._places = [items_of(arrays[name]) for name in ("starts", "stops", "counts")]
        self._records, self._rewritten = records, Texts(arrays, "rewritten")

    def pieces(self, ordinal: int) -> list[bytes | memoryview]:
        """Return the JSON of a service in pieces."""
        start, stop, count = (each[ordinal] for each in self._places)
        if start < 0:
            return [self._rewritten.view(-1 - start)]
        record = self._records.view(ordinal)
        return [record[:start], b"[]", record[stop:-1], b',"endpointCount":%d}' % count]

    def text(self, ordinal: int) -> bytes:
        """Return the JSON of a service."""
        return b"".join(self.pieces(ordinal))


def write_summaries(
    writer: ArraysWriter,
    starts: npt.NDArray[np.integer[Any]],
    stops: npt.NDArray[np.integer[Any]],
    counts: npt.NDArray[np.integer[Any]],
    rewritten: Iterable[bytes],
) -> None:
    """Write the arrays of `Summaries`; `rewritten` has a text of each service, or an empty one."""
    texts = [*rewritten]
    is_rewritten = np.array([bool(text) for text in texts], np.bool_)
    own = -np.cumsum(is_rewritten, dtype=np.int64)
    writer.write("starts", np.where(is_rewritten, own, starts).astype(np.int32))
    writer.write("stops", np.where(is_rewritten, 0, stops).astype(np.int32))
    writer.write("counts", narrow(counts))
    write_texts(writer, "rewritten", filter(None, texts))


class IdTable:
    """The ids of the services, found by ordinal and by value."""

    def __init__(self, folder: Path) -> None:
        arrays = open_arrays(folder / "ids.arrays")
        self._texts = Texts(arrays, "ids")
        self._hashes, self._ordinals = items_of(arrays["hashes"]), items_of(arrays["ordinals"])

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, ordinal: int) -> str:
        return str(self._texts.view(ordinal)[1:-1], "ascii")

    def find(self, service_id: str) -> int | None:
        """Return the ordinal of a service, or None."""
        for place in equal_hashes(self._hashes, text_hash(service_id)):
            if self[self._ordinals[place]] == service_id:
                return int(self._ordinals[place])
        return None


def write_ids(folder: Path, ids: Sequence[str]) -> None:
    """Write the file of an `IdTable`: ids in listing order, and their sorted hashes."""
    hashes = np.fromiter(map(text_hash, ids), np.uint64, len(ids))
    order = np.argsort(hashes, kind="stable")
    with writing_arrays(folder / "ids.arrays") as writer:
        write_texts(writer, "ids", (b'"%b"' % service_id.encode() for service_id in ids))
        writer.write("hashes", hashes[order])
        writer.write("ordinals", order.astype(np.int32))


def text_hash(text: str) -> int:
    """Return 64 bits of the BLAKE2b of a text; lone surrogates are hashed as well."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def equal_hashes(hashes: memoryview, wanted: int) -> range:
    """Return the places of a hash in sorted ones."""
    start = bisect_left(hashes, wanted)
    return range(start, bisect_right(hashes, wanted, start))
