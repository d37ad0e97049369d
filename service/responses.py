"""Responses: where an answer becomes a status, headers and bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from service.cache import Header, Made
from service.coding import CODINGS, IDENTITY, WORTH_COMPRESSING, accepted
from service.published import Serving

EVERY_RESPONSE: tuple[Header, ...] = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"ETag, Ratecard-Snapshot, Retry-After, X-Request-Id"),
    (b"x-content-type-options", b"nosniff"),
)
JSON: Header = (b"content-type", b"application/json")
VARY: Header = (b"vary", b"Accept-Encoding")
METHODS = "GET, HEAD, OPTIONS"
ALLOW: Header = (b"allow", METHODS.encode())
PREFLIGHT: tuple[Header, ...] = (
    ALLOW,
    (b"access-control-allow-methods", METHODS.encode()),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-max-age", b"86400"),
)
NEVER_STORED: Header = (b"cache-control", b"no-store")

_entity_tags = re.compile(rb'"[\x21\x23-\x7e\x80-\xff]*"')


class Bytes(Response):
    """A response whose headers are made already; Starlette's own encodes each of them anew."""

    def __init__(self, status: int, headers: list[Header], body: bytes) -> None:
        self.status_code = status
        self.raw_headers = headers
        self.body = body
        self.background = None


def from_cache(request: Request, asked: bytes, make: Callable[[], bytes]) -> Response:
    """JSON that stays the same as long as its snapshot is served, made once for each coding.

    `asked` is the normalised request. 304 without a body if the client has the answer.
    """
    coding = accepted(header(request.scope, b"accept-encoding"))
    key = b"%b %b" % (coding, asked)
    serving: Serving = request.scope["serving"]
    made = serving.responses.get(key)
    if made is None:
        made = _finish(request, make(), serving.snapshot.name, coding)
        serving.responses.put(key, made)
    return _answer(request, made)


def direct(request: Request, body: bytes, tag: bytes) -> Response:
    """JSON that is as cheap to make as to keep, and kept only where it is compressed.

    Its `tag` is a hash of it. 304 without a body if the client has it.
    """
    worth = len(body) >= WORTH_COMPRESSING
    coding = accepted(header(request.scope, b"accept-encoding")) if worth else IDENTITY
    if not coding:
        return _answer(request, _finish(request, body, tag, coding))
    key = b"%b %b" % (coding, tag)
    serving: Serving = request.scope["serving"]
    made = serving.responses.get(key)
    if made is None:
        made = _finish(request, body, tag, coding)
        serving.responses.put(key, made)
    return _answer(request, made)


def momentary(
    request: Request, body: bytes, status: int = 200, headers: Iterable[Header] = (JSON,)
) -> Response:
    """An answer of this moment, which nobody is to keep."""
    length = () if status == 204 else (_length(body),)
    return Bytes(status, [*_headers(request.scope), NEVER_STORED, *headers, *length], body)


def preflight(request: Request) -> Response:
    """The answer to OPTIONS, which browsers ask before they send unusual headers."""
    return momentary(request, b"", 204, PREFLIGHT)


def header(scope: Scope, name: bytes) -> bytes:
    """The value of a request header; repeated ones are one list."""
    return b",".join([value.strip(b" \t") for key, value in scope["headers"] if key == name])


def cache_control(max_age: int) -> bytes:
    """How long a client or gateway may use an answer without asking, in seconds."""
    return b"public, max-age=%d" % max_age if max_age else b"no-cache"


def _finish(request: Request, body: bytes, tag: bytes, coding: bytes) -> Made:
    """Compress what is worth it, and make the headers; each coding has a tag of its own."""
    content = [JSON]
    if coding and len(body) >= WORTH_COMPRESSING:
        body = CODINGS[coding](body)
        tag = b"%b-%b" % (tag, coding)
        content.append((b"content-encoding", coding))
    entity_tag = b'"%b"' % tag
    headers = [
        *_headers(request.scope),
        VARY,
        (b"cache-control", request.app.state.cache_control),
        (b"etag", entity_tag),
    ]
    return Made(body, headers, [*headers, *content, _length(body)], entity_tag)


def _answer(request: Request, made: Made) -> Response:
    """What was asked for, or 304; comparing is weak, as gateways that compress weaken tags."""
    known = header(request.scope, b"if-none-match")
    if known and (known == b"*" or made.entity_tag in _entity_tags.findall(known)):
        return Bytes(304, made.headers, b"")
    return Bytes(200, made.whole, made.body)


def _headers(scope: Scope) -> list[Header]:
    serving: Serving | None = scope.get("serving")
    if serving is None:
        return list(EVERY_RESPONSE)
    return [*EVERY_RESPONSE, (b"ratecard-snapshot", serving.snapshot.name)]


def _length(body: bytes) -> Header:
    return b"content-length", b"%d" % len(body)
