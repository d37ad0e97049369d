"""Compressed files: gzip, and the zstd of downloads, decompressed as they are read."""

from __future__ import annotations

import gzip
import io
import zlib

from indexer.text import GZIP_MAGIC
from service.arrays.files import zstd

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
DAMAGES = (EOFError, zlib.error, gzip.BadGzipFile, zstd.ZstdError)
"""Errors of reading compressed data that are damaged or cut short."""


def decompress(file: io.BufferedReader) -> io.BufferedReader:
    """Return a file that decompresses gzip or zstd data, or the file itself when it holds none.

    Frames that refer back further than the 128 MiB of the default window count as damaged.
    """
    start = file.peek(4)
    if start.startswith(ZSTD_MAGIC):
        return io.BufferedReader(zstd.open(file))
    if start.startswith(GZIP_MAGIC):
        return io.BufferedReader(gzip.GzipFile(fileobj=file))
    return file
