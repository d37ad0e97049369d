"""Draining: answering 503 at `/readyz` for some seconds before the server stops."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from types import FrameType

_log = logging.getLogger("uvicorn.error")


class Drain:
    """Delays the server's handling of the first SIGTERM; a second one ends the delay."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.active = False

    def install(self) -> None:
        """Wrap the handler of SIGTERM that the server has set; call it in the server's loop."""
        stop = signal.getsignal(signal.SIGTERM)
        in_main_thread = threading.current_thread() is threading.main_thread()
        if not self._seconds or not callable(stop) or not in_main_thread:
            return
        loop = asyncio.get_running_loop()

        def drain(number: int, frame: FrameType | None) -> None:
            if self.active:
                stop(number, frame)
                return
            self.active = True
            _log.info(
                "draining: not ready for more requests, stopping in %g seconds", self._seconds
            )
            loop.call_soon_threadsafe(loop.call_later, self._seconds, stop, number, None)

        signal.signal(signal.SIGTERM, drain)
