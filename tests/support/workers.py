"""Functions that worker processes run in tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

RUNNING = "running"


def double(number: int) -> int:
    """Print, and return a result."""
    print("working")  # noqa: T201  # must not corrupt the result
    return 2 * number


def process_id() -> int:
    return os.getpid()


def free(size: int) -> int:
    """Allocate so many bytes in small objects, and free them."""
    objects = [bytes(1000) for _ in range(size // 1000)]
    objects.clear()
    return os.getpid()


def meet(folder: Path, own: str, other: str) -> int:
    """Wait for the process that calls this with the names the other way round."""
    (folder / own).touch()
    while not (folder / other).exists():
        os.sched_yield()
    return os.getpid()


def fail(error: BaseException) -> NoReturn:
    raise error


def end_itself(number: int) -> NoReturn:
    """End this process by a signal, or with a status of at most 0."""
    if number <= 0:
        os._exit(-number)
    os.kill(os.getpid(), number)
    raise AssertionError


def fail_with_full_disk(*_: Any) -> NoReturn:
    raise OSError(28, "No space left on device", "postings")


def kill_itself(*_: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


class Fatal:
    """An object that kills the process that pickles it."""

    def __reduce__(self) -> NoReturn:
        kill_itself()


def kill_itself_while_sending(*_: Any) -> tuple[bytes, Fatal]:
    """Return a result whose second part kills the process while it is pickled."""
    return bytes(2**20), Fatal()


def never_end(*_: Any) -> None:
    """Report on standard error that the process is running, and never end."""
    os.write(2, f"{RUNNING}\n".encode())
    signal.pause()


def never_end_or_fail(is_endless: bool) -> None:
    if is_endless:
        never_end()
    fail_with_full_disk()


@contextmanager
def several_cpus(count: int) -> Iterator[None]:
    """Pretend to have some CPUs, and index in parts however few services there are."""
    from unittest.mock import patch  # noqa: PLC0415  # workers import this module, and not asyncio

    with (
        patch("os.sched_getaffinity", lambda _: set(range(count))),
        patch("indexer.derive.deriving.SMALLEST_PART", 1),
        patch("indexer.build.SMALL", 0),
    ):
        yield
