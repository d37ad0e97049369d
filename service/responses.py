"""Responses: where an answer becomes a status, headers and bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from service.coding import CODINGS, IDENTITY, WORTH_COMPRESSING, accepted

Header = tuple[bytes, bytes]

EVERY_RESPONSE: tuple[Header, ...] = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"ETag, Ratecard-Snapshot, Retry-After, X-Request-Id"),
    (b"x-content-type-options", b"nosniff"),
)
JSON: Header = (b"content-type", b"application/json")
VARY: Header = (b"vary", b"Accept-Encoding")
NEVER_STORED: Header = (b"cache-control", b"no-store")

_entity_tags = re.compile(rb'"[\x21\x23-\x7e\x80-\xff]*"|\*')


class Bytes(Response):
    """A response whose headers are made already; Starlette's own encodes each of them anew."""

    def __init__(self, status: int, headers: list[Header], body: bytes) -> None:
        self.status_code = status
        self.raw_headers = headers
        self.body = body
        self.background = None


def cacheable(request: Request, body: bytes, tag: bytes | None = None) -> Response:
    """JSON that stays the same until its `tag` changes, compressed if the client accepts it.

    304 without a body if the client has it. Each coding has its own tag; comparing is weak, as
    gateways that compress weaken tags. The tag is a hash of the body by default.
    """
    if tag is None:
        tag = blake2b(body, digest_size=8).hexdigest().encode()
    scope = request.scope
    coding = IDENTITY
    if len(body) >= WORTH_COMPRESSING:
        coding = accepted(header(scope, b"accept-encoding"))
    entity_tag = b'"%b-%b"' % (tag, coding) if coding else b'"%b"' % tag
    headers = [
        *_headers(scope),
        VARY,
        (b"cache-control", request.app.state.cache_control),
        (b"etag", entity_tag),
    ]
    known = header(scope, b"if-none-match")
    if known and not {entity_tag, b"*"}.isdisjoint(_entity_tags.findall(known)):
        return Bytes(304, headers, b"")
    if coding:
        body = CODINGS[coding](body)
        headers.append((b"content-encoding", coding))
    return Bytes(200, [*headers, JSON, _length(body)], body)


def momentary(
    request: Request, body: bytes, status: int = 200, headers: Iterable[Header] = (JSON,)
) -> Response:
    """An answer of this moment, which nobody is to keep."""
    length = () if status == 204 else (_length(body),)
    return Bytes(status, [*_headers(request.scope), NEVER_STORED, *headers, *length], body)


def header(scope: Scope, name: bytes) -> bytes:
    """The value of a request header; repeated ones are one list."""
    return b",".join([value for key, value in scope["headers"] if key == name])


def cache_control(max_age: int) -> bytes:
    """How long a client or gateway may use an answer without asking, in seconds."""
    return b"public, max-age=%d" % max_age if max_age else b"no-cache"


def _headers(scope: Scope) -> list[Header]:
    snapshot = scope.get("snapshot")
    if snapshot is None:
        return list(EVERY_RESPONSE)
    return [*EVERY_RESPONSE, (b"ratecard-snapshot", snapshot.name)]


def _length(body: bytes) -> Header:
    return b"content-length", b"%d" % len(body)
