"""Load shedding: refusing expensive requests while the event loop lags, and pacing slow ones."""

from __future__ import annotations

import asyncio
import time

from service.errors import Overloaded

INTERVAL = 0.1
"""Seconds between two measurements of the lag."""


class LoadShedder:
    """Measures the lag of the event loop that it is called in.

    The lag is the delay of a timer, which is how long a new request waits for those before it.
    """

    def __init__(self, max_lag: float) -> None:
        self._max_lag = max_lag
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due = self._lag = 0.0

    def check(self) -> None:
        """Raise Overloaded while the lag exceeds `max_lag` seconds, unless that is 0."""
        if not self._max_lag:
            return
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop = loop
            self._due = time.monotonic()
            self._measure()
        # An overdue timer is a newer measurement than the last one.
        if max(self._lag, time.monotonic() - self._due) > self._max_lag:
            raise Overloaded("too many requests are waiting; try again in a second")

    def _measure(self) -> None:
        now = time.monotonic()
        self._lag, self._due = now - self._due, now + INTERVAL
        if self._loop is not None:
            self._loop.call_later(INTERVAL, self._measure)


class Turns:
    """Starts one slow request after another, one in each iteration of an event loop.

    Without turns, one iteration runs every slow request that has arrived, and a fast one that
    arrives meanwhile waits for all of them.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def wait(self) -> None:
        """Return when it is the turn of this request, first come, first served."""
        await self._lock.acquire()
        asyncio.get_running_loop().call_soon(self._lock.release)
