"""Routes of operations: a request is parsed, or refused, before it is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from service.api.query_string import Operation, parameters_of, parse
from service.http.cache import CachedRoute
from service.http.context import context_of

T = TypeVar("T", bound=Operation)


class OperationRoute(CachedRoute):
    """A route whose endpoint is called with the request and with its parameters, as a `kind`.

    Expensive operations are refused under load, and slow ones take turns. Responses are cached by
    the parameters of the kind.
    """

    def __init__(
        self, path: str, endpoint: Callable[[Request, T], Awaitable[Response]], kind: type[T]
    ) -> None:
        async def answer(request: Request) -> Response:
            operation = parse(kind, request.scope["query_string"])
            if operation.is_expensive:
                context_of(request).load_shedder.check()
            if operation.is_slow:
                await context_of(request).turns.wait()
            return await endpoint(request, operation)

        super().__init__(path, answer, None if kind.NAMES_UNKNOWN else parameters_of(kind))
