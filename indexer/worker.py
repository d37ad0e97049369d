"""A worker: a function at work in a process of its own, since Python uses one core in each."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Generic, ParamSpec, TypeVar

from indexer.errors import IndexerError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

PR_SET_PDEATHSIG = 1

MANY = (100_000, 50, 100)
"""Objects between two searches for garbage in cycles, which a build makes little of: ten times as
rare as usual, they take a sixth less of its time."""


class Worker(Generic[Result]):
    """Starts at once; the function, its arguments and its result travel between processes."""

    def __init__(
        self,
        function: Callable[Arguments, Result],
        *arguments: Arguments.args,
        **options: Arguments.kwargs,
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._answers, answer = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_work, args=(os.getpid(), answer, function, arguments, options), daemon=True
        )
        self._process.start()
        answer.close()

    def result(self) -> Result:
        """Wait for the end; raises what the function raised, or IndexerError if it was killed."""
        try:
            result, error = self._answers.recv()
        except (EOFError, OSError) as ended:  # the latter where it was ended on the way to say
            self._process.join()
            raise IndexerError(
                f"a process of this build was ended ({self._process.exitcode}); is there enough "
                "memory for it?"
            ) from ended
        self._process.join()
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]  # what comes through a pipe has no type

    def cancel(self) -> None:
        """End it, wherever it is."""
        self._process.kill()
        self._process.join()


def _work(
    parent: int,
    answer: Connection,
    function: Callable[..., object],
    arguments: tuple[object, ...],
    options: dict[str, object],
) -> None:
    if sys.platform == "linux":  # elsewhere it works on to its end when its build is killed
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the build itself says that it was interrupted
    if os.getppid() != parent:
        return
    gc.set_threshold(*MANY)
    result, error = None, None
    try:
        result = function(*arguments, **options)
    except Exception as raised:  # noqa: BLE001  # the build is told, whatever it is
        error = raised
    answer.send((result, error))
