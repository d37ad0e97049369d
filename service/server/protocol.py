"""The connections: what uvicorn's HTTP protocol leaves open to clients that mean no good."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import suppress
from types import coroutine
from typing import Any

import httptools
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.errors import BadRequest, HeadTooLarge, RatecardError
from service.http.exception_handlers import describe
from service.http.front import EXTENSION
from service.http.headers import EVERY_RESPONSE, JSON, NEVER_STORED
from service.http.responses import Encoded
from service.settings import settings_from

MAX_HEAD = 64 * 1024
"""Bytes of a request line with its headers; of what follows a chunked body, too."""
MAX_PIPELINED = 100
"""Requests of one connection that wait for their turn."""
LINGER = 1.0
"""Seconds for a refused client to read why, before what it still sends is met with a reset."""
CLIENT_TIMEOUT = settings_from(names=("client_timeout",)).client_timeout

State = tuple[RequestResponseCycle | None, int, bool]
"""The last request, the bytes that wait for the client to read, and if it has begun another one."""


class Protocol(HttpToolsProtocol):
    """One connection: bounded in what it holds of a client, and in how long it waits for one.

    Requests are answered in order. After one that cannot be read, or that asks to close, nothing
    more is taken from the connection.
    """

    _room = MAX_HEAD
    _timer: asyncio.TimerHandle
    _answering: RequestResponseCycle | None = None
    _first: RequestResponseCycle | None = None
    _reading = False

    def connection_made(  # type: ignore[override]  # uvicorn narrows the transport, too
        self, transport: asyncio.Transport
    ) -> None:
        """Start to look whether the client does its part."""
        super().connection_made(transport)
        self._extensions: dict[str, dict[object, object]] = {EXTENSION: {"send": self.send_encoded}}
        self._timer = self.loop.call_later(CLIENT_TIMEOUT, self._look, None, 0)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop looking."""
        self._timer.cancel()
        if self._answering is not None:  # uvicorn tells only the request that was taken last
            self._answering.disconnected = True
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn says None: close at once
        """Answer what was asked by a client that has nothing to add, and close then."""
        self.shutdown()
        if self.cycle is not None:
            self.cycle.message_event.set()
        return True

    def data_received(self, data: bytes) -> None:
        """Take what was sent, and answer the first request in it at once."""
        self._reading = True
        self._take(data)
        self._reading = False
        if self._first is not None:
            cycle, self._first = self._first, None
            self._answer(cycle)

    def _take(self, data: bytes) -> None:
        """Parse: `_room` is what may still come before a head ends or a body goes on.

        Costs a request little: it is counted how much was read, not how long each head is.
        """
        if len(data) > self._room:
            data, rest = data[: self._room], data[self._room :]
        else:
            rest = b""
        self._room -= len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:  # declined: what follows are requests
            rest = data[upgrade.args[0] :] + rest
        except httptools.HttpParserError as error:
            self._refuse(BadRequest(_reason(error)))
            return
        if not self._room:
            self._refuse(HeadTooLarge(f"the request line and headers exceed {MAX_HEAD} bytes"))
        elif rest:
            self._take(rest)

    def on_message_begin(self) -> None:
        """Offer the application to send what is encoded already."""
        super().on_message_begin()
        self.scope["extensions"] = self._extensions

    async def send_encoded(self, head: bytes, body: bytes) -> None:
        """Send the response to the request that is being answered, whole.

        `head` has the status line and the headers, each ending in CRLF. As uvicorn's own `send`,
        without the checks of each header that it does not need.
        """
        cycle = self._answering
        if self.flow.write_paused:
            await self.flow.drain()
        if cycle is None or cycle.disconnected:
            return
        cycle.response_started = cycle.response_complete = True
        parts = [head, *[b"%b: %b\r\n" % default for default in cycle.default_headers]]
        if not cycle.keep_alive:
            parts.append(b"connection: close\r\n")
        parts.append(b"\r\n")
        if cycle.scope["method"] != "HEAD":
            parts.append(body)
        self.transport.writelines(parts)
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()

    def on_headers_complete(self) -> None:
        """Take a request, and decide whether there may be a next one."""
        super().on_headers_complete()
        self._room = MAX_HEAD
        # A body that is announced but not sent, or not seen by the parser, would hide a request.
        if self.expect_100_continue or (self.parser.should_upgrade() and _has_body(self.headers)):
            self.cycle.keep_alive = False
        if len(self.pipeline) >= MAX_PIPELINED:
            self.cycle.keep_alive = False
            raise BadRequest("too many requests wait")  # stops the parser

    def on_body(self, body: bytes) -> None:  # noqa: ARG002  # nothing here takes a body
        """Drop it."""
        self._room = MAX_HEAD

    def on_message_complete(self) -> None:
        """The body has ended, whether or not the response has."""
        self.cycle.more_body = False
        self.cycle.message_event.set()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answering = cycle
        if self._reading and app is self.config.loaded_app:
            self._first = cycle
        else:
            super()._start_asgi_task(cycle, app)

    def _answer(self, cycle: RequestResponseCycle) -> None:
        """Answer without a task, which costs as much as an answer, unless there is a wait in it."""
        answering = cycle.run_asgi(self.config.loaded_app)
        try:
            awaited = answering.send(None)
        except StopIteration:
            return
        task = self.loop.create_task(_go_on(answering, awaited))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def _refuse(self, error: RatecardError) -> None:
        """Answer with an error when those before are answered, and take nothing more."""
        if self.cycle is not None and self.cycle.more_body:
            self.shutdown()  # it is the end of a request that has its answer
        elif self.cycle is None or self.cycle.keep_alive:
            self.logger.debug("refused a request: %s", error)
            self.app = _refusal(error, self.transport)
            self.parser = httptools.HttpRequestParser(self)
            self.parser.feed_data(b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n")

    def on_response_complete(self) -> None:
        """Go on with the next request. That there is none for long, `_look` finds out."""
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())

    def _look(self, before: State | None, seen: int) -> None:
        """Close the connection if nothing has happened for some looks: fewer if something should.

        One timer for a connection: setting one after each response would cost more than this.
        """
        state = self._state()
        seen = seen + 1 if state is not None and state == before else 0
        begun_or_unread = state is not None and any(state[1:])
        if seen >= (1 if begun_or_unread else self.timeout_keep_alive / CLIENT_TIMEOUT):
            self.transport.abort()
        else:
            self._timer = self.loop.call_later(CLIENT_TIMEOUT, self._look, state, seen)

    def _state(self) -> State | None:
        """What the client has to change; None while its request is worked on."""
        unread, cycle = self.transport.get_write_buffer_size(), self.cycle
        if not unread and cycle is not None and not cycle.response_complete:
            return None
        if cycle is None or cycle.more_body or self._room < MAX_HEAD:
            return cycle, unread, True
        return cycle, unread, cycle.scope is not self.scope


async def _go_on(answering: Coroutine[Any, Any, None], awaited: Any) -> None:
    """The rest of what was begun and has come to wait, for a task."""
    await _rest(answering, awaited)


@coroutine
def _rest(answering: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, None, None]:
    with suppress(StopIteration):
        while True:
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001  # the task's own, for what it stands for
                awaited = answering.throw(error)
            else:
                awaited = answering.send(None)


def _refusal(error: RatecardError, transport: asyncio.Transport) -> ASGIApp:
    body = describe(error)
    length = b"content-length: %d\r\n" % len(body)
    lines = b"".join((EVERY_RESPONSE, NEVER_STORED, JSON, length))
    headers = Encoded(error.status, lines, body).raw_headers

    async def refuse(_: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": error.status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await receive()
        with suppress(TimeoutError):
            await asyncio.wait_for(receive(), LINGER)  # until the client has sent everything
        transport.close()
        while (await receive())["type"] != "http.disconnect":
            pass

    return refuse


def _reason(error: httptools.HttpParserError) -> str:
    if isinstance(error, httptools.HttpParserCallbackError):
        return "the target of the request cannot be read"
    return f"this is no HTTP request that can be read: {error}"


def _has_body(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in headers
    )
