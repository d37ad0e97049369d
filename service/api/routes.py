"""Routes of operations: a request is parsed, or refused, before it is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from service.api.query_string import Operation, parse
from service.bodies import JSON_TYPE, is_json
from service.errors import RatecardError
from service.http.context import context_of
from service.http.responses import Cacheable

MAX_PARAMETERS = 1000
"""Parameters of a query string; each costs a microsecond, known or not."""
MAX_BODY = 64 * 1024
"""Bytes of the body of a request: the longest query, escaped, takes 24,000."""

T = TypeVar("T", bound=Operation)
B = TypeVar("B", bound=Struct)


class OperationRoute(Route):
    """A route whose endpoint is called with the request and with its parameters, as a `kind`.

    Expensive operations are refused under load.
    """

    def __init__(
        self, path: str, endpoint: Callable[[Request, T], Awaitable[Cacheable]], kind: type[T]
    ) -> None:
        async def answer(request: Request) -> Cacheable:
            query: bytes = request.scope["query_string"]
            if query.count(b"&") >= MAX_PARAMETERS:
                message = f"the query string has more than {MAX_PARAMETERS:,} parameters"
                raise RatecardError(message, "bad_request")
            operation = parse(kind, query)
            if operation.is_expensive:
                context_of(request).load_shedder.check()
            return await endpoint(request, operation)

        super().__init__(path, answer)


class BodyRoute(Route):
    """A route for POST whose endpoint is called with the request and with its JSON, as a `kind`.

    All are expensive operations.
    """

    def __init__(
        self, path: str, endpoint: Callable[[Request, B], Awaitable[Response]], kind: type[B]
    ) -> None:
        async def answer(request: Request) -> Response:
            context_of(request).load_shedder.check()
            body = await _read_json(request)
            try:
                content = msgspec.json.decode(body, type=kind)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise RatecardError(
                    f"the body is not as described: {error}", "bad_request"
                ) from error
            return await endpoint(request, content)

        super().__init__(path, answer, methods=["POST"])


async def _read_json(request: Request) -> bytes:
    """Return a body of JSON; raises RatecardError for another type, and over MAX_BODY."""
    media_type, body = request.headers.get("content-type", JSON_TYPE), bytearray()
    if not is_json(media_type.partition(";")[0].strip().lower()):
        raise RatecardError(f"the content-type must be {JSON_TYPE}", "bad_request")
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                raise RatecardError(f"the body has more than {MAX_BODY:,} bytes", "bad_request")
    except ClientDisconnect as error:
        raise RatecardError("the client left before its body was whole", "bad_request") from error
    return bytes(body)
