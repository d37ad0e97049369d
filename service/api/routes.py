"""Routes of operations: a request is parsed, or refused, before it is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.requests import Request

from service.api.query_string import Operation, parameters_of, parse
from service.http.cache import CachedRoute
from service.http.context import context_of, snapshot_of
from service.http.responses import PINNED, SNAPSHOT, Cacheable

T = TypeVar("T", bound=Operation)


class OperationRoute(CachedRoute):
    """A route whose endpoint is called with the request and with its parameters, as a `kind`.

    Expensive operations are refused under load, and slow ones take turns. Responses are cached by
    the parameters of the kind, but for those of a snapshot that the request names.
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
            snapshot_id = getattr(operation, "snapshot", None)
            if snapshot_id is None:
                return await endpoint(request, operation)
            # Answer from a snapshot that may have to be opened first.
            served = snapshot_of(request)
            if not context.snapshots.is_open(snapshot_id):
                context.load_shedder.check()
            request.scope[SNAPSHOT] = await context.snapshots.pin(snapshot_id, served)
            response = await endpoint(request, operation)
            response.etag = response.snapshot_id = snapshot_id.encode()
            response.cache_control, response.is_kept = PINNED, False
            return response

        super().__init__(path, answer, None if kind.NAMES_UNKNOWN else parameters_of(kind))
