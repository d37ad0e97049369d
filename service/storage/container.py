"""Containers: named arrays in one file, behind one header and read through one memory map.

A file is MAGIC, the bytes of the header (uint32), the header (JSON: name, dtype, shape and offset
of each array, padded with blanks), and the arrays in the order of the layout, each at a multiple of
ALIGNMENT. The room for the header depends on the layout alone, so that arrays can be streamed.
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from service.errors import SnapshotDamaged

SUFFIX = ".arrays"
MAGIC = b"ARRAYS\x01\n"
ALIGNMENT = 64  # bytes, a cache line
MAX_INT64 = 2**63 - 1
HEADER_START = len(MAGIC) + 4

Arrays = dict[str, npt.NDArray[Any]]
FilePiece = bytes | memoryview | npt.NDArray[Any]


class Array(NamedTuple):
    """The declaration of an array.

    dtype: the little-endian type of its items; several, separated by blanks, where the writer may
        choose
    shape: its dimensions, separated by commas: a size, or a name that stands for one size in the
        whole file; `name+1` is one more
    text: its content, for docs/format.md
    """

    dtype: str
    shape: str
    text: str = ""


class Layout:
    """The arrays of one kind of container, in the order of the file.

    types: the possible types of each array
    dimensions: for each array the sizes of its dimensions or their names, and what is added to them
    """

    def __init__(self, text: str, /, **arrays: Array) -> None:
        self.text, self.arrays = text, arrays
        self.types = [frozenset(each.dtype.split()) for each in arrays.values()]
        self.dimensions = [[*map(_dimension, each.shape.split(","))] for each in arrays.values()]

    @cached_property
    def data_offset(self) -> int:
        """The offset of the first array."""
        longest = [
            _ArrayHeader(name, max(each.dtype.split(), key=len), [MAX_INT64] * len(dimensions), 0)
            for (name, each), dimensions in zip(self.arrays.items(), self.dimensions, strict=True)
        ]
        digits = len(str(MAX_INT64)) * len(longest)  # of the offsets
        return _aligned(HEADER_START + len(_encode(longest)) + digits)


class _ArrayHeader(Struct, array_like=True):
    """An array in the header of a file."""

    name: str
    dtype: str
    shape: list[int]
    offset: int


_encode = msgspec.json.Encoder().encode
_decode_header = msgspec.json.Decoder(list[_ArrayHeader]).decode


class ArraysWriter:
    """Writes the arrays of a layout in their order, whole or streamed."""

    def __init__(self, file: BinaryIO, layout: Layout) -> None:
        self._file, self._layout = file, layout
        self._entries: list[_ArrayHeader] = []
        file.seek(layout.data_offset)

    def write(self, name: str, content: npt.NDArray[Any]) -> None:
        """Write the next array."""
        self.stream(name, [content])

    def stream(self, name: str, pieces: Iterable[FilePiece]) -> npt.NDArray[np.int64]:
        """Write the next array in pieces along its first dimension; returns the length of each.

        A piece that is bytes extends an array of bytes. An array of several dimensions needs one
        piece at least. Raises ValueError for pieces of different types or widths.
        """
        expected = [*self._layout.arrays, "the end"][len(self._entries)]
        if name != expected:
            raise ValueError(f"the layout has {expected} next, not {name}")
        offset = _aligned(self._file.tell())
        self._file.write(bytes(offset - self._file.tell()))
        lengths, kinds = array("q"), set()
        for piece in pieces:
            if isinstance(piece, np.ndarray):
                kinds.add((piece.dtype, piece.shape[1:]))
                self._file.write(_bytes_of(piece))
            else:
                self._file.write(piece)
            lengths.append(len(piece))
        if len(kinds) > 1:
            raise ValueError(f"the pieces of {name} differ in type or width: {kinds}")
        declared = np.dtype(self._layout.arrays[name].dtype.split()[0])
        dtype, rest = kinds.pop() if kinds else (declared, ())
        self._entries.append(_ArrayHeader(name, dtype.str, [sum(lengths), *rest], offset))
        return np.array(lengths, np.int64)

    def finish(self) -> None:
        """Write the header; raises ValueError for arrays of another layout."""
        _check(self._layout, self._entries)
        header = _encode(self._entries).ljust(self._layout.data_offset - HEADER_START)
        self._file.seek(0)
        self._file.write(MAGIC + len(header).to_bytes(4, "little") + header)


@contextmanager
def writing_arrays(path: Path, layout: Layout) -> Iterator[ArraysWriter]:
    """Yield a writer of the file `path` with the suffix; its header is written at the end."""
    with arrays_path(path).open("wb", buffering=2**18) as file:
        writer = ArraysWriter(file, layout)
        yield writer
        writer.finish()


def write_arrays(path: Path, layout: Layout, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write the file `path` with the suffix; raises ValueError for arrays of another layout."""
    if arrays.keys() != layout.arrays.keys():
        raise ValueError(f"{', '.join(arrays)} are not the arrays of the layout")
    with writing_arrays(path, layout) as writer:
        for name in layout.arrays:
            writer.write(name, arrays[name])


