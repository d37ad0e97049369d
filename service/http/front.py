"""The front: where a request comes in and its response goes out."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import MethodNotAllowed, RatecardError, SnapshotUnavailable
from service.http.access_log import RequestLog
from service.http.exception_handlers import refuse
from service.http.headers import METHODS, REQUEST_ID, heeded
from service.http.metrics import Metrics
from service.http.responses import Encoded, preflight
from service.snapshot.manager import SnapshotManager

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

UNROUTED = "none"
ANSWERED = ("GET", "HEAD")
EXTENSION = "ratecard.send_encoded"
"""ASGI extension of `service.server.protocol`: send a pre-encoded response."""
NOTHING: dict[str, Any] = {}

_log = logging.getLogger("uvicorn.error")
_request_id = re.compile(rb"[\w.:/+=@-]{1,128}")


class Front:
    """The outermost layer: pins a request's snapshot, has it answered, counts and logs it.

    It dispatches the routes itself, as Starlette's router and layers cost as much as an answer;
    they have what is at no route. Without a snapshot only `unpinned` routes are answered.
    """

    def __init__(
        self,
        app: ASGIApp,
        routes: Iterable[Route],
        unpinned: frozenset[str],
        published: SnapshotManager,
        metrics: Metrics,
        log: RequestLog | None,
    ) -> None:
        self._app = app
        self._unpinned = unpinned
        self._published = published
        self._metrics = metrics
        self._log = log
        self._handlers: dict[str, Handler] = {}
        self._with_parameter: list[tuple[str, str, bool, Handler]] = []
        for route in routes:
            prefix, _, parameter = route.path.partition("{")
            if parameter:
                name, _, convertor = parameter.rstrip("}").partition(":")
                self._with_parameter.append((prefix, name, convertor == "path", route.endpoint))
            else:
                self._handlers[route.path] = route.endpoint
        self._names = {route.endpoint: route.path for route in routes}
        self._numbers = count(1)
        self._prefix = os.urandom(6).hex().encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        scope["heeded"] = headers = heeded(scope)
        request_id = self._id_of(headers.get(REQUEST_ID))
        request = Request(scope)
        handler = self._match(scope, _path_within(scope))
        status, sent = 500, 0
        self._metrics.counts.in_flight += 1
        try:
            try:
                answer = await self._answer(request, handler)
            except RatecardError as error:
                answer = refuse(request, error)
            except Exception:  # noqa: BLE001  # whatever it is, the client is told and the log has it
                _log.exception("request %s failed", request_id.decode())
                answer = refuse(request, RatecardError("the service failed; its log says why"))
            encoded = scope.get("extensions", NOTHING).get(EXTENSION)
            if encoded is None or not isinstance(answer, Encoded):
                status, sent = await _send(answer, request_id, scope, receive, send)
            else:
                head = b"%bx-request-id: %b\r\n" % (answer.head, request_id)
                status, sent = answer.status_code, len(answer.body)
                await encoded["send"](head, answer.body)
        finally:
            self._metrics.counts.in_flight -= 1
            route = self._names[handler] if handler else UNROUTED
            seconds = time.perf_counter() - started
            self._metrics.observe(route, status, seconds)
            if self._log is not None:
                self._log.write(scope, request_id, route, status, sent, seconds)

    async def _answer(self, request: Request, handler: Handler | None) -> ASGIApp:
        """What sends the response: a response itself, or Starlette."""
        self._published.follow()
        try:
            request.scope["serving"] = self._published.serving()
        except SnapshotUnavailable:
            if handler is None or self._names[handler] not in self._unpinned:
                raise
        if request.method == "OPTIONS":
            return preflight(request)
        if handler is None:
            await asyncio.sleep(0)  # what others add may need the task that this makes sure of
            return self._app
        if request.method not in ANSWERED:
            raise MethodNotAllowed(f"{request.method} is not answered here; use {METHODS}")
        return await handler(request)

    def _match(self, scope: Scope, path: str) -> Handler | None:
        """What answers at a path; its parameter goes into the scope, as Starlette's router does."""
        handler = self._handlers.get(path)
        if handler is None:
            for prefix, name, is_path, endpoint in self._with_parameter:
                if path.startswith(prefix):
                    value = path[len(prefix) :]
                    if value and (is_path or "/" not in value):
                        scope["path_params"] = {name: value}
                        return endpoint
        return handler

    def _id_of(self, given: bytes | None) -> bytes:
        """The id that a gateway gave the request, if it is harmless, or else one of our own."""
        if given and _request_id.fullmatch(given):
            return given
        return b"%b-%x" % (self._prefix, next(self._numbers))


async def _send(
    answer: ASGIApp, request_id: bytes, scope: Scope, receive: Receive, send: Send
) -> tuple[int, int]:
    """Send in the ways of ASGI; returns the status, and how many bytes the body had."""
    status, sent = 500, 0

    async def observe(message: Message) -> None:
        nonlocal status, sent
        if message["type"] == "http.response.start":
            status = message["status"]
            message["headers"] = [*message["headers"], (REQUEST_ID, request_id)]
        else:
            sent += len(message.get("body", b""))
        await send(message)

    await answer(scope, receive, observe)
    return status, sent


def _path_within(scope: Scope) -> str:
    """The path within this application; a server may or may not put its prefix before it."""
    path: str = scope["path"]
    prefix = scope.get("root_path", "")
    return path.removeprefix(prefix) if prefix and path.startswith(f"{prefix}/") else path
