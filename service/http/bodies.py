"""Response bodies: bytes, or above 1 MiB slices of mapped files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

from starlette.types import Send

from service.errors import SlowClient

MAX_JOINED = 2**20
"""The largest body in bytes that is joined, compressed and cached."""
SLICE = 2**16
"""Bytes of a long body that are sent at a time."""
GRACE = 30.0
"""Seconds that a client may take to read a long body, besides those at MIN_RATE."""
MIN_RATE = 2**14
"""Bytes a second: a slower client would keep a replaced snapshot mapped for days."""

BodyPiece: TypeAlias = bytes | memoryview


class LongBody:
    """A body in pieces, most of which are slices of mapped files: it takes hardly any memory."""

    def __init__(self, pieces: Sequence[BodyPiece], size: int) -> None:
        self._pieces = pieces
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self._pieces)

    def __iter__(self) -> Iterator[BodyPiece]:
        for piece in self._pieces:
            for start in range(0, len(piece), SLICE):
                yield piece[start : start + SLICE]

    async def send(self, send: Send) -> None:
        """Send the body as fast as the client reads it; raises SlowClient."""
        async with client_timeout(GRACE + self._size / MIN_RATE):
            for body in self:
                await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


Body: TypeAlias = bytes | LongBody


def join(pieces: Sequence[BodyPiece]) -> Body:
    """Return a body of these pieces."""
    size = sum(map(len, pieces))
    return LongBody(pieces, size) if size > MAX_JOINED else b"".join(pieces)


@asynccontextmanager
async def client_timeout(seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
    """Raise SlowClient where the block takes longer; None sets no deadline."""
    timeout = asyncio.timeout(seconds)
    try:
        async with timeout:
            yield timeout
    except TimeoutError:
        if timeout.expired():
            raise SlowClient from None
        raise
