"""Load shedding: refusing expensive requests while the event loop lags."""

from __future__ import annotations

import asyncio
import math
import time

from service.errors import Overloaded

INTERVAL = 0.1
"""Seconds between two measurements of the lag."""


class LoadShedder:
    """Measures the lag of the event loop that it is called in, as long as it is called.

    The lag is the delay of a timer, which is how long a new request waits for those before it.
    """

    def __init__(self, max_lag: float) -> None:
        self._max_lag = max_lag
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lag, self._due = 0.0, math.inf
        self._is_used = False

    def check(self) -> None:
        """Raise Overloaded while the lag exceeds `max_lag` seconds, unless that is 0."""
        if not self._max_lag:
            return
        loop, self._is_used = asyncio.get_running_loop(), True
        if loop is not self._loop or self._due == math.inf:
            self._loop, self._due = loop, time.monotonic()
            self._measure(loop)
        # An overdue timer is a newer measurement than the last one.
        if max(self._lag, time.monotonic() - self._due) > self._max_lag:
            raise Overloaded("too many requests are waiting; try again in a second")

    def _measure(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is not self._loop:
            return
        now = time.monotonic()
        self._lag = now - self._due
        if self._is_used or self._lag > self._max_lag:
            self._due, self._is_used = now + INTERVAL, False
            loop.call_later(INTERVAL, self._measure, loop)
        else:  # an idle process sleeps
            self._due = math.inf
