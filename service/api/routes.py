"""Routes of operations: a request is parsed, or refused, before it is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.requests import Request
from starlette.routing import Route

from service.api.query_string import Operation, parse
from service.errors import RatecardError
from service.http.context import context_of
from service.http.responses import Cacheable

MAX_PARAMETERS = 1000
"""Parameters of a query string; each costs a microsecond, known or not."""

T = TypeVar("T", bound=Operation)


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
