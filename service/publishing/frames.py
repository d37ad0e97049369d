"""zstd frames: files compressed each into one, and decompressed within a bound."""

from __future__ import annotations

import mmap
from pathlib import Path

Buffer = bytes | bytearray | memoryview | mmap.mmap


class FrameDamaged(Exception):
    """A frame or a patch is not what makes the file that is expected of it."""


def unpack(frame: Buffer, target: Path, size: int) -> None:
    """Decompress a frame to a file of `size` bytes, never more; raises FrameDamaged or OSError.

    The caller compares the hash of the file.
    """
    raise NotImplementedError
