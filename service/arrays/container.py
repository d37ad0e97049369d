"""Named arrays in one file, read through one memory map.

A file is MAGIC, the offset of the header (uint64), the arrays, each at a multiple of ALIGNMENT, and
the header: JSON, with the type, the shape and the offset of each array by its name. Several
structures share a file under names with different prefixes.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from service.errors import SnapshotDamaged

MAGIC = b"ARRAYS\x02\n"
ALIGNMENT = 64  # bytes, a cache line
START = len(MAGIC) + 8  # bytes before the first array

MAP_FLAGS = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
"""Maps all pages at once where the system can, so that no query takes a page fault."""

Arrays = dict[str, npt.NDArray[Any]]
FilePiece = bytes | memoryview | npt.NDArray[Any]


class _Place(Struct, array_like=True):
    """The type, the shape and the offset of an array."""

    dtype: Annotated[str, Meta(pattern=r"^[<|][biufV]\d+$")]  # objects would be pointers
    shape: list[Annotated[int, Meta(ge=0)]]
    offset: Annotated[int, Meta(ge=START)]


_decode_header = msgspec.json.Decoder(dict[str, _Place]).decode


class ArraysWriter:
    """Writes arrays one after another, whole or streamed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._places: dict[str, _Place] = {}
        self._end = file.write(bytes(START))  # a file that is not finished has no MAGIC

    def write(self, name: str, content: npt.NDArray[Any]) -> None:
        """Write an array."""
        self.stream(name, [content], content.dtype)

    def add(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write arrays in their order."""
        for name, array in arrays.items():
            self.write(name, array)

    def stream(
        self, name: str, pieces: Iterable[FilePiece], dtype: npt.DTypeLike = np.uint8
    ) -> list[int]:
        """Write an array in pieces along its first dimension; returns the length of each.

        Bytes extend an array of bytes. Raises ValueError for a name that was written before, and
        for pieces of different types or widths.
        """
        if name in self._places:
            raise ValueError(f"{name} was written before")
        self._end += self._file.write(bytes(-self._end % ALIGNMENT))
        offset, lengths, kinds = self._end, [], set()
        for piece in pieces:
            if isinstance(piece, np.ndarray):
                kinds.add((piece.dtype, piece.shape[1:]))
                self._end += self._file.write(np.ascontiguousarray(piece).data)
            else:
                self._end += self._file.write(piece)
            lengths.append(len(piece))
        kind, row = kinds.pop() if kinds else (np.dtype(dtype), ())
        if kinds or kind != np.dtype(dtype):
            raise ValueError(f"the pieces of {name} differ in type or width: {kind}, {kinds}")
        self._places[name] = _Place(kind.str, [sum(lengths), *row], offset)
        return lengths

    def finish(self) -> None:
        """Write the header, and what makes the file a whole one."""
        self._file.write(msgspec.json.encode(self._places))
        self._file.seek(0)
        self._file.write(MAGIC + self._end.to_bytes(8, "little"))


@contextmanager
def writing_arrays(path: Path) -> Iterator[ArraysWriter]:
    """Yield a writer of a file, which is whole at the end."""
    with path.open("wb", buffering=2**18) as file:
        writer = ArraysWriter(file)
        yield writer
        writer.finish()


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write a file of these arrays, in their order."""
    with writing_arrays(path) as writer:
        writer.add(arrays)


def open_arrays(path: Path) -> Arrays:
    """Map a file and return its arrays by name, read-only; raises SnapshotDamaged.

    Types and shapes are those that were written: the SHA-256 of a file of a snapshot is compared
    before it is opened.
    """
    try:
        with path.open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, flags=MAP_FLAGS, prot=mmap.PROT_READ)
        return {
            name: np.ndarray(each.shape, each.dtype, content, each.offset)
            for name, each in _read_header(content).items()
        }
    except OSError as error:
        raise SnapshotDamaged(f"{path}: {error.strerror or error}") from error
    except (ValueError, TypeError, OverflowError, IndexError, msgspec.MsgspecError) as error:
        raise SnapshotDamaged(f"{path}: {error}") from error


def _read_header(content: mmap.mmap) -> dict[str, _Place]:
    if content[: len(MAGIC)] != MAGIC:
        raise ValueError("does not begin as a file of arrays does")
    offset = int.from_bytes(content[len(MAGIC) : START], "little")
    return _decode_header(content[offset:])


def items_of(array: npt.NDArray[Any]) -> memoryview:
    """Return a view whose single items are read several times faster than those of the array."""
    return memoryview(array)  # type: ignore[arg-type]  # NumPy declares the buffer protocol from Python 3.12 on


def narrow(numbers: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Return numbers from 0 on in the smallest type that holds them all."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))
