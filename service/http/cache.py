"""Caching: entity tags, conditional requests, compression, and the responses of each snapshot."""

from __future__ import annotations

import re
from collections import OrderedDict
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from starlette.types import ASGIApp, Message, Receive, Scope, Send

import service
from service.http.compression import CODINGS, IDENTITY, MIN_SIZE, negotiate
from service.http.metrics import Counts
from service.http.responses import FIELDS, SNAPSHOT
from service.snapshot import Snapshot

ENTRY_OVERHEAD = 1024
"""Bytes that a cached response takes besides its body and key, roughly."""
MAX_SHARE = 8
"""No response may take more than 1/8 of the cache, or one request could empty it."""

Key = tuple[str, bytes, bytes, str]
"""Path, query string, content coding and root path of a request."""
RawHeaders = list[tuple[bytes, bytes]]

_entity_tags = re.compile(rb'"[\x21\x23-\x7e\x80-\xff]*"')


class CachedResponse(NamedTuple):
    """A response with status 200, encoded.

    `validators` are the headers that a 304 has as well, `cost` is about its memory in bytes.
    """

    etag: bytes
    validators: RawHeaders
    headers: RawHeaders
    body: Message
    route: Any
    cost: int


class ResponseCache:
    """LRU cache of responses, bounded in bytes. For one snapshot and one thread."""

    def __init__(self, size: int) -> None:
        self._size = self._free = size
        self._entries: OrderedDict[Key, CachedResponse] = OrderedDict()

    def get(self, key: Key) -> CachedResponse | None:
        """Return a cached response, which becomes the most recently used."""
        response = self._entries.get(key)
        if response is not None:
            self._entries.move_to_end(key)
        return response

    def put(self, key: Key, response: CachedResponse) -> None:
        """Add a response that was not there and evict others for it, unless it is too large."""
        if response.cost > self._size // MAX_SHARE:
            return
        self._free -= response.cost
        self._entries[key] = response
        while self._free < 0:
            self._free += self._entries.popitem(last=False)[1].cost


class CacheMiddleware:
    """Answers repeated requests from memory, and conditional ones with 304.

    Caches each 200 response without a `Cache-Control` header of its own, by path, query string and
    content coding, for as long as its snapshot is alive. Without an `ETag` header a response gets
    one of its snapshot and of this release, since it depends on nothing else.
    """

    def __init__(self, app: ASGIApp, size: int, max_age: int, counts: Counts) -> None:
        self._app = app
        self._size = size
        self._counts = counts
        self._cache_control = b"public, max-age=%d" % max_age if max_age else b"no-cache"
        self._caches: WeakKeyDictionary[Snapshot, ResponseCache] = WeakKeyDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer from the cache, or cache what the application answers."""
        snapshot: Snapshot | None = scope.get(SNAPSHOT)
        if snapshot is None or scope["method"] not in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        fields: dict[bytes, bytes] = scope[FIELDS]
        coding = negotiate(fields.get(b"accept-encoding", b""))
        key = scope["path"], scope["query_string"], coding, scope.get("root_path", "")
        responses = self._caches.get(snapshot)
        if responses is None:
            responses = self._caches[snapshot] = ResponseCache(self._size)
        response = responses.get(key)
        if response is not None:
            self._counts.cache_hits += 1
            scope["route"] = response.route
        else:
            response = await self._render(scope, receive, send, snapshot, coding)
            if response is None:
                return
            self._counts.cache_misses += 1
            responses.put(key, response)
        known = fields.get(b"if-none-match")
        if known and _matches(known, response.etag):
            await send(
                {"type": "http.response.start", "status": 304, "headers": response.validators}
            )
            await send({"type": "http.response.body", "body": b""})
        else:
            await send({"type": "http.response.start", "status": 200, "headers": response.headers})
            await send(response.body)

    async def _render(
        self, scope: Scope, receive: Receive, send: Send, snapshot: Snapshot, coding: bytes
    ) -> CachedResponse | None:
        """Return the application's response, encoded; None if it was sent as not cacheable."""
        headers: RawHeaders | None = None
        pieces: list[bytes] = []

        async def collect(message: Message) -> None:
            nonlocal headers
            if headers is not None:
                pieces.append(message.get("body", b""))
            elif message.get("status") == 200 and b"cache-control" not in dict(message["headers"]):
                headers = message["headers"]
            else:
                await send(message)

        await self._app(scope, receive, collect)
        if headers is None:
            return None
        body = b"".join(pieces) if len(pieces) != 1 else pieces[0]
        return self._encode(scope, headers, body, snapshot, coding)

    def _encode(
        self, scope: Scope, given: RawHeaders, body: bytes, snapshot: Snapshot, coding: bytes
    ) -> CachedResponse:
        """Compress the body if that is worth it, and complete the headers.

        Each content coding has an entity tag of its own (RFC 9110, section 8.8.3).
        """
        fields = dict(given)
        tag = fields.pop(b"etag", b"").strip(b'"') or snapshot.encoded_id
        tag = b"%b-%b" % (tag, release())
        if coding != IDENTITY and len(body) >= MIN_SIZE:
            body = CODINGS[coding](body)
            tag = b"%b-%b" % (tag, coding)
            fields[b"content-encoding"] = coding
        fields[b"content-length"] = b"%d" % len(body)
        etag = b'"%b"' % tag
        validators = [
            (b"etag", etag),
            (b"vary", b"Accept-Encoding"),
            (b"cache-control", self._cache_control),
        ]
        return CachedResponse(
            etag,
            validators,
            [*validators, *fields.items()],
            {"type": "http.response.body", "body": body},
            scope["route"],
            len(scope["path"]) + len(scope["query_string"]) + len(body) + ENTRY_OVERHEAD,
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


def _matches(known: bytes, etag: bytes) -> bool:
    """Compare weakly, since gateways that compress a response weaken its tag."""
    return known == b"*" or etag in _entity_tags.findall(known)
