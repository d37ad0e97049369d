"""Overload: how late the event loop runs, and refusing searches while it is too late."""

from __future__ import annotations

import asyncio
import time

from service.errors import Overloaded

INTERVAL = 0.1
"""Seconds between two measurements."""


class Overload:
    """Measures the lag of the event loop that it is asked in.

    The lag is how much later than asked for a timer runs: what a request that arrives now has to
    wait for those before it.
    """

    def __init__(self, max_lag: float) -> None:
        self._max_lag = max_lag
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due = self._lag = 0.0

    def check(self) -> None:
        """Raise Overloaded while the loop lags more than `max_lag` seconds, unless that is 0."""
        if not self._max_lag:
            return
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop = loop
            self._due = time.monotonic()
            self._measure()
        # A measurement that is overdue says more than the last one.
        if max(self._lag, time.monotonic() - self._due) > self._max_lag:
            raise Overloaded("too many requests are waiting; search again in a second")

    def _measure(self) -> None:
        now = time.monotonic()
        self._lag, self._due = now - self._due, now + INTERVAL
        if self._loop is not None:
            self._loop.call_later(INTERVAL, self._measure)
