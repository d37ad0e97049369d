"""Responses with a range of bytes of a file: conditions, ranges, and sending at a bounded rate."""

from __future__ import annotations

import asyncio
import math
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import IO

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from service.artifacts.downloads import DownloadRange
from service.errors import DownloadNotFound, Overloaded, RangeNotSatisfiable, SlowClient
from service.http.cache import is_known
from service.http.responses import SNAPSHOT, SNAPSHOT_HEADER, RawHeaders

CHUNK = 2**18
"""Bytes that are read and sent at a time."""
RATE = 128 * 2**20
"""Bytes that a worker sends in a second, of all files together."""
MAX_TRANSFERS = 64
"""Files that are sent at once; each takes a file descriptor and up to two chunks of memory."""
PATIENCE = 5.0
"""Seconds that a client may take to read a chunk while others wait for its place."""

_range = re.compile(r"(?i:bytes)=[ \t]*(?:([0-9]{1,18})-([0-9]{0,18})|-([0-9]{1,18}))[ \t]*")


class Transfer(Struct, eq=False):
    """A file that is being sent, and since when the client has been reading the current chunk."""

    forward: Send
    timeout: asyncio.Timeout
    since: float = math.inf

    async def send(self, chunk: bytes, *, is_last: bool) -> None:
        """Send a chunk when the client has read the one before it."""
        self.since = asyncio.get_running_loop().time()
        await self.forward({"type": "http.response.body", "body": chunk, "more_body": not is_last})
        self.since = math.inf


class Transfers:
    """Limits how many files are sent at once, and the bytes a second of all together.

    Sending takes time of the event loop, for which searches wait. Serves one event loop.
    """

    def __init__(self) -> None:
        self._running: set[Transfer] = set()
        self._turn = asyncio.Lock()

    async def wait(self, size: int) -> None:
        """Wait until so many further bytes may be sent."""
        async with self._turn:
            await asyncio.sleep(size / RATE)

    @asynccontextmanager
    async def start(self, send: Send) -> AsyncIterator[Transfer]:
        """Start a transfer, in the place of the slowest where too many run.

        Raises Overloaded where none is slow, and SlowClient in the transfer that loses its place.
        """
        if len(self._running) >= MAX_TRANSFERS:
            self._end_slowest()
        try:
            async with asyncio.timeout(None) as timeout:
                transfer = Transfer(send, timeout)
                self._running.add(transfer)
                try:
                    yield transfer
                finally:
                    self._running.discard(transfer)
        except TimeoutError:
            if timeout.expired():
                raise SlowClient from None
            raise

    def _end_slowest(self) -> None:
        now = asyncio.get_running_loop().time()
        slowest = min(self._running, key=lambda transfer: transfer.since)
        if now - slowest.since < PATIENCE:
            raise Overloaded("too many downloads are running; try again in a second")
        self._running.remove(slowest)
        slowest.timeout.reschedule(now)


class FileResponse:
    """Responds with a range of a file, or with the part of it that the request names.

    One range is answered; a list of several is ignored, as RFC 9110 (section 14.2) allows. The file
    stays open while it is sent, so that it may be removed meanwhile.
    """

    def __init__(
        self, range_: DownloadRange, media_type: str, cache_control: str, transfers: Transfers
    ) -> None:
        self._range = range_
        self._etag = f'"{range_.sha256}"'.encode()
        self._headers: RawHeaders = [
            (b"etag", self._etag),
            (b"cache-control", cache_control.encode()),
            (b"accept-ranges", b"bytes"),
            (SNAPSHOT_HEADER, range_.snapshot_id.encode()),
        ]
        self._content_type = b"content-type", media_type.encode()
        self._transfers = transfers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response; raises RatecardError or OSError before it starts."""
        scope[SNAPSHOT] = None  # the response may outlast the snapshot that is served now
        headers = Headers(scope=scope)
        if is_known(scope, self._etag):
            await _send_head(send, 304, self._headers)
            await send({"type": "http.response.body", "body": b""})
            return
        with await asyncio.to_thread(_open, self._range) as file:
            await self._respond(file, scope, headers, receive, send)

    async def _respond(
        self, file: IO[bytes], scope: Scope, headers: Headers, receive: Receive, send: Send
    ) -> None:
        size, fields = self._range.bytes, [*self._headers, self._content_type]
        status, start, stop = 200, 0, size
        if_range = headers.get("if-range")
        # Compare strongly: ranges of different bytes must not be joined.
        is_current = if_range is None or if_range.encode("latin-1").strip() == self._etag
        if scope["method"] == "GET" and is_current:
            span = parse_range(headers.getlist("range"), size)
            if span is not None:
                status, (start, stop) = 206, span
                fields.append((b"content-range", b"bytes %d-%d/%d" % (start, stop - 1, size)))
        fields.append((b"content-length", b"%d" % (stop - start)))
        if scope["method"] == "HEAD" or start == stop:
            await _send_head(send, status, fields)
            await send({"type": "http.response.body", "body": b""})
            return
        async with self._transfers.start(send) as transfer:
            await _send_head(send, status, fields)
            await self._send(file, start, stop, receive, transfer)

    async def _send(
        self, file: IO[bytes], start: int, stop: int, receive: Receive, transfer: Transfer
    ) -> None:
        offset = self._range.offset
        turn = watch = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            while start < stop:
                size = min(CHUNK, stop - start)
                turn = asyncio.ensure_future(self._transfers.wait(size))
                await asyncio.wait((turn, watch), return_when=asyncio.FIRST_COMPLETED)
                if watch.done():
                    break
                chunk = await asyncio.to_thread(os.pread, file.fileno(), size, offset + start)
                if not chunk:
                    raise EOFError(f"{self._range.path} ends at {offset + start} bytes")
                start += len(chunk)
                await transfer.send(chunk, is_last=start == stop)
        finally:
            watch.cancel()
            turn.cancel()  # a client that is gone leaves the queue


def parse_range(fields: list[str], size: int) -> tuple[int, int] | None:
    """Return the bounds of the one range that a request names, None for the whole.

    A header that is no range of bytes is ignored. Raises RangeNotSatisfiable.
    """
    match = _range.fullmatch(fields[0]) if len(fields) == 1 else None
    if match is None:
        return None
    first, last, suffix = match.groups()
    if first is None:
        start, stop = max(0, size - int(suffix)), size
    else:
        start, stop = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < int(first):
            return None
    if start >= size:
        raise RangeNotSatisfiable(size)
    return start, stop


def _open(range_: DownloadRange) -> IO[bytes]:
    """Open the file of a range; raises DownloadNotFound where it is missing or cut off."""
    with suppress(FileNotFoundError):
        file = range_.path.open("rb")
        if os.fstat(file.fileno()).st_size >= range_.offset + range_.bytes:
            return file
        file.close()
    name = f"{range_.path.name} of the snapshot {range_.snapshot_id}"
    raise DownloadNotFound(f"{name} is missing or cut off here; the next build makes it again")


async def _send_head(send: Send, status: int, headers: RawHeaders) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
