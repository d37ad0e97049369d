"""Content codings: negotiation with the client, and compression."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from functools import lru_cache, partial

from service.arrays.files import zstd

IDENTITY = b""
MIN_SIZE = 1024
"""Bytes of a body worth compressing: a smaller one fits into a packet or two anyway."""
GZIP_LEVEL = 5
MAX_CACHED_FIELD = 200  # bytes of an Accept-Encoding whose negotiation is cached
CODINGS: dict[bytes, Callable[[bytes], bytes]] = {
    b"zstd": zstd.compress,
    b"gzip": partial(zlib.compress, level=GZIP_LEVEL, wbits=31),
}
"""The codings, cheapest first."""

_weight = re.compile(rb"\s*q\s*=\s*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)\s*")


def negotiate(field: bytes) -> bytes:
    """Return the coding that an `Accept-Encoding` prefers, or `IDENTITY`.

    Of codings with equal weight the first of `CODINGS` (RFC 9110, section 12.5.3).
    """
    return _negotiate_cached(field) if len(field) <= MAX_CACHED_FIELD else _negotiate(field)


def _negotiate(field: bytes) -> bytes:
    weights: dict[bytes, float] = {}
    for part in field.lower().split(b","):
        name, parameter_follows, parameter = part.partition(b";")
        weight = _weight.fullmatch(parameter)
        # Treat a malformed weight as q=0: every client can read an uncompressed body.
        weights[name.strip()] = float(weight[1]) if weight else 0.0 if parameter_follows else 1.0
    default = weights.get(b"*", 0.0)
    best, best_weight = IDENTITY, weights.get(b"identity", default)
    for coding in CODINGS:
        weight_of_coding = weights.get(coding, default)
        ties_with_identity = weight_of_coding == best_weight > 0 and best == IDENTITY
        if weight_of_coding > best_weight or ties_with_identity:
            best, best_weight = coding, weight_of_coding
    return best


_negotiate_cached = lru_cache(maxsize=256)(_negotiate)
