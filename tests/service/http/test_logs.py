"""Logs of which nobody reads the lines."""

from __future__ import annotations

import logging
import os
import threading

from service.http.logs import MAX_QUEUED, LineHandler


def test_lines_that_nobody_reads_are_dropped_and_the_others_are_whole_and_in_order() -> None:
    reading, writing = os.pipe()
    handler = LineHandler(writing)
    total = MAX_QUEUED + 5_000  # a pipe holds some thousand lines of these

    def read() -> None:
        with os.fdopen(reading) as lines:
            received.extend(int(line) for line in lines)

    received: list[int] = []
    for number in range(total):
        handler.handle(logging.makeLogRecord({"msg": f"{number:>50}"}))
    reader = threading.Thread(target=read)
    reader.start()
    handler.flush()
    os.close(writing)
    reader.join()
    assert MAX_QUEUED <= len(received) < total
    assert received == sorted(received)
    assert received[: MAX_QUEUED // 2] == [*range(MAX_QUEUED // 2)]


def test_a_flush_gives_up_on_a_pipe_that_nobody_reads_and_goes_on_where_somebody_does() -> None:
    reading, writing = os.pipe()
    handler = LineHandler(writing)
    line = "x" * 100_000  # more than a pipe holds
    handler.handle(logging.makeLogRecord({"msg": line}))
    handler.flush()
    with os.fdopen(reading, "rb") as lines:
        assert lines.readline() == line.encode() + b"\n"
    handler.flush()
    os.close(writing)
