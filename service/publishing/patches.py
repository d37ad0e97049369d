"""Patches: a file made from an earlier one, by zstd with the earlier bytes as prefix.

Each array is patched from the array of its name, in pieces of bounded size: a piece is a zstd frame
that has as prefix the part of the earlier array where its content stood. Integers shift wherever a
service moves in the listing. Pieces of integers are compressed as differences, because zstd finds
more of these in the differences of the earlier array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from service.artifacts.downloads import PatchPiece, Width
from service.errors import DownloadDamaged
from service.publishing.frames import Buffer, compress, decompress
from service.storage.container import Section, sections_of
from service.storage.memory_map import open_bytes

PIECE = 2**25
"""Bytes of a file that are one frame of its patch; half as many of integers."""
MAX_PREFIX = 2**26
"""Bytes of the earlier file that a piece is compressed after; half as many of integers."""
MAX_SECTIONS = 256
"""Sections of a file, which bound the pieces of its patch."""
MEMORY = 5 * MAX_PREFIX // 2
"""Bytes that making a piece takes: a prefix of integers, its differences twice, and zstd's own."""
WIDTHS: dict[int, Width] = {2: 2, 4: 4, 8: 8}


class Cut(NamedTuple):
    """A piece to make: its range in a file, and two of the earlier file.

    base: the range that the piece is compressed after
    same: the range at the same place of the section
    width: bytes of the integers, 0 without any
    """

    content: slice
    base: slice
    same: slice
    width: Width


def plan(before: Buffer, after: Buffer) -> Iterator[Cut]:
    """Yield the pieces to make, in the order of the file."""
    earlier = {section.name: section for section in sections_of(before)}
    for section in sections_of(after):
        yield from _cuts(earlier.get(section.name, Section("", 0, 0)), section)


def make_piece(before: Buffer, after: Buffer, cut: Cut) -> tuple[PatchPiece, bytes]:
    """Return a piece, whose offset is 0, and its frame: empty if the piece is copied."""
    content, same = memoryview(after)[cut.content], memoryview(before)[cut.same]
    size = len(content)
    if len(same) == size and np.array_equal(_bytes(same), _bytes(content)):
        return PatchPiece(cut.same.start, cut.same.stop, size, 0, 0, 0), b""
    prefix, width = memoryview(before)[cut.base], cut.width
    if width:
        frame = compress(differences_of(content, width), differences_of(prefix, width))
    else:
        frame = compress(content, prefix)
    return PatchPiece(cut.base.start, cut.base.stop, size, 0, len(frame), width), frame


def apply_patch(
    base: Path, pieces: Sequence[PatchPiece], frames: Buffer, target: Path, size: int
) -> None:
    """Make a file of `size` bytes, never more, from an earlier one and a patch.

    Raises DownloadDamaged or OSError. The caller compares the hash of the file: an earlier file
    that is not the one that the patch was made from makes another file.
    """
    before = memoryview(open_bytes(base))
    ranges = [before[piece.start : piece.stop] for piece in pieces]
    _check_work(pieces, ranges, len(before), size)
    with target.open("wb") as file:
        for piece, prefix in zip(pieces, ranges, strict=True):
            file.writelines(_contents(prefix, piece, memoryview(frames)))


def differences_of(content: Buffer, width: int) -> Buffer:
    """Return the differences of integers of `width` bytes: all lowest bytes, then the next ones.

    Bytes after the last whole integer follow as they are.
    """
    whole = len(content) // width * width
    items = np.frombuffer(content, f"<u{width}", whole // width)
    result = np.empty(len(content), np.uint8)
    differences = items.copy()
    differences[1:] -= items[:-1]
    result[:whole].reshape(width, -1)[:] = differences.view(np.uint8).reshape(-1, width).T
    result[whole:] = _bytes(content)[whole:]
    return result.data


def sums_of(differences: Buffer, width: int) -> Buffer:
    """Return the content whose `differences_of` these are."""
    whole = len(differences) // width * width
    result = _bytes(differences).copy()
    planes = np.ascontiguousarray(result[:whole].reshape(width, -1).T)
    items = planes.reshape(-1).view(f"<u{width}")
    result[:whole] = np.cumsum(items, dtype=items.dtype).view(np.uint8)
    return result.data


def _cuts(earlier: Section, section: Section) -> Iterator[Cut]:
    """Yield the pieces of a section, each after the part of the earlier section beside it."""
    old, new = earlier.stop - earlier.start, section.stop - section.start
    width = WIDTHS.get(section.width, 0)
    size, reach = (PIECE // 2, MAX_PREFIX // 2) if width else (PIECE, MAX_PREFIX)
    for first in range(0, new, size):
        last = min(first + size, new)
        middle = (first + last) // 2 * old // new
        start = max(0, min(middle, old) - reach // 2) // 8 * 8
        yield Cut(
            slice(section.start + first, section.start + last),
            slice(earlier.start + start, earlier.start + min(old, start + reach)),
            slice(earlier.start + min(first, old), earlier.start + min(last, old)),
            width,
        )


def _check_work(
    pieces: Sequence[PatchPiece], ranges: Sequence[memoryview], before: int, size: int
) -> None:
    """Check that applying a patch takes time in proportion to the files; raises DownloadDamaged.

    A section of one piece has a prefix within the earlier section. The prefixes of several pieces
    have at most four times the bytes of their section, as each is at most twice as long as a piece.
    """
    if sum(piece.size for piece in pieces) != size:
        raise DownloadDamaged(f"a patch does not make {size} bytes")
    is_any_empty = not all(piece.size for piece in pieces)
    if is_any_empty or len(pieces) > 2 * size // PIECE + MAX_SECTIONS:
        raise DownloadDamaged(f"a patch has {len(pieces)} pieces for {size} bytes")
    if sum(map(len, ranges)) > before + 4 * size:
        raise DownloadDamaged(f"a patch reads the {before} bytes of the earlier file repeatedly")


def _contents(base: memoryview, piece: PatchPiece, frames: memoryview) -> Iterator[Buffer]:
    """Yield the content of a piece; raises DownloadDamaged."""
    if not piece.bytes:
        if len(base) != piece.size:
            raise DownloadDamaged("a piece of a patch copies what the earlier file has not")
        yield base
        return
    parts = 2 if piece.width else 1
    if piece.size > PIECE // parts or len(base) > MAX_PREFIX // parts:
        raise DownloadDamaged("a piece of a patch is larger than any that is made")
    frame = frames[piece.offset : piece.offset + piece.bytes]
    if not piece.width:
        yield from decompress(frame, piece.size, base)
        return
    prefix = differences_of(base, piece.width)
    yield sums_of(b"".join(decompress(frame, piece.size, prefix)), piece.width)


def _bytes(content: Buffer) -> npt.NDArray[Any]:
    return np.frombuffer(content, np.uint8)
