"""Functions for worker processes to run."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest

AT_WORK = "at work"


def double(number: int, advance: Callable[[int], None]) -> int:
    """Print, report progress and return a result."""
    print("working")  # noqa: T201  # must not damage the answer
    for _ in range(number):
        advance(1)
    return 2 * number


def process_id(_: Callable[[int], None]) -> int:
    return os.getpid()


def out_of_room(*_: Any) -> NoReturn:
    raise OSError(28, "No space left on device", "postings")


def killed(*_: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


class Fatal:
    """An object that kills the process that pickles it."""

    def __reduce__(self) -> NoReturn:
        killed()


def killed_while_it_answers(*_: Any) -> tuple[bytes, Fatal]:
    """Return a result of which a part is sent before the process is killed."""
    return bytes(2**20), Fatal()


def stuck(*_: Any) -> None:
    """Report on standard error that there is a process at work, and never end."""
    os.write(2, f"{AT_WORK}\n".encode())
    signal.pause()


def stuck_or_out_of_room(is_stuck: bool, _: Callable[[int], None]) -> None:
    if is_stuck:
        stuck()
    out_of_room()


@contextmanager
def several_cpus(count: int) -> Iterator[None]:
    """Index in parts, however few the services and the CPUs are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.sched_getaffinity", lambda _: set(range(count)))
        patch.setattr("indexer.snapshot.whoosh_index.SMALLEST_PART", 1)
        yield
