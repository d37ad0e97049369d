"""Worker processes, as a Python process uses one core.

`multiprocessing` is no help here: its start methods `spawn` and `forkserver` import the caller's
`__main__` into each process, so that a script that builds without a `__main__` guard would run over
again; `fork` copies locks that threads of the caller hold. A worker is therefore a Python process
of its own, which receives pickled calls on its standard input and answers on its standard output.
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
from queue import SimpleQueue
from typing import IO, Any, NamedTuple, TypeVar, cast

from indexer.errors import IndexerError
from indexer.processes.resources import GC_THRESHOLDS
from indexer.progress import Advance

T = TypeVar("T")

PR_SET_PDEATHSIG = 1
BOOTSTRAP = """
import sys
sys.path[:] = sys.argv[2:]
from indexer.processes.pool import work
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
    with _start(len(tasks)) as (workers, threads):
        futures = []
        for worker, task in zip(workers, tasks, strict=True):
            worker.send(function, task)
            worker.send_no_more()
            futures.append(threads.submit(worker.result, advance))
        yield partial(_gather, futures)


@contextmanager
def start_pool(function: Callable[..., T], count: int) -> Iterator[Callable[..., Future[T]]]:
    """Answer many calls of a function in `count` processes, which end with the `with` statement.

    Yields a function that submits a call; `wait_for` returns its result. The function is given the
    arguments of the call, and a function that reports progress, which nobody sees.
    """
    idle = SimpleQueue[Worker]()

    def call(*arguments: Any) -> T:
        worker = idle.get()
        try:
            worker.send(function, arguments)
            return cast("T", worker.result(lambda _: None))
        finally:
            idle.put(worker)

    with _start(count) as (workers, threads):
        for worker in workers:
            idle.put(worker)
        yield partial(threads.submit, call)


@contextmanager
def run_beside(
    function: Callable[..., None], arguments: tuple[Any, ...], *, in_process: bool
) -> Iterator[None]:
    """Call a function in a process while the body of a `with` statement runs, and wait for it.

    It is called before the body if `in_process`.
    """
    if in_process:
        function(*arguments)
        yield
        return
    with start_workers(_call, [(function, arguments)], lambda _: None) as results:
        yield
        results()


def wait_for(future: Future[T]) -> T:
    """Wait for the result of a call; raises what the function raised, or IndexerError."""
    while not future.done():
        wait([future], timeout=SIGNAL_CHECK)
    return future.result()


class Worker:
    """A process that answers calls, one after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603  # this very Python
            [sys.executable, "-c", BOOTSTRAP, str(os.getpid()), *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"OPENBLAS_NUM_THREADS": "1"} | os.environ,  # there is a worker for each CPU
            process_group=0,  # Ctrl-C on a terminal reaches the build alone, which ends its workers
        )
        self._calls = cast("IO[bytes]", self._process.stdin)
        self._answers = cast("IO[bytes]", self._process.stdout)

    def send(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Send a call; a worker that has ended already is reported by `result`."""
        with suppress(OSError):
            pickle.dump((function, arguments), self._calls, pickle.HIGHEST_PROTOCOL)
            self._calls.flush()

    def send_no_more(self) -> None:
        """Have the process end after its answers."""
        with suppress(OSError):
            self._calls.close()

    def result(self, advance: Advance) -> Any:
        """Wait for the next result; raises what the function raised, or IndexerError."""
        try:
            while (message := pickle.load(self._answers)).steps:  # noqa: S301  # our own process
                advance(message.steps)
        except (EOFError, pickle.UnpicklingError) as error:
            raise IndexerError(
                f"a process of this build was ended ({self._process.wait()}); is there enough "
                "memory for it?"
            ) from error
        if message.error is not None:
            raise message.error
        return message.result

    def kill(self) -> None:
        """Kill the process, if it still runs."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close the pipes, which no thread uses any more."""
        self.send_no_more()
        self._answers.close()


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

    while True:
        try:
            function, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301  # our own process
            result = function(*arguments, lambda steps: send(Message(steps)))
        except EOFError:  # there are no more calls
            return
        except Exception as error:  # noqa: BLE001  # raised again by the build
            send(Message(error=error))
        else:
            send(Message(result=result))


@contextmanager
def _start(count: int) -> Iterator[tuple[list[Worker], ThreadPoolExecutor]]:
    """Start processes, and threads that wait for them; the processes end first."""
    with ExitStack() as stack:
        workers = []
        for _ in range(count):
            workers.append(Worker())
            stack.callback(workers[-1].close)
            stack.callback(workers[-1].kill)
        threads = stack.enter_context(ThreadPoolExecutor(count))
        for worker in workers:
            stack.callback(worker.kill)
        yield workers, threads


def _gather(futures: Sequence[Future[Any]]) -> list[Any]:
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=SIGNAL_CHECK, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()  # raises what the worker raised
    return [future.result() for future in futures]


def _call(function: Callable[..., None], arguments: tuple[Any, ...], _: Advance) -> None:
    function(*arguments)
