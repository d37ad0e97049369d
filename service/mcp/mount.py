"""`/mcp`: the server over streamable HTTP, and the documents by which clients find it."""

from __future__ import annotations

import asyncio

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from service.artifacts.manager import SnapshotManager
from service.errors import (
    BadRequest,
    RatecardError,
)
from service.http.context import context_of, snapshot_of
from service.mcp.cards import Cards
from service.mcp.pacing import Pace
from service.mcp.server import RequestContext, create_server
from service.snapshot import Snapshot

PATH = "/mcp"
MAX_BODY = 64 * 1024
"""Bytes of a message: the longest query, escaped, takes 24,000."""
DISCONNECTED = "the client closed the connection"
JSON_TYPE = "application/json"
REFUSALS = {
    400: ("unsupported_media_type", f"the body must be JSON; send `Content-Type: {JSON_TYPE}`"),
    403: ("origin_not_allowed", "pages of this origin are not answered; see RATECARD_MCP_HOSTS"),
    406: ("not_acceptable", f"answers are JSON; send `Accept: {JSON_TYPE}, text/event-stream`"),
    421: ("host_not_allowed", "this host is not answered; see RATECARD_MCP_HOSTS"),
}
"""Codes and messages in place of the responses of the SDK that are not JSON, by their status."""


class McpMount:
    """ASGI application of `/mcp`: stateless, with JSON answers, for both eras of the protocol.

    The first request of an event loop starts a session manager of the SDK. It runs until the
    lifespan ends, or the loop where the application is mounted into another one.

    hosts: names of hosts that are answered, in lower case
    share: part of the event loop's time that calls may compute
    """

    def __init__(self, snapshots: SnapshotManager, hosts: list[str], share: float) -> None:
        self.routes = [
            *(Route(path, self, methods=["POST"]) for path in (PATH, f"{PATH}/")),
            *Cards(hosts).routes,
        ]
        self._server = create_server(snapshots, _snapshot_of)
        self._security = _security(hosts)
        self._share = share
        self._task: asyncio.Task[None] | None = None
        self._started: asyncio.Future[tuple[StreamableHTTPSessionManager, Pace]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a message; raises RatecardError before anything is sent."""
        request = Request(scope, receive)
        snapshot_of(request)
        context_of(request).load_shedder.check()
        body = await _read_body(request)
        manager, pace = await self._start()
        # The SDK waits for the second message, a disconnect, until its call ends: none comes.
        received: asyncio.Queue[Message] = asyncio.Queue()
        received.put_nowait({"type": "http.request", "body": body, "more_body": False})
        answer: asyncio.Queue[Message] = asyncio.Queue()
        async with pace.turn():
            if await request.is_disconnected():
                raise BadRequest(DISCONNECTED)
            await manager.handle_request(_folded(scope), received.get, answer.put)
        start = answer.get_nowait()
        headers = MutableHeaders(scope=start)
        refusal = REFUSALS.get(start["status"])
        if refusal and headers.get("content-type") != JSON_TYPE:
            code, message = refusal
            raise RatecardError(message, code)
        headers["cache-control"] = "no-store"
        await send(start)
        while not answer.empty():  # outside of the turn, which a slow client must not prolong
            await send(answer.get_nowait())

    async def stop(self) -> None:
        """End the session manager of this event loop, if there is one."""
        if self._task is not None and self._task.get_loop() is asyncio.get_running_loop():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _start(self) -> tuple[StreamableHTTPSessionManager, Pace]:
        """Return the session manager of this event loop, and the pace of calls in it.

        Starts the manager once for all that wait, and again after a failure.
        """
        loop = asyncio.get_running_loop()
        task = self._task
        if task is None or task.done() or task.get_loop() is not loop:
            self._started = loop.create_future()
            self._task = loop.create_task(self._run(self._started))
        return await asyncio.shield(self._started)

    async def _run(
        self, started: asyncio.Future[tuple[StreamableHTTPSessionManager, Pace]]
    ) -> None:
        manager = StreamableHTTPSessionManager(
            self._server,
            json_response=True,
            stateless=True,
            security_settings=self._security,
            max_request_body_size=MAX_BODY,
        )
        try:
            async with manager.run():
                started.set_result((manager, Pace(self._share)))
                await asyncio.Event().wait()
        except Exception as error:
            if started.done():
                raise
            started.set_exception(error)


def _snapshot_of(context: RequestContext) -> Snapshot:
    """Return the snapshot that the HTTP request is pinned to."""
    request: Request = context.request  # type: ignore[assignment]  # over HTTP there is one
    return snapshot_of(request)


def _security(names: list[str]) -> TransportSecuritySettings:
    """Return the settings that answer these hosts, and pages from them, on any port."""
    origins = [f"{scheme}://{name}" for scheme in ("http", "https") for name in names]
    return TransportSecuritySettings(
        allowed_hosts=[*names, *(f"{name}:*" for name in names)],
        allowed_origins=[*origins, *(f"{origin}:*" for origin in origins)],
    )


def _folded(scope: Scope) -> Scope:
    """Return a scope whose host and origin are in lower case, as the SDK compares their bytes."""
    headers = [
        (name, value.lower() if name in (b"host", b"origin") else value)
        for name, value in scope["headers"]
    ]
    return {**scope, "headers": headers}


async def _read_body(request: Request) -> bytes:
    """Read the body; raises `body_too_large`, or BadRequest where the client leaves."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                raise RatecardError(f"the body exceeds {MAX_BODY} bytes", "body_too_large")
    except ClientDisconnect as error:
        raise BadRequest(DISCONNECTED) from error
    return bytes(body)
