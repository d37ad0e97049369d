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
POLL = 0.5
"""Seconds between two looks at whether the follower died."""

_log = logging.getLogger("uvicorn.error")


@contextmanager
def run_follower() -> Iterator[None]:
    """Run `python -m service.replicas` while the body of a `with` statement runs.

    The child takes its settings from the environment. Its standard input is a pipe, which the
    system closes when this process ends in any way; the child then ends.
    """
    stopping = threading.Event()
    thread = threading.Thread(target=_supervise, args=[stopping], name="follower", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _supervise(stopping: threading.Event) -> None:
    """Start the process again and again until the event is set."""
    pause = FIRST_PAUSE
    while not stopping.is_set():
        started = time.monotonic()
        outcome = _run_once(stopping)
        if time.monotonic() - started > STABLE:
            pause = FIRST_PAUSE
        if not stopping.is_set():
            _log.warning("the follower %s; starting it again in %g s", outcome, pause)
        stopping.wait(pause)
        pause = min(2 * pause, LAST_PAUSE)


def _run_once(stopping: threading.Event) -> str:
    """Run the process until it ends, or kill it when the event is set; return how it ended.

    A follower may be killed at any instant.
    """
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "service.replicas", "--supervised"],
            stdin=subprocess.PIPE,
            process_group=0,  # Ctrl-C on a terminal reaches the service alone
        )
    except OSError as error:
        return f"cannot be started: {error}"
    with process:
        while process.poll() is None and not stopping.wait(POLL):
            pass
        process.kill()
        return f"ended with status {process.wait()}"
