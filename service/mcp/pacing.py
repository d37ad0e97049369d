"""Pacing: the share of an event loop that calls of tools may take."""

from __future__ import annotations

import asyncio
import time
from asyncio import sleep
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.errors import Overloaded

SHARE = 0.4
"""Calls take at most this part of the time, so that searches over HTTP keep half of their rate."""
MAX_WAITING = 32
"""Calls that wait for their turn; further ones are refused."""
LONGEST_PAUSE = 0.25  # seconds


class Pace:
    """Answers one call at a time, and pauses after each in proportion to its time.

    A call takes some milliseconds of CPU, more than a search over HTTP: without pauses, one client
    that calls as fast as it can would take most of the event loop. For one event loop.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._next = 0.0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the turn of a call; raises Overloaded where too many wait."""
        if self._waiting >= MAX_WAITING:
            raise Overloaded("too many calls are waiting; try again in a second")
        self._waiting += 1
        try:
            async with self._turn:
                pause = self._next - time.perf_counter()
                if pause > 0:
                    await sleep(pause)
                started = time.perf_counter()
                try:
                    yield
                finally:
                    stopped = time.perf_counter()
                    pause = (stopped - started) * (1 - SHARE) / SHARE
                    self._next = stopped + min(pause, LONGEST_PAUSE)
        finally:
            self._waiting -= 1
