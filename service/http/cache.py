"""Caching: encoded responses with their entity tags."""

from __future__ import annotations

import re
from collections import OrderedDict
from functools import cache
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

import service
from service.http.compression import CODINGS, IDENTITY, MIN_SIZE
from service.http.responses import NO_CACHE, SNAPSHOT_HEADER, Cacheable, RawHeaders
from service.settings import Settings

ENTRY_OVERHEAD = 1024
"""Approximate bytes of a cached response besides its body, path and query string."""
MAX_SHARE = 8
"""The largest response is 1/8 of the cache, so that one request cannot evict the rest."""

BODY_SETTINGS = ("mcp", "page", "icons", "downloads", "opensearch_url")
"""Names of the settings that bodies depend on."""

CacheKey = tuple[bytes, str, bytes, bytes, str]
"""Snapshot id, path, query string, content coding and root path of a request."""

# Gateways that compress append the coding to a tag: Apache, Caddy and Jetty. None of ours ends so.
_end_of_tag = re.compile(rb'(?:[;-]+(?:gzip|br|zstd|deflate))?"')


class CachedResponse(Struct, frozen=True):
    """An encoded response with status 200; `not_modified` are the headers of a 304 for it."""

    etag: bytes
    headers: RawHeaders
    not_modified: RawHeaders
    body: bytes
    route: str
    cost: int
    """Approximate bytes of memory."""


class ResponseCache:
    """LRU cache of encoded responses of one snapshot, bounded in bytes. For one thread.

    `version` names all that bodies depend on besides the snapshot and the request.
    """

    def __init__(self, size: int, max_age: int, version: bytes = b"") -> None:
        self._size = self._free = size
        self._cache_control = b"public, max-age=%d" % max_age if max_age else NO_CACHE.encode()
        self._version = version
        self._entries: OrderedDict[CacheKey, CachedResponse] = OrderedDict()

    def get(self, key: CacheKey) -> CachedResponse | None:
        """Return a cached response, which becomes the most recently used."""
        response = self._entries.get(key)
        if response is not None:
            self._entries.move_to_end(key)
        return response

    def add(self, key: CacheKey, response: CachedResponse) -> None:
        """Cache a response, unless it costs more than 1/MAX_SHARE of the cache."""
        if response.cost <= self._size // MAX_SHARE and key not in self._entries:
            self._free -= response.cost
            self._entries[key] = response
            while self._free < 0:
                self._free += self._entries.popitem(last=False)[1].cost

    def encode(self, key: CacheKey, response: Cacheable, route: str) -> CachedResponse:
        """Compress a body if that is worth it, and complete its headers.

        The entity tag changes with this release, its settings and the root path as well. Each
        content coding has a tag of its own (RFC 9110, section 8.8.3), with a point: Caddy takes the
        `-gzip` of the tags that it is asked for.
        """
        snapshot_id, path, query, coding, root_path = key
        body, fields = response.content, dict(response.raw_headers)
        variant = blake2b(self._version, digest_size=4)
        variant.update(root_path.encode("utf-8", "surrogatepass"))
        tag = b"%b-%b" % (response.etag or snapshot_id, variant.hexdigest().encode())
        if coding != IDENTITY and len(body) >= MIN_SIZE:
            body = CODINGS[coding](body)
            tag = b"%b.%b" % (tag, coding)
            fields[b"content-encoding"] = coding
        fields[b"content-length"] = b"%d" % len(body)
        etag = b'"%b"' % tag
        not_modified = [
            (b"etag", etag),
            (b"vary", b"Accept-Encoding"),
            (b"cache-control", response.cache_control or self._cache_control),
        ]
        if snapshot_id:
            not_modified.append((SNAPSHOT_HEADER, snapshot_id))
        return CachedResponse(
            etag=etag,
            headers=[*not_modified, *fields.items()],
            not_modified=not_modified,
            body=body,
            route=route,
            cost=len(path) + len(query) + len(body) + ENTRY_OVERHEAD,
        )


def is_known(field: bytes, etag: bytes) -> bool:
    """Return whether an `If-None-Match` lists this entity tag.

    Tags are compared weakly and without the coding that a gateway appended, since gateways that
    compress a response weaken its tag or append to it.
    """
    if field.strip(b" \t") == b"*":
        return True
    _, *following = field.split(etag[:-1])
    return any(map(_end_of_tag.match, following))


def version_of(settings: Settings) -> bytes:
    """Return a hash of this release and of the settings that bodies depend on."""
    values = [bool(getattr(settings, name)) for name in BODY_SETTINGS]  # no password
    return _release() + msgspec.json.encode(values)


@cache
def _release() -> bytes:
    """Return a hash of this package's files: another release may answer the same otherwise."""
    paths = sorted(path for path in Path(*service.__path__).rglob("*") if path.suffix != ".pyc")
    content = b"".join(path.read_bytes() for path in paths if path.is_file())
    return blake2b(content, digest_size=4).hexdigest().encode()
