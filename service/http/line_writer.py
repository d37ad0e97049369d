"""Writing lines to a pipe that nobody may be reading."""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from queue import Full, Queue

MAX_QUEUED = 10_000  # lines
FLUSH_TIMEOUT = 1.0  # seconds
STDOUT, STDERR = 1, 2


class LineWriter:
    """Writes lines in a thread, since a stalled pipe would block the event loop.

    Lines are dropped while more than `MAX_QUEUED` wait for their reader. The buffers of `sys` are
    not used: the interpreter waits for their locks when it exits, which a stalled write holds.
    """

    def __init__(self, output: int) -> None:
        self._output = output
        self._queue: Queue[bytes | None] = Queue(MAX_QUEUED)
        self._thread: threading.Thread | None = None

    def write(self, line: bytes) -> None:
        """Queue a line."""
        with suppress(Full):
            self._queue.put_nowait(line)
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="line writer", daemon=True)
            with suppress(RuntimeError):  # too many threads; the next call tries again
                thread.start()
                self._thread = thread

    def flush(self) -> None:
        """Write the queued lines, but give up on a pipe that nobody reads."""
        thread, self._thread = self._thread, None
        if thread is not None:
            with suppress(Full):
                self._queue.put(None, timeout=FLUSH_TIMEOUT)
                thread.join(FLUSH_TIMEOUT)

    def _run(self) -> None:
        while (line := self._queue.get()) is not None:
            with suppress(OSError):  # the reader has gone
                while line:
                    line = line[os.write(self._output, line) :]


class LogHandler(logging.Handler):
    """Writes the log of the server to standard error."""

    def __init__(self) -> None:
        super().__init__()
        self._writer = LineWriter(STDERR)

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a message."""
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001  # as other handlers do: a bad message stops nothing
            self.handleError(record)
        else:
            self._writer.write(line.encode("utf-8", "backslashreplace") + b"\n")

    def flush(self) -> None:
        """Write the queued messages; `logging` calls this when the process exits."""
        self._writer.flush()
