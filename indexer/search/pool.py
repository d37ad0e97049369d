"""Worker processes, as a Python process uses one core.

`multiprocessing` is no help here: its start methods `spawn` and `forkserver` import the caller's
`__main__` into each process, so that a script that builds without a `__main__` guard would run over
again; `fork` copies locks that threads of the caller hold. A worker is therefore a Python process
of its own, which receives a pickled call on its standard input and answers on its standard output.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import IO, Any, NamedTuple, cast

from indexer.errors import IndexerError
from indexer.progress import Advance
from indexer.resources import GC_THRESHOLDS

PR_SET_PDEATHSIG = 1
BOOTSTRAP = """
import sys
sys.path[:] = sys.argv[2:]
from indexer.search.pool import work
work(int(sys.argv[1]))
"""

SIGNAL_CHECK = 0.5
"""Seconds between two checks for signals. Python runs a signal handler when the main thread next
runs bytecode; a signal that another thread of the process received, or that arrived just before the
main thread blocked, does not wake it up."""


class Message(NamedTuple):
    """A message of a worker: steps of progress, or at its end the result or an exception."""

    steps: int = 0
    result: Any = None
    error: Exception | None = None


@contextmanager
def start_workers(
    function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], advance: Advance
) -> Iterator[Callable[[], list[Any]]]:
    """Call a function in a process for each task; the processes end with the `with` statement.

    The function is given the arguments of the task, and a function that reports progress: its steps
    are passed to `advance`, in a thread for each worker. Yields a function that waits for the
    results and returns them in order; it raises the first exception of a worker, or IndexerError
    if a worker was killed.
    """
    with ExitStack() as stack:
        readers = stack.enter_context(ThreadPoolExecutor(len(tasks)))
        futures = []
        for task in tasks:
            worker = Worker(function, task)
            stack.callback(worker.end)
            futures.append(readers.submit(worker.result, advance))
        yield partial(_gather, futures)


class Worker:
    """A process that calls a function once."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._process = subprocess.Popen(  # noqa: S603  # this very Python
            [sys.executable, "-c", BOOTSTRAP, str(os.getpid()), *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C on a terminal reaches the build alone, which ends its workers
        )
        with suppress(OSError), cast("IO[bytes]", self._process.stdin) as calls:
            # A worker that has ended already is reported by `result`.
            pickle.dump((function, arguments), calls)

    def result(self, advance: Advance) -> Any:
        """Wait for the result; raises what the function raised, or IndexerError."""
        with cast("IO[bytes]", self._process.stdout) as answers:
            try:
                while (message := pickle.load(answers)).steps:  # noqa: S301  # our own process
                    advance(message.steps)
            except (EOFError, pickle.UnpicklingError) as error:
                raise IndexerError(
                    f"a process of this build was ended ({self._process.wait()}); is there enough "
                    "memory for it?"
                ) from error
        if message.error is not None:
            raise message.error
        return message.result

    def end(self) -> None:
        """Kill the process, if it still runs."""
        self._process.kill()
        self._process.wait()


def work(parent: int) -> None:
    """Answer the call on standard input: the main program of a worker."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # printing must not damage the answers
    if sys.platform == "linux":  # elsewhere a worker ends when it next reports progress
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            return
    gc.set_threshold(*GC_THRESHOLDS)

    def send(message: Message) -> None:
        pickle.dump(message, answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()

    try:
        function, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301  # our own process
        result = function(*arguments, lambda steps: send(Message(steps)))
    except EOFError:  # the build ended first
        return
    except Exception as error:  # noqa: BLE001  # raised again by the build
        send(Message(error=error))
    else:
        send(Message(result=result))


def _gather(futures: Sequence[Future[Any]]) -> list[Any]:
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=SIGNAL_CHECK, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()  # raises what the worker raised
    return [future.result() for future in futures]
