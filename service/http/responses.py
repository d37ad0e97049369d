"""Responses of handlers, and how they are sent."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from msgspec import Struct
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

SNAPSHOT = "ratecard.snapshot"
"""Scope key of the snapshot that a request is pinned to until its response is complete."""
RESPONSE = "ratecard.response"
"""Scope key of a response that the middleware is to send."""
JSON = "application/json"
IMMUTABLE = "public, max-age=31536000, immutable"
NO_CACHE = "no-cache"
SNAPSHOT_HEADER = b"ratecard-snapshot"
NO_ROUTE = "none"

RawHeaders = list[tuple[bytes, bytes]]


class Cacheable(Response):
    """A response with status 200 that may be cached; the middleware sends it.

    etag: an entity tag of all that the body depends on, but for the release and its settings; by
    default the id of the snapshot
    cache_control: how long clients may reuse the response, by default as the settings say
    is_kept: whether the service may keep the response until the next snapshot
    """

    def __init__(
        self,
        body: bytes,
        media_type: str = JSON,
        headers: Mapping[str, str] | None = None,
        *,
        etag: str = "",
        cache_control: str = "",
        is_kept: bool = True,
    ) -> None:
        super().__init__(headers=headers, media_type=media_type)
        self.content = body
        self.etag = etag.encode()
        self.cache_control = cache_control.encode()
        self.is_kept = is_kept

    async def __call__(self, scope: Scope, _: Receive, __: Send) -> None:
        """Leave the response to the middleware."""
        scope[RESPONSE] = self


class ResponseWriter(Struct):
    """Sends one response, adding headers to it; records its route, status and size."""

    forward: Send
    headers: RawHeaders
    snapshot_id: bytes
    route: str = NO_ROUTE
    status: int = 0
    size: int = 0

    async def send(self, message: Message) -> None:
        """Send a message of an application, with the id of a snapshot unless it has its own."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message["headers"], *self.headers]
            if self.snapshot_id and all(name != SNAPSHOT_HEADER for name, _ in headers):
                headers.append((SNAPSHOT_HEADER, self.snapshot_id))
            message = {**message, "headers": headers}
        else:
            self.size += len(message.get("body", b""))
        await self.forward(message)


def root_of(scope: Scope) -> str:
    """Return the path that the addresses of this application begin with."""
    return quote(scope.get("root_path", "").rstrip("/"), errors="replace")


def no_store(
    body: bytes, status: int = 200, headers: Mapping[str, str] | None = None, media_type: str = JSON
) -> Response:
    """Respond with something that nobody may cache."""
    return Response(body, status, {"cache-control": "no-store", **(headers or {})}, media_type)
