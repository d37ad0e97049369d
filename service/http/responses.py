"""Responses of handlers, and how they are sent."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from starlette.responses import Response
from starlette.types import Message, Scope, Send

SNAPSHOT = "ratecard.snapshot"
"""Scope key of the snapshot that a request is pinned to until its response is complete."""
FIELDS = "ratecard.fields"
"""Scope key of the request headers that this service reads: name to value, repeated ones joined."""
JSON = "application/json"
IMMUTABLE = "public, max-age=31536000, immutable"
NO_ROUTE = "none"

RawHeaders = list[tuple[bytes, bytes]]


class ResponseWriter(Struct):
    """Sends one response, adding headers to it; records its route, status and size."""

    request_id: bytes
    headers: RawHeaders
    forward: Send
    route: str = NO_ROUTE
    status: int = 0
    size: int = 0

    async def send(self, message: Message) -> None:
        """Send a message of an application."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message["headers"], *self.headers]}
        else:
            self.size += len(message.get("body", b""))
        await self.forward(message)


def path_of(scope: Scope) -> str:
    """Return the path of a request within this application."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def json_response(body: bytes, etag: str | None = None) -> Response:
    """Respond with encoded JSON that may be cached, under this entity tag or a default one."""
    return Response(body, media_type=JSON, headers=None if etag is None else {"etag": f'"{etag}"'})


def immutable_response(body: bytes, etag: str, snapshot_id: str) -> Response:
    """Respond with encoded JSON that depends on nothing but its URL, and is from this snapshot."""
    headers = {"etag": f'"{etag}"', "cache-control": IMMUTABLE, "ratecard-snapshot": snapshot_id}
    return Response(body, media_type=JSON, headers=headers)


def no_store(
    body: bytes, status: int = 200, headers: Mapping[str, str] | None = None, media_type: str = JSON
) -> Response:
    """Respond with something that nobody may cache."""
    return Response(body, status, {"cache-control": "no-store", **(headers or {})}, media_type)
