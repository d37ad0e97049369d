"""Containers: named arrays in one file, behind one header and read through one memory map.

A file is MAGIC, the bytes of the header (uint32), the header (JSON: name, dtype, shape and offset
of each array, padded with blanks), and the arrays in the order of the layout, each at a multiple of
ALIGNMENT. The room for the header depends on the layout alone, so that arrays can be streamed.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
LONGEST_INTEGER = 2**63 - 1
HEADER_START = len(MAGIC) + 4

Arrays = dict[str, npt.NDArray[Any]]


class Array(NamedTuple):
    """The declaration of an array.

    dtype: the little-endian type of its items; several, separated by blanks, where the writer may
        choose
    shape: its dimensions, separated by commas: numbers, or names that have one value in a file,
        with `+1` where the array has one item more
    text: what it holds
    """

    dtype: str
    shape: str
    text: str = ""


class Layout:
    """The arrays of one kind of container, in the order of the file."""

    def __init__(self, text: str, **arrays: Array) -> None:
        self.text, self.arrays = text, arrays

    @cached_property
    def room(self) -> int:
        """The bytes before the first array."""
        longest = [
            _Entry(name, max(each.dtype.split(), key=len), [LONGEST_INTEGER] * _rank(each), 0)
            for name, each in self.arrays.items()
        ]
        digits = len(str(LONGEST_INTEGER)) * len(longest)  # of the offsets
        return _aligned(HEADER_START + len(_encode(longest)) + digits)


class _Entry(Struct, array_like=True):
    """An array in the header of a file."""

    name: str
    dtype: str
    shape: list[int]
    offset: int


class Section(NamedTuple):
    """A range of bytes of a file: its header, whose name is empty, or an array with its padding."""

    name: str
    start: int
    stop: int


_encode = msgspec.json.Encoder().encode
_header = msgspec.json.Decoder(list[_Entry])


class ArraysWriter:
    """Writes the arrays of a layout in their order, whole or streamed."""

    def __init__(self, file: BinaryIO, layout: Layout) -> None:
        self._file, self._layout = file, layout
        self._entries: list[_Entry] = []
        file.seek(layout.room)

    def write(self, name: str, array: npt.NDArray[Any]) -> None:
        """Write the next array."""
        content = np.ascontiguousarray(array)
        offset = self._start(name)
        if content.nbytes:
            self._file.write(content.reshape(-1).view(np.uint8).data)
        self._add(name, content.dtype, content.shape, offset)

    def stream(
        self, name: str, pieces: Iterable[bytes | memoryview | npt.NDArray[Any]]
    ) -> list[int]:
        """Write the next array, of one dimension, in pieces; returns the bytes of each."""
        offset = self._start(name)
        sizes = []
        for piece in pieces:
            view = memoryview(piece).cast("B") if len(piece) else b""  # type: ignore[arg-type]  # NumPy declares the buffer protocol from Python 3.12 on
            self._file.write(view)
            sizes.append(len(view))
        dtype = np.dtype(self._layout.arrays[name].dtype)
        self._add(name, dtype, (sum(sizes) // dtype.itemsize,), offset)
        return sizes

    def finish(self) -> None:
        """Write the header."""
        layout = self._layout
        if [each.name for each in self._entries] != list(layout.arrays):
            raise ValueError(f"these are not the arrays of the layout: {self._entries}")
        _shapes(layout, self._entries)
        header = _encode(self._entries).ljust(layout.room - HEADER_START)
        self._file.seek(0)
        self._file.write(MAGIC + len(header).to_bytes(4, "little") + header)

    def _start(self, name: str) -> int:
        expected = [*self._layout.arrays][len(self._entries)]
        if name != expected:
            raise ValueError(f"the next array is {expected}, not {name}")
        offset = _aligned(self._file.tell())
        self._file.write(bytes(offset - self._file.tell()))
        return offset

    def _add(self, name: str, dtype: np.dtype[Any], shape: Sequence[int], offset: int) -> None:
        self._entries.append(_Entry(name, dtype.str, [*shape], offset))


@contextmanager
def writing_arrays(path: Path, layout: Layout) -> Iterator[ArraysWriter]:
    """Yield a writer of the file `path` with the suffix; its header is written at the end."""
    with arrays_path(path).open("wb", buffering=2**18) as file:
        writer = ArraysWriter(file, layout)
        yield writer
        writer.finish()


def write_arrays(path: Path, layout: Layout, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write the file `path` with the suffix; raises ValueError for arrays of another layout."""
    with writing_arrays(path, layout) as writer:
        for name, array in arrays.items():
            writer.write(name, array)


def open_arrays(path: Path, layout: Layout, *, touch: bool = True) -> Arrays:
    """Map the file `path` with the suffix, and return its arrays; raises SnapshotDamaged.

    Types and shapes are those of the layout. `touch` reads each page now, which saves the first
    query that needs it a page fault.
    """
    path = arrays_path(path)
    try:
        with path.open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        entries = _read_header(content)
        _shapes(layout, entries)
        arrays: Arrays = {
            each.name: np.ndarray(each.shape, each.dtype, content, each.offset) for each in entries
        }
    except OSError as error:
        raise SnapshotDamaged(f"{path}: {error.strerror or error}") from error
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        raise SnapshotDamaged(f"{path}: {error}") from error
    if touch:
        np.frombuffer(content, np.uint8)[:: mmap.PAGESIZE].max(initial=0)
    return arrays


def sections_of(content: bytes | memoryview | mmap.mmap) -> list[Section]:
    """Return the sections of a file, which cover it; one without a name if it is no container."""
    size = len(content)
    try:
        starts = [(each.name, each.offset) for each in _read_header(content)]
    except (ValueError, msgspec.MsgspecError):
        starts = []
    bounds = [("", 0), *starts]
    stops = [start for _, start in bounds[1:]] + [size]
    if stops != sorted(stops):
        return [Section("", 0, size)]
    return [Section(name, start, stop) for (name, start), stop in zip(bounds, stops, strict=True)]


def arrays_path(path: Path) -> Path:
    """Return the path of a container."""
    return path.with_name(path.name + SUFFIX)


def _read_header(content: bytes | memoryview | mmap.mmap) -> list[_Entry]:
    """Return the header of a file; raises ValueError or msgspec.MsgspecError."""
    if bytes(content[: len(MAGIC)]) != MAGIC:
        raise ValueError("is no container of arrays")
    size = int.from_bytes(content[len(MAGIC) : HEADER_START], "little")
    return _header.decode(bytes(content[HEADER_START : HEADER_START + size]))


def _shapes(layout: Layout, entries: Sequence[_Entry]) -> None:
    """Compare a header with a layout; raises ValueError."""
    if [each.name for each in entries] != list(layout.arrays):
        raise ValueError(f"holds other arrays than {', '.join(layout.arrays)}")
    sizes: dict[str, int] = {}
    for entry, declared in zip(entries, layout.arrays.values(), strict=True):
        dimensions = declared.shape.split(",")
        is_right = entry.dtype in declared.dtype.split() and len(dimensions) == len(entry.shape)
        for dimension, size in zip(dimensions, entry.shape, strict=False):
            name, plus, _ = dimension.strip().partition("+")
            length = int(name) if name.isdecimal() else sizes.setdefault(name, size - bool(plus))
            is_right &= size == length + bool(plus) >= 0
        if not is_right or entry.offset < 0:
            raise ValueError(
                f"{entry.name} is {entry.dtype} {entry.shape}, not {declared.dtype} "
                f"[{declared.shape}]"
            )


def _rank(array: Array) -> int:
    return array.shape.count(",") + 1


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
