"""Patches: a file made from an earlier one, by zstd with the earlier file as prefix.

A patch is a list of pieces. Each is a zstd frame that has as prefix the part of the earlier file
where the content of the piece stood, so that memory does not grow with the file. Arrays of numbers
are transformed first (`service.publishing.transforms`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from service.errors import DownloadDamaged
from service.publishing.frames import Buffer, compress_after, decompress, map_file
from service.publishing.transforms import PLAIN, Gather, Transform

PIECE = 2**25
"""Bytes of a file that are one frame of its patch."""
MAX_PREFIX = 2**26
"""Bytes of the earlier file that a piece is compressed after."""
ARRAY_MAGIC = b"\x93NUMPY\x01"

Size = Annotated[int, Meta(ge=0)]


class Piece(Struct, frozen=True, array_like=True):
    """A frame of `size` bytes, with bytes of the transformed earlier file as prefix."""

    start: Size
    stop: Size
    size: Annotated[int, Meta(ge=0, le=PIECE)]
    frame: bytes


class Patch(Struct, frozen=True, array_like=True):
    """A patch as it is encoded: the head of the file, and pieces of the rest.

    skipped: bytes of the head of the earlier file
    """

    head: bytes
    skipped: Size
    transform: Transform
    pieces: list[Piece]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Patch)


def make_patch(base: Path, target: Path, transform: Transform = PLAIN) -> bytes:
    """Return what `apply_patch` makes a file from an earlier one with."""
    before, after = memoryview(map_file(base)), memoryview(map_file(target))
    head, skipped = array_head(after), array_head(before)
    body, base_body = after[head:], before[skipped:]
    if len(body) % transform.width or len(base_body) % transform.width:
        transform = PLAIN
    pieces = [
        Piece(
            start,
            stop,
            last - first,
            compress_after(
                transform.before(base_body, start, stop), transform.forward(body, first, last)
            ),
        )
        for first, last, start, stop in _plan(len(base_body), len(body), transform)
    ]
    return _encoder.encode(Patch(bytes(after[:head]), skipped, transform, pieces))


def apply_patch(base: Path, patch: Buffer, target: Path, size: int) -> None:
    """Make a file of `size` bytes, never more, from an earlier one and a patch.

    Raises DownloadDamaged or OSError. The caller compares the hash of the file: an earlier file
    that is not the one that the patch was made from makes another file.
    """
    try:
        decoded = _decoder.decode(patch)
    except msgspec.MsgspecError as error:
        raise DownloadDamaged(f"a patch cannot be read: {error}") from error
    expected = len(decoded.head) + sum(piece.size for piece in decoded.pieces)
    if expected != size:
        raise DownloadDamaged(f"a patch makes {expected} bytes, not {size}")
    with target.open("wb") as file:
        file.write(decoded.head)
        for content in _contents(memoryview(map_file(base))[decoded.skipped :], decoded):
            file.write(content)


def array_head(content: memoryview) -> int:
    """Return the bytes before the items of a `.npy` file; 0 for another file."""
    if bytes(content[: len(ARRAY_MAGIC)]) != ARRAY_MAGIC:
        return 0
    return 10 + int.from_bytes(content[8:10], "little")


def _plan(base: int, target: int, transform: Transform) -> Iterator[tuple[int, int, int, int]]:
    """Yield the bounds of each piece, and those of its part of the transformed earlier file."""
    width = transform.width
    step = max(1, PIECE // width) * width
    for first in range(0, target, step):
        last = min(first + step, target)
        if isinstance(transform, Gather):
            yield first, last, first, last
            continue
        middle = (first + last) // 2 * base // target
        start = max(0, min(middle, base) - MAX_PREFIX // 2) // width * width
        stop = min(base, start + MAX_PREFIX // width * width)
        yield first, last, start, stop


def _contents(base: memoryview, patch: Patch) -> Iterator[Buffer]:
    """Yield the content of each piece; raises DownloadDamaged."""
    last: Buffer = b""
    for piece in patch.pieces:
        if not 0 <= piece.stop - piece.start <= MAX_PREFIX:
            raise DownloadDamaged("a piece of a patch has no valid part of the earlier file")
        try:
            prefix = patch.transform.before(base, piece.start, piece.stop)
            content = bytearray()
            for chunk in decompress(piece.frame, piece.size, prefix):
                content += chunk
            restored = patch.transform.restore(content, last)
        except ValueError as error:  # bytes that are no whole number of items
            raise DownloadDamaged(f"a patch does not fit the earlier file: {error}") from error
        last = memoryview(restored)[-patch.transform.width :]
        yield restored
