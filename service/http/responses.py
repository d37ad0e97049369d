"""Responses: where an answer becomes a status, headers and bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from service.http.cache import CachedResponse
from service.http.compression import CODINGS, IDENTITY, WORTH_COMPRESSING, accepted
from service.http.headers import (
    ACCEPT_ENCODING,
    EVERY_RESPONSE,
    IF_NONE_MATCH,
    JSON,
    NEVER_STORED,
    PREFLIGHT,
)
from service.http.serving import Serving

STATUS = {each.value: b"HTTP/1.1 %d %b\r\n" % (each, each.phrase.encode()) for each in HTTPStatus}

_entity_tags = re.compile(rb'"[\x21\x23-\x7e\x80-\xff]*"')


class Encoded(Response):
    """A response whose headers are encoded: lines that each end in CRLF."""

    def __init__(self, status: int, lines: bytes, body: bytes) -> None:
        self.status_code = status
        self.lines = lines
        self.body = body
        self.background = None

    @property
    def head(self) -> bytes:
        """The status line and the headers."""
        return STATUS[self.status_code] + self.lines

    @property
    def raw_headers(self) -> list[tuple[bytes, bytes]]:  # type: ignore[override]  # made when asked
        """The headers as ASGI has them."""
        pairs = (line.partition(b": ") for line in self.lines.split(b"\r\n")[:-1])
        return [(name, value) for name, _, value in pairs]


def from_cache(
    request: Request,
    asked: bytes,
    make: Callable[[], tuple[bytes, bytes]],
    content_type: bytes = JSON,
) -> Response:
    """What is made once for each snapshot and content coding, unless it had to make room.

    `asked` is the normalised request, and `make` returns the body and its tag: what changes
    whenever the body does. 304 without a body if the client has it. `content_type` is the header
    lines that say what the body is.
    """
    serving: Serving = request.scope["serving"]
    coding = coding_for(request)
    key = b"%b %b" % (coding, asked)
    made = serving.responses.get(key)
    if made is None:
        made = _finish(serving, *make(), coding, content_type)
        serving.responses.put(key, made)
    known = request.scope["heeded"].get(IF_NONE_MATCH)
    # Comparing is weak, as gateways that compress weaken tags.
    if known and (known == b"*" or made.entity_tag in _entity_tags.findall(known)):
        return Encoded(304, made.unchanged, b"")
    return Encoded(200, made.lines, made.body)


def coding_for(request: Request) -> bytes:
    """How the body of the answer is to be coded."""
    header = request.scope["heeded"].get(ACCEPT_ENCODING)
    return accepted(header) if header else IDENTITY


def tagged(body: bytes) -> tuple[bytes, bytes]:
    """A body with a hash of it for its tag."""
    return body, blake2b(body, digest_size=8).hexdigest().encode()


def momentary(request: Request, body: bytes, status: int = 200, lines: bytes = JSON) -> Response:
    """An answer of this moment, which nobody is to keep, with these header lines."""
    serving: Serving | None = request.scope.get("serving")
    first = EVERY_RESPONSE if serving is None else serving.lines
    length = b"" if status == 204 else b"content-length: %d\r\n" % len(body)
    return Encoded(status, b"".join((first, NEVER_STORED, lines, length)), body)


def preflight(request: Request) -> Response:
    """The answer to OPTIONS, which browsers ask before they send unusual headers."""
    return momentary(request, b"", 204, PREFLIGHT)


def _finish(
    serving: Serving, body: bytes, tag: bytes, coding: bytes, content_type: bytes
) -> CachedResponse:
    """Compress what is worth it, and make the headers; each coding has a tag of its own."""
    encoding = b""
    if coding and len(body) >= WORTH_COMPRESSING:
        body = CODINGS[coding](body)
        tag = b"%b-%b" % (tag, coding)
        encoding = b"content-encoding: %b\r\n" % coding
    entity_tag = b'"%b"' % tag
    lines = b"%betag: %b\r\n" % (serving.cacheable, entity_tag)
    whole = b"%b%b%bcontent-length: %d\r\n" % (lines, content_type, encoding, len(body))
    return CachedResponse(body, whole, lines, entity_tag)
