"""The worker processes of a build, as a Python process uses one core.

They are those of `concurrent.futures`. A worker ends with the build, however the build ends: it
reads a pipe that only the build can write to, and exits when the pipe closes.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread
from types import ModuleType
from typing import Any, Self, TypeVar

from indexer.errors import IndexerError
from indexer.processes.resources import GC_THRESHOLDS, release_memory, worker_count
from indexer.progress import Advance

T = TypeVar("T")

SIGNAL_CHECK = 0.5
"""Seconds between two checks for signals. Python runs a signal handler when the main thread next
runs bytecode; a signal that another thread of the process received, or that arrived just before the
main thread blocked, does not wake it up."""


class Pool:
    """The worker processes of a build, until the pool closes; a context manager.

    Processes start with the first call. Functions must be importable by name.

    jobs, memory: the processes and the bytes of memory of the build, at most
    workers: maximum number of processes; with 1, and `in_process`, calls run in this process
    """

    def __init__(self, jobs: int, memory: int, *, in_process: bool = False) -> None:
        self.jobs, self.memory = jobs, memory
        self.workers = 1 if in_process else worker_count(jobs, memory)
        self._executor: ProcessPoolExecutor | None = None
        self._lifeline: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes, whatever they do."""
        if self._executor is not None and self._lifeline is not None:
            self._lifeline.close()
            self._executor.shutdown(cancel_futures=True)

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Call a function in a worker; `wait_for` returns the result or raises its exception."""
        if self.workers > 1:
            if self._executor is None:
                self._executor = self._start()
            with _ends_reported(), _without_main():
                return self._executor.submit(_call, function, arguments)
        future = Future[T]()
        try:
            future.set_result(_call(function, arguments))
        except Exception as error:  # noqa: BLE001  # raised by the future
            future.set_exception(error)
        return future

    def map(
        self,
        function: Callable[..., T],
        tasks: Sequence[Sequence[Any]],
        advance: Advance,
        steps: Iterable[int],
    ) -> list[T]:
        """Call a function with the arguments of each task; return the results in order.

        `advance` is called with the steps of each task when it is done. Raises the first exception
        of a call. A single task runs in this process.
        """
        if self.workers == 1 or len(tasks) == 1:
            results = (_call(function, arguments) for arguments in tasks)
        else:
            futures = [self.submit(function, *arguments) for arguments in tasks]
            results = (wait_for(future, futures) for future in futures)
        done = []
        for result, size in zip(results, steps, strict=True):
            done.append(result)
            advance(size)
        return done

    def _start(self) -> ProcessPoolExecutor:
        context = get_context("spawn")  # a fork would copy the locks of threads
        end, self._lifeline = context.Pipe(duplex=False)
        return ProcessPoolExecutor(self.workers, context, _begin, (end,))


def wait_for(future: Future[T], others: Iterable[Future[Any]] = ()) -> T:
    """Wait for the result of a call; raises what the function or another raised, or IndexerError.

    A process that ended, as one does that needs too much memory, is an IndexerError.
    """
    with _ends_reported():
        while not future.done():
            wait([future], timeout=SIGNAL_CHECK)
            for other in others:
                if other.done():
                    other.result()
        return future.result()


@contextmanager
def _ends_reported() -> Iterator[None]:
    try:
        yield
    except (BrokenProcessPool, OSError) as error:
        if isinstance(error, OSError) and str(error) != "handle is closed":
            raise  # that is of an executor that has not yet noticed the end of a process
        raise IndexerError(
            "a process of this build ended before its work was done; is there enough memory for it?"
        ) from error


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide `__main__` from a process that starts, which would import it.

    A script that builds without a `__main__` guard would run again in every worker.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _begin(lifeline: Connection) -> None:
    """Prepare a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the build ends its workers
    gc.set_threshold(*GC_THRESHOLDS)
    Thread(target=_end_with, args=(lifeline,), daemon=True).start()


def _end_with(lifeline: Connection) -> None:
    """End this process when the build has closed its end of a pipe, or has ended."""
    with suppress(EOFError, OSError):
        lifeline.recv_bytes()
    os._exit(1)


def _call(function: Callable[..., T], arguments: Sequence[Any]) -> T:
    """Make a call, and return the memory that the call has freed."""
    try:
        return function(*arguments)
    finally:
        release_memory()
