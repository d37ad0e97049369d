"""Headers: the lines that responses share, and those of a request that matter here.

Lines are kept as they go over the wire, each with its end: most of them never change, and a server
that takes them so (`service.server.protocol`) need not check and join them for each response.
"""

from __future__ import annotations

from starlette.types import Scope

METHODS = "GET, HEAD, OPTIONS"
EVERY_RESPONSE = (
    b"access-control-allow-origin: *\r\n"
    b"access-control-expose-headers: ETag, Ratecard-Snapshot, Retry-After, X-Request-Id\r\n"
    b"x-content-type-options: nosniff\r\n"
)
ALLOW = b"allow: %b\r\n" % METHODS.encode()
JSON = b"content-type: application/json\r\n"
NEVER_STORED = b"cache-control: no-store\r\n"
PREFLIGHT = (
    b"%baccess-control-allow-methods: %b\r\n"
    b"access-control-allow-headers: *\r\naccess-control-max-age: 86400\r\n"
) % (ALLOW, METHODS.encode())

ACCEPT_ENCODING, IF_NONE_MATCH, REQUEST_ID = b"accept-encoding", b"if-none-match", b"x-request-id"
_heeded = frozenset((ACCEPT_ENCODING, IF_NONE_MATCH, REQUEST_ID))


def heeded(scope: Scope) -> dict[bytes, bytes]:
    """The request headers that make a difference; repeated ones are one list."""
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _heeded:
            before, this = found.get(name), value.strip(b" \t")
            found[name] = this if before is None else b"%b,%b" % (before, this)
    return found