def open_arrays(path: Path, layout: Layout, *, cold: Container[str] = ()) -> Arrays:
    """Map the file `path` with the suffix, and return its arrays; raises SnapshotDamaged.

    Checks types and shapes against the layout. Reads each page now, so that the first query takes
    no page fault; pages of the arrays in `cold` are read when they are needed.
    """
    path = arrays_path(path)
    try:
        with path.open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        entries = _read_header(content)
        _check(layout, entries)
        arrays: Arrays = {
            each.name: np.ndarray(each.shape, each.dtype, content, each.offset) for each in entries
        }
    except OSError as error:
        raise SnapshotDamaged(f"{path}: {error.strerror or error}") from error
    except (ValueError, TypeError, OverflowError, msgspec.MsgspecError) as error:
        raise SnapshotDamaged(f"{path}: {error}") from error
    for name, each in arrays.items():
        if name not in cold:
            each.reshape(-1).view(np.uint8)[:: mmap.PAGESIZE].max(initial=0)
    return arrays


def arrays_path(path: Path) -> Path:
    """Return the path of a container."""
    return path.with_name(path.name + SUFFIX)


def _read_header(content: bytes | bytearray | memoryview | mmap.mmap) -> list[_ArrayHeader]:
    """Return the header of a file; raises ValueError or msgspec.MsgspecError."""
    if bytes(content[: len(MAGIC)]) != MAGIC:
        raise ValueError("does not begin as a container of arrays does")
    size = int.from_bytes(content[len(MAGIC) : HEADER_START], "little")
    return _decode_header(bytes(content[HEADER_START : HEADER_START + size]))


def _check(layout: Layout, entries: Sequence[_ArrayHeader]) -> None:
    """Compare a header with a layout; raises ValueError."""
    if [each.name for each in entries] != list(layout.arrays):
        names = ", ".join(each.name for each in entries)
        raise ValueError(f"holds {names}; expected {', '.join(layout.arrays)}")
    sizes: dict[str, int] = {}
    for entry, types, dimensions in zip(entries, layout.types, layout.dimensions, strict=True):
        is_right = entry.dtype in types and len(dimensions) == len(entry.shape)
        for (name, added), size in zip(dimensions, entry.shape, strict=False):
            length = name if isinstance(name, int) else sizes.setdefault(name, size - added)
            is_right &= size == length + added >= 0
        if not is_right or entry.offset < 0:
            declared = layout.arrays[entry.name]
            raise ValueError(
                f"{entry.name} has the type {entry.dtype} and the shape {entry.shape}, "
                f"expected {declared.dtype} [{declared.shape}]"
            )


def _dimension(text: str) -> tuple[str | int, int]:
    """Return the name of a dimension, or its size, and what is added to it."""
    name, plus, _ = text.partition("+")
    return int(name) if name.isdecimal() else name, len(plus)


def _bytes_of(array: npt.NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
