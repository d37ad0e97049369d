"""The follower, a process beside the workers that is started again when it dies."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

FIRST_PAUSE, LAST_PAUSE = 1.0, 60.0
"""Seconds before a follower that died is started again: they double with each death."""
STABLE = 120.0
"""Seconds after which the death of a follower is taken for the first one."""

_log = logging.getLogger("uvicorn.error")


@contextmanager
def run_follower() -> Iterator[None]:
    """Run `python -m service.replicas` while the body of a `with` statement runs.

    The child takes its settings from the environment. Its standard input is a pipe, which the
    system closes when this process ends in any way; the child then ends.
    """
    supervisor = _Supervisor()
    thread = threading.Thread(target=supervisor.run, name="follower", daemon=True)
    thread.start()
    try:
        yield
    finally:
        supervisor.stop()
        thread.join()


class _Supervisor:
    """Keeps one process running."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._starting = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Start the process again and again until `stop`."""
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            started = time.monotonic()
            outcome = self._run_once()
            if self._stopping.is_set():
                return
            if time.monotonic() - started > STABLE:
                pause = FIRST_PAUSE
            _log.warning("the follower %s; starting it again in %g s", outcome, pause)
            self._stopping.wait(pause)
            pause = min(2 * pause, LAST_PAUSE)

    def stop(self) -> None:
        """Kill the process: whatever it does can be cut at any instant."""
        with self._starting:
            self._stopping.set()
            if self._process is not None:
                self._process.kill()

    def _run_once(self) -> str:
        """Run the process to its end; return how it ended."""
        with self._starting:
            if self._stopping.is_set():
                return "is stopped"
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "service.replicas", "--supervised"],
                    stdin=subprocess.PIPE,
                    process_group=0,  # Ctrl-C on a terminal reaches the service alone
                )
            except OSError as error:
                return f"cannot be started: {error}"
        with self._process as process:
            return f"ended with status {process.wait()}"
