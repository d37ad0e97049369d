"""Caching: encoded responses with their entity tags."""

from __future__ import annotations

import re
from collections import OrderedDict
from functools import cache
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct

import service
from service.http.compression import CODINGS, IDENTITY, MIN_SIZE
from service.http.responses import RawHeaders

ENTRY_OVERHEAD = 1024
"""Bytes that a cached response takes besides its body and key, roughly."""
MAX_SHARE = 8
"""No response may take more than 1/8 of the cache, or one request could empty it."""

Key = tuple[bytes, str, bytes, bytes, str]
"""Snapshot id, path, query string, content coding and root path of a request."""

_entity_tags = re.compile(rb'"[\x21\x23-\x7e\x80-\xff]*"')


class CachedResponse(Struct, frozen=True):
    """An encoded response with status 200; `not_modified` are the headers of a 304 for it."""

    etag: bytes
    headers: RawHeaders
    not_modified: RawHeaders
    body: bytes
    route: str
    cost: int
    """Memory that it takes, in bytes and roughly."""

    def is_known(self, if_none_match: bytes) -> bool:
        """Return whether the client has this response."""
        return matches(if_none_match, self.etag)


class ResponseCache:
    """LRU cache of encoded responses of one snapshot, bounded in bytes. For one thread.

    The first response of another snapshot evicts all others.
    """

    def __init__(self, size: int, max_age: int) -> None:
        self._size = self._free = size
        self.cache_control = b"public, max-age=%d" % max_age if max_age else b"no-cache"
        self._snapshot_id = b""
        self._entries: OrderedDict[Key, CachedResponse] = OrderedDict()

    def get(self, key: Key) -> CachedResponse | None:
        """Return a cached response, which becomes the most recently used."""
        response = self._entries.get(key)
        if response is not None:
            self._entries.move_to_end(key)
        return response

    def add(self, key: Key, response: CachedResponse) -> None:
        """Cache a response, unless it is too large for that."""
        snapshot_id = key[0]
        if snapshot_id != self._snapshot_id:
            self._snapshot_id, self._free = snapshot_id, self._size
            self._entries.clear()
        if response.cost <= self._size // MAX_SHARE and key not in self._entries:
            self._free -= response.cost
            self._entries[key] = response
            while self._free < 0:
                self._free += self._entries.popitem(last=False)[1].cost


def matches(if_none_match: bytes, etag: bytes) -> bool:
    """Compare weakly, since gateways that compress a response weaken its tag."""
    return if_none_match == b"*" or etag in _entity_tags.findall(if_none_match)


def encode_response(
    key: Key, headers: RawHeaders, body: bytes, route: str, cache_control: bytes
) -> CachedResponse:
    """Compress a body if that is worth it, and complete its headers.

    Without an `ETag` header the response gets one of its snapshot and of this release, since it
    depends on nothing else. Each content coding has a tag of its own (RFC 9110, section 8.8.3).
    `Cache-Control` and `Ratecard-Snapshot` of its own stay.
    """
    snapshot_id, path, query, coding, _ = key
    fields = dict(headers)
    cache_control = fields.pop(b"cache-control", cache_control)
    tag = b"%b-%b" % (fields.pop(b"etag", b"").strip(b'"') or snapshot_id, release())
    if coding != IDENTITY and len(body) >= MIN_SIZE:
        body = CODINGS[coding](body)
        tag = b"%b-%b" % (tag, coding)
        fields[b"content-encoding"] = coding
    fields[b"content-length"] = b"%d" % len(body)
    etag = b'"%b"' % tag
    not_modified = [
        (b"etag", etag),
        (b"vary", b"Accept-Encoding"),
        (b"cache-control", cache_control),
        (b"ratecard-snapshot", fields.pop(b"ratecard-snapshot", snapshot_id)),
    ]
    return CachedResponse(
        etag=etag,
        headers=[*not_modified, *fields.items()],
        not_modified=not_modified,
        body=body,
        route=route,
        cost=len(path) + len(query) + len(body) + ENTRY_OVERHEAD,
    )


@cache
def release() -> bytes:
    """Return a hash of this package's files: another release may answer the same otherwise."""
    digest = blake2b(digest_size=4)
    folder = Path(*service.__path__)
    for path in sorted(path for path in folder.rglob("*") if path.suffix != ".pyc"):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest().encode()
