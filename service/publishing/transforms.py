"""Transforms of arrays, after which the array of a snapshot is much like that of the one before.

Ordinals shift wherever a service moves in the listing, so that few bytes of an array of ordinals
stay. A transform renumbers the earlier array, or makes differences of both arrays; what it leaves
is found by zstd.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from service.errors import DownloadDamaged
from service.publishing.frames import Buffer, compress, decompress_bounded

MAX_NUMBERS = 2**26
"""Numbers of one transform; each takes 4 bytes."""

Numbers = npt.NDArray[np.int32]
Width = Annotated[int, Meta(ge=1, le=2**20)]


class Plain(Struct, frozen=True, tag=True, array_like=True):
    """Leaves bytes as they are."""

    @property
    def width(self) -> int:
        """The bytes of an item."""
        return 1

    def before(self, base: Buffer, start: int, stop: int) -> Buffer:
        """Return these bytes of the earlier file, transformed."""
        return memoryview(base)[start:stop]

    def forward(self, target: Buffer, start: int, stop: int) -> Buffer:
        """Return these bytes of the file, transformed."""
        return memoryview(target)[start:stop]

    def restore(self, piece: Buffer, _last: Buffer) -> Buffer:
        """Return the bytes that `forward` transformed, after the last item before them."""
        return piece


class Renumber(Plain, frozen=True, tag=True, array_like=True):
    """Replaces numbers of the earlier array, as `numbers` maps them.

    Numbers beyond those of the map stay. Below `shift`, the bits of an item are no number.
    """

    item: Annotated[int, Meta(ge=4, le=8)]
    shift: Annotated[int, Meta(ge=0, le=32)]
    numbers: bytes

    @property
    def width(self) -> int:
        """The bytes of an item."""
        return self.item

    def before(self, base: Buffer, start: int, stop: int) -> Buffer:
        """Return these bytes of the earlier file, renumbered."""
        numbers = unpack_numbers(self.numbers)
        items = np.frombuffer(memoryview(base)[start:stop], _integers(self.item, "i"))
        if not len(numbers):
            return items.tobytes()
        old = items >> self.shift if self.shift else items
        new = numbers.take(old, mode="clip").astype(items.dtype)
        if self.shift:
            new = (new << self.shift) | (items & ((1 << self.shift) - 1))
        known = (old >= 0) & (old < len(numbers))
        return np.where(known, new, items).tobytes()


class Difference(Plain, frozen=True, tag=True, array_like=True):
    """Replaces each row of an array by its difference from the row before."""

    item: Annotated[int, Meta(ge=4, le=8)]
    columns: Annotated[int, Meta(ge=1, le=2**10)] = 1

    @property
    def width(self) -> int:
        """The bytes of a row."""
        return self.item * self.columns

    def before(self, base: Buffer, start: int, stop: int) -> Buffer:
        """Return these bytes of the earlier file, as differences."""
        return self.forward(base, start, stop)

    def forward(self, target: Buffer, start: int, stop: int) -> Buffer:
        """Return these bytes of the file, as differences."""
        first = max(0, start - self.width)
        rows = self._rows(memoryview(target)[first:stop])
        differences = np.diff(rows, axis=0)
        return (
            differences.tobytes() if first < start else rows[:1].tobytes() + differences.tobytes()
        )

    def restore(self, piece: Buffer, last: Buffer) -> Buffer:
        """Return the sums of the differences, from the last row before them on."""
        rows = self._rows(piece).copy()
        if len(last):
            rows[:1] += self._rows(last)
        return np.cumsum(rows, axis=0, dtype=rows.dtype).tobytes()

    def _rows(self, content: Buffer) -> npt.NDArray[Any]:
        return np.frombuffer(content, _integers(self.item, "u")).reshape(-1, self.columns)


class Gather(Plain, frozen=True, tag=True, array_like=True):
    """Takes rows of the earlier array in another order."""

    row: Width
    numbers: bytes

    @property
    def width(self) -> int:
        """The bytes of a row."""
        return self.row

    def before(self, base: Buffer, start: int, stop: int) -> Buffer:
        """Return the rows that are expected between these bytes of the file."""
        rows = np.frombuffer(base, np.uint8)
        rows = rows[: len(rows) // self.row * self.row].reshape(-1, self.row)
        numbers = unpack_numbers(self.numbers)[start // self.row : stop // self.row]
        if not len(rows) or not len(numbers):
            return b""
        return rows.take(numbers, axis=0, mode="clip").tobytes()


Transform = Plain | Renumber | Difference | Gather
PLAIN = Plain()


def pack_numbers(numbers: npt.NDArray[Any]) -> bytes:
    """Compress numbers that mostly increase by one."""
    return compress(np.diff(numbers.astype(np.int32), prepend=np.int32(0)).astype("<i4").tobytes())


def unpack_numbers(packed: bytes) -> Numbers:
    """Return the numbers that `pack_numbers` compressed; raises DownloadDamaged."""
    content = decompress_bounded(packed, 4 * MAX_NUMBERS)
    if len(content) % 4:
        raise DownloadDamaged("the numbers of a patch are truncated")
    return np.cumsum(np.frombuffer(content, "<i4"), dtype=np.int32)


def _integers(width: int, kind: str) -> np.dtype[Any]:
    if width not in {4, 8}:
        raise DownloadDamaged(f"a patch has integers of {width} bytes")
    return np.dtype(f"<{kind}{width}")
