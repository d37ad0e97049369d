"""Routes of operations: a request is parsed, or refused, before it is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route

from service.api.query_string import Operation, parse
from service.errors import RatecardError
from service.http.context import context_of
from service.http.responses import Cacheable

MAX_PARAMETERS = 1000
"""Parameters of a query string; each costs a microsecond, known or not."""
MAX_BODY = 64 * 1024
"""Bytes of the body of a request: the longest query, escaped, takes 24,000."""

T = TypeVar("T", bound=Operation)


class OperationRoute(Route):
    """A route whose endpoint is called with the request and with its parameters, as a `kind`.

    A POST has them as JSON in its body. Expensive operations are refused under load.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[[Request, T], Awaitable[Cacheable]],
        kind: type[T],
        method: str = "GET",
    ) -> None:
        async def answer(request: Request) -> Cacheable:
            query: bytes = request.scope["query_string"]
            if query.count(b"&") >= MAX_PARAMETERS:
                message = f"the query string has more than {MAX_PARAMETERS:,} parameters"
                raise RatecardError(message, "bad_request")
            operation = await _read_body(request, kind) if method == "POST" else parse(kind, query)
            if operation.is_expensive:
                context_of(request).load_shedder.check()
            return await endpoint(request, operation)

        super().__init__(path, answer, methods=[method])


async def _read_body(request: Request, kind: type[T]) -> T:
    """Return the JSON of a body of up to MAX_BODY bytes; raises RatecardError."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                raise RatecardError(f"the body has more than {MAX_BODY:,} bytes", "bad_request")
        return msgspec.json.decode(body, type=kind)
    except (ClientDisconnect, msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RatecardError(f"the body is not as described: {error}", "bad_request") from error
