"""Draining: telling gateways to send nothing more before the server stops listening."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from types import FrameType

_log = logging.getLogger("uvicorn.error")


class Drain:
    """Puts off a server's handling of SIGTERM by some seconds; of a second SIGTERM by none."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.active = False

    def put_off_stopping(self) -> None:
        """To be called in the running loop of a server that has set its handler of SIGTERM."""
        stop = signal.getsignal(signal.SIGTERM)
        if (
            not self._seconds
            or not callable(stop)
            or threading.current_thread() is not threading.main_thread()
        ):
            return
        loop = asyncio.get_running_loop()

        def drain(number: int, frame: FrameType | None) -> None:
            if self.active:
                stop(number, frame)
                return
            self.active = True
            _log.info("draining: not ready for more, stopping in %g seconds", self._seconds)
            loop.call_soon_threadsafe(loop.call_later, self._seconds, stop, number, None)

        signal.signal(signal.SIGTERM, drain)
