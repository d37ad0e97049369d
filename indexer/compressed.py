"""Compressed files: gzip, and the zstd of downloads, decompressed as they are read."""

from __future__ import annotations

import gzip
import io
from typing import TYPE_CHECKING

from indexer.text import GZIP_MAGIC
from service.storage.files import zstd

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class ZstdDamaged(EOFError):
    """Zstd data is damaged or cut short."""


def decompress(file: io.BufferedReader) -> io.BufferedReader:
    """Return a file that decompresses gzip or zstd data, or the file itself when it holds none.

    Frames that refer back further than the 128 MiB of the default window count as damaged.
    """
    if file.peek(4)[:4] == ZSTD_MAGIC:
        return io.BufferedReader(_ZstdReader(file))
    return unzip(file)


def unzip(file: io.BufferedReader) -> io.BufferedReader:
    """Return a file that decompresses gzip data, or the file itself when it holds none."""
    if file.peek(2)[:2] == GZIP_MAGIC:
        return io.BufferedReader(gzip.GzipFile(fileobj=file))
    return file


class _ZstdReader(io.RawIOBase):
    def __init__(self, file: io.BufferedReader) -> None:
        self._file = zstd.open(file)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        try:
            return self._file.readinto(buffer)
        except (zstd.ZstdError, EOFError) as error:
            raise ZstdDamaged(str(error)) from error
