"""Gzip data that arrives in pieces, opened without ever holding more than a little of it."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from itertools import chain

from indexer.sources.records import GZIP_MAGIC

PIECE = 2**18
GZIP_FORMAT = 16 + zlib.MAX_WBITS


def gunzip(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The bytes as they are, or what they decompress to when they hold gzip data.

    Decompressed bytes come in pieces of at most `PIECE`, however far the data expands. Raises
    EOFError when the data is cut short and zlib.error when it is damaged.
    """
    pieces = iter(pieces)
    start = b""
    for piece in pieces:
        start += piece
        if len(start) >= len(GZIP_MAGIC):
            break
    whole = chain([start], pieces)
    return _decompressed(whole) if start.startswith(GZIP_MAGIC) else whole


def _decompressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    member = zlib.decompressobj(GZIP_FORMAT)
    for piece in pieces:
        rest = piece
        while rest:
            if member.eof:
                rest = rest.lstrip(b"\0")  # archives are padded to whole blocks
                if not rest:
                    break
                member = zlib.decompressobj(GZIP_FORMAT)
            yield member.decompress(rest, PIECE)
            rest = member.unused_data if member.eof else member.unconsumed_tail
    yield member.flush()  # the few bytes that the last piece stands for beyond its allowance
    if not member.eof:
        raise EOFError
