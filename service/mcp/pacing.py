"""Pacing: the share of an event loop that calls of tools may take."""

from __future__ import annotations

import asyncio
import time
from asyncio import sleep
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.errors import Overloaded

MAX_WAITING = 32
"""Calls that wait for their turn, beside the running one; further ones are refused."""
LONGEST_PAUSE = 0.25  # seconds


class Pace:
    """Answers one call at a time, and pauses after each in proportion to its time.

    A call takes some milliseconds of CPU, more than a search over HTTP: without pauses, one client
    that calls as fast as it can would take most of the event loop. For one event loop.

    share: part of the time that calls may take, without pauses at 1
    """

    def __init__(self, share: float) -> None:
        self._share = share
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
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        try:
            pause = self._next - time.perf_counter()
            if pause > 0:
                await sleep(pause)
            started = time.perf_counter()
            try:
                yield
            finally:
                stopped = time.perf_counter()
                pause = (stopped - started) * (1 - self._share) / self._share
                self._next = stopped + min(pause, LONGEST_PAUSE)
        finally:
            self._turn.release()
