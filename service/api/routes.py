"""Routes of operations: a request is parsed, or refused, before it is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.requests import Request

from service.api.query_string import Operation, parameters_of, parse
from service.http.cache import CachedRoute
from service.http.context import context_of
from service.http.responses import Cacheable

T = TypeVar("T", bound=Operation)


class OperationRoute(CachedRoute):
    """A route whose endpoint is called with the request and with its parameters, as a `kind`.

    Expensive operations are refused under load, and slow ones take turns. Responses are cached by
    the parameters of the kind.
    """

    def __init__(
        self, path: str, endpoint: Callable[[Request, T], Awaitable[Cacheable]], kind: type[T]
    ) -> None:
        async def answer(request: Request) -> Cacheable:
            context, operation = context_of(request), parse(kind, request.scope["query_string"])
            if operation.is_expensive:
                context.load_shedder.check()
            if operation.is_slow:
                await context.turns.wait()
            return await endpoint(request, operation)

        super().__init__(path, answer, None if kind.NAMES_UNKNOWN else parameters_of(kind))
