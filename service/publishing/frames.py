"""zstd frames: sections of files compressed each into one, and decompressed within a bound."""

from __future__ import annotations

import hashlib
import mmap
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from service.artifacts.downloads import Frame
from service.errors import DownloadDamaged
from service.snapshot.manifest import File
from service.storage.container import sections_of

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FramesDamaged = zstd.ZstdError
open_frames = zstd.ZstdFile
"""Opens a file of frames of any size, without the bounds of `decompress`."""

Buffer = bytes | bytearray | memoryview | mmap.mmap

LEVEL = 3
CHUNK = 2**20
"""Bytes that are compressed or decompressed at a time."""
THREADS_FROM = 2**20
"""Bytes from which a frame is compressed in threads. Their number does not change the frame."""
SMALL = 2**16
"""Bytes up to which neighbouring arrays share a frame, which saves replicas requests."""
MIN_WINDOW, MAX_WINDOW = 10, 27
"""Logarithms of the bytes that a frame may refer back to, which bounds memory."""
PLAIN_WINDOW = 23
"""The same for a frame without a prefix: level 3 takes 21."""
PREFIXED_LEVEL = 1
"""The level after a prefix: level 3 takes a quarter more time for 1 % fewer bytes."""
MIN_PREFIX = 8
"""Bytes below which zstd takes no prefix."""
MIN_MATCH, HASH_RATE_LOG, HASH_LOG = 32, 5, 21
"""Long-distance matching: bytes of the shortest match, logarithms of the bytes for each position
that is indexed and of the entries of the index. Moved rows of 128 bytes are found; by default zstd
indexes one position of 128 bytes."""


class ArchiveWriter:
    """Appends frames to a file, and hashes it."""

    def __init__(self, file: IO[bytes], threads: int) -> None:
        self._file = file
        self._threads = threads
        self._hash = hashlib.sha256()
        self._offset = 0

    @property
    def file(self) -> File:
        """The size and the hash of the file so far."""
        return File(self._offset, self._hash.hexdigest())

    def compress(self, chunks: Iterable[Buffer], size: int) -> Frame:
        """Append a frame of `size` bytes of content."""
        options: dict[int, int] = {zstd.CompressionParameter.compression_level: LEVEL}
        if size >= THREADS_FROM:
            options[zstd.CompressionParameter.nb_workers] = self._threads
        compressor = zstd.ZstdCompressor(options=options)
        compressor.set_pledged_input_size(size)
        return self.append(_compressed(compressor, chunks))

    def append(self, pieces: Iterable[Buffer]) -> Frame:
        """Append bytes that are compressed already."""
        start, digest = self._offset, hashlib.sha256()
        for piece in pieces:
            self._file.write(piece)
            self._hash.update(piece)
            digest.update(piece)
            self._offset += len(piece)
        return Frame(start, self._offset - start, digest.hexdigest())


def cut(content: Buffer) -> list[tuple[int, int]]:
    """Return the bounds of the frames of a file: its arrays, small neighbours together.

    The header goes with the first array, which changes its length when the header changes.
    """
    bounds: list[tuple[int, int]] = []
    for number, section in enumerate(sections_of(content)):
        if number == 1 or (bounds and section.stop - bounds[-1][0] <= SMALL):
            bounds[-1] = bounds[-1][0], section.stop
        else:
            bounds.append((section.start, section.stop))
    return bounds


def unpack(frame: Buffer, target: Path, size: int) -> None:
    """Decompress a frame to a file of `size` bytes, never more; raises DownloadDamaged or OSError.

    The caller compares the hash of the file.
    """
    with target.open("wb") as file:
        file.writelines(decompress(frame, size))


def compress(content: Buffer, prefix: Buffer = b"") -> bytes:
    """Return a frame of content that is in memory, and is perhaps much like a prefix."""
    parameter = zstd.CompressionParameter
    options: dict[int, int] = {parameter.compression_level: LEVEL}
    if len(prefix) >= MIN_PREFIX:
        options = {
            parameter.compression_level: PREFIXED_LEVEL,
            parameter.enable_long_distance_matching: 1,
            parameter.ldm_min_match: MIN_MATCH,
            parameter.ldm_hash_rate_log: HASH_RATE_LOG,
            parameter.ldm_hash_log: HASH_LOG,
            parameter.window_log: max(MIN_WINDOW, (len(prefix) + len(content)).bit_length()),
        }
    return zstd.compress(content, options=options, zstd_dict=_dictionary(prefix))


def longest_frame(size: int) -> int:
    """Return more bytes than a frame of `size` bytes has that cannot be compressed."""
    return size + (size >> 7) + (1 << 16)


def decompress(frame: Buffer, size: int, prefix: Buffer = b"") -> Iterator[bytes]:
    """Yield the content of a frame, which must have `size` bytes; raises DownloadDamaged."""
    if len(frame) > longest_frame(size):  # blocks of no content take time without bound
        raise DownloadDamaged(f"a frame of {len(frame)} bytes is too long for {size} bytes")
    rest = size
    for piece in _decompressed(frame, prefix):
        rest -= len(piece)
        if rest < 0:
            break
        yield piece
    if rest:
        raise DownloadDamaged(f"a frame does not hold {size} bytes")


def chunks_of(content: Buffer) -> Iterator[memoryview]:
    """Yield the pieces of a buffer that are compressed at a time."""
    view = memoryview(content)
    for start in range(0, len(view), CHUNK):
        yield view[start : start + CHUNK]


def _decompressed(frame: Buffer, prefix: Buffer) -> Iterator[bytes]:
    """Yield the content of exactly one frame, CHUNK bytes at most at a time."""
    window = MAX_WINDOW if prefix else PLAIN_WINDOW
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: window}
    decompressor = zstd.ZstdDecompressor(_dictionary(prefix), options)
    chunks = chunks_of(frame)
    try:
        while not decompressor.eof:
            chunk: Buffer = next(chunks, b"") if decompressor.needs_input else b""
            if decompressor.needs_input and not chunk:
                raise DownloadDamaged("a frame is truncated")
            yield decompressor.decompress(chunk, CHUNK)
    except zstd.ZstdError as error:
        raise DownloadDamaged(f"a frame cannot be decompressed: {error}") from error
    if decompressor.unused_data or next(chunks, b""):
        raise DownloadDamaged("a frame has other bytes after it")


def _dictionary(prefix: Buffer) -> tuple[zstd.ZstdDict, int] | None:
    if len(prefix) < MIN_PREFIX:
        return None
    return zstd.ZstdDict(prefix, is_raw=True).as_prefix


def _compressed(compressor: zstd.ZstdCompressor, chunks: Iterable[Buffer]) -> Iterator[bytes]:
    for chunk in chunks:
        yield compressor.compress(chunk)
    yield compressor.flush()
