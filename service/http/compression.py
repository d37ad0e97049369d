"""Content codings: which one a client accepts, and compressing with it."""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module

IDENTITY = b""
WORTH_COMPRESSING = 1024
"""Bytes from which a body is compressed: below, it would cost more than the packet it saves."""
GZIP_LEVEL = 5
LONGEST_REMEMBERED = 200

_weight = re.compile(rb"\s*q\s*=\s*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)\s*")


def accepted(header: bytes) -> bytes:
    """The coding to answer with to an `Accept-Encoding`: the one that the client likes best.

    Of those that it likes as much the first of `CODINGS`; `IDENTITY` where it accepts none.
    Source: RFC 9110, section 12.5.3.
    """
    return _remembered(header) if len(header) <= LONGEST_REMEMBERED else _accepted(header)


def _gzip(body: bytes) -> bytes:
    compressor = zlib.compressobj(GZIP_LEVEL, wbits=31)
    return compressor.compress(body) + compressor.flush()


def _codings() -> dict[bytes, Callable[[bytes], bytes]]:
    """What this Python can compress with, cheapest first."""
    codings: dict[bytes, Callable[[bytes], bytes]] = {b"gzip": _gzip}
    try:
        library = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
        zstd = import_module(library)
    except ImportError:
        return codings
    return {b"zstd": zstd.compress} | codings


CODINGS = _codings()


def _accepted(header: bytes) -> bytes:
    weights: dict[bytes, float] = {}
    for part in header.lower().split(b","):
        name, weighted, parameter = part.partition(b";")
        weight = _weight.fullmatch(parameter)
        # What cannot be read is no wish: a body as it is suits everybody.
        weights[name.strip()] = float(weight[1]) if weight else 0.0 if weighted else 1.0
    others = weights.get(b"*", 0.0)
    best, most = IDENTITY, weights.get(b"identity", others)
    for coding in CODINGS:
        liking = weights.get(coding, others)
        if liking > most or (liking == most > 0 and best == IDENTITY):
            best, most = coding, liking
    return best


_remembered = lru_cache(maxsize=256)(_accepted)
