"""Pacing: the share of an event loop's computing that calls of tools may take."""

from __future__ import annotations

import asyncio
import time
from asyncio import sleep
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.errors import Overloaded

MAX_RUNNING = 32
"""Calls that run at once: those whose searches a cluster answers wait most of their time."""
MAX_WAITING = 32
"""Calls that wait for their turn, beside the running ones; further ones are refused."""
LONGEST_PAUSE = 0.25  # seconds


class Pace:
    """Starts calls one after another, each when the computing of the earlier ones is paid for.

    A call takes some milliseconds of CPU, more than a search over HTTP: without pauses, one client
    that calls as fast as it can would take most of the event loop. CPU time of its thread is
    charged while calls run; what they wait for costs nothing. For one event loop.

    share: part of the time that calls may compute, without pauses at 1
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._starting = asyncio.Lock()
        self._slots = asyncio.Semaphore(MAX_RUNNING)
        self._waiting = self._running = 0
        self._charged_at = self._cpu = 0.0
        self._paid_at = 0.0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the turn of a call; raises Overloaded where too many wait."""
        if self._waiting >= MAX_WAITING:
            raise Overloaded("too many calls are waiting; try again in a second")
        self._waiting += 1
        try:
            async with self._starting:
                while (pause := self._charge()) > 0:
                    await sleep(pause)
                await self._slots.acquire()
        finally:
            self._waiting -= 1
        self._running += 1
        try:
            yield
        finally:
            self._charge()
            self._running -= 1
            self._slots.release()

    def _charge(self) -> float:
        """Charge the CPU time since the last charge; return the seconds until all is paid for."""
        now, cpu = time.perf_counter(), time.thread_time()
        if self._running:
            paid_at = max(self._paid_at, self._charged_at) + (cpu - self._cpu) / self._share
            self._paid_at = min(paid_at, now + LONGEST_PAUSE)
        self._charged_at, self._cpu = now, cpu
        return self._paid_at - now
