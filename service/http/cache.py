"""The response cache: what was made from a snapshot already, bounded in bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from service.http.metrics import Counts

OVERHEAD = 1024
"""Bytes that a stored response takes besides its body, more or less."""
LARGEST_SHARE = 8
"""No response may take more than this part of the cache, or one request would empty it."""


class CachedResponse(NamedTuple):
    """A response as it goes out, with the header lines of a 200, and those of a 304."""

    body: bytes
    lines: bytes
    unchanged: bytes
    entity_tag: bytes


class Cache:
    """Responses by what was asked, the least recently used one dropped first.

    For one snapshot, with which it goes, and one thread; `size` is in bytes.
    """

    def __init__(self, size: int, counts: Counts) -> None:
        self._size = self._free = size
        self._counts = counts
        self._made: OrderedDict[bytes, CachedResponse] = OrderedDict()

    def get(self, key: bytes) -> CachedResponse | None:
        """What was stored, now the most recently used."""
        made = self._made.get(key)
        if made is None:
            self._counts.cache_misses += 1
            return None
        self._counts.cache_hits += 1
        self._made.move_to_end(key)
        return made

    def put(self, key: bytes, made: CachedResponse) -> None:
        """Store a response that was not there, and drop others for it, if it is not too large."""
        cost = _cost(key, made)
        if cost > self._size // LARGEST_SHARE:
            return
        self._free -= cost
        self._made[key] = made
        while self._free < 0:
            self._free += _cost(*self._made.popitem(last=False))


def _cost(key: bytes, made: CachedResponse) -> int:
    return len(key) + len(made.body) + OVERHEAD
