"""The worker processes of a build, as a Python process uses one core.

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
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from threading import Lock
from types import TracebackType
from typing import IO, Any, NamedTuple, Self, TypeVar, cast

from indexer.errors import IndexerError
from indexer.processes.resources import (
    GC_THRESHOLDS,
    WORKER_MEMORY,
    anonymous_memory,
    release_memory,
    worker_count,
)
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


class FunctionCall(NamedTuple):
    """A call of a function, which gets `advance` as its last argument if it reports progress."""

    function: Callable[..., Any]
    arguments: Sequence[Any]
    reports: bool = False


class Message(NamedTuple):
    """A message of a worker: steps of progress, or at its end the result or an exception."""

    steps: int = 0
    result: Any = None
    error: BaseException | None = None


class Pool:
    """The worker processes of a build, until the pool closes; a context manager.

    A process starts when a call finds none idle, and ends after a call that left it with more than
    its share of the memory. Functions must be importable by name.

    jobs, memory: the processes and the bytes of memory of the build, at most
    workers: maximum number of processes; with 1, and `in_process`, calls run in this process
    """

    def __init__(self, jobs: int, memory: int, *, in_process: bool = False) -> None:
        self.jobs, self.memory = jobs, memory
        self.workers = 1 if in_process else worker_count(jobs, memory)
        self._share = memory // 2 // self.workers
        # Processes are started by these threads, which end with the pool: the signal of
        # PR_SET_PDEATHSIG is sent at the end of the thread that started a process.
        self._threads = ThreadPoolExecutor(self.workers)
        self._lock = Lock()  # of the attributes below
        self._started: set[Worker] = set()
        self._idle: list[Worker] = []
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill the processes, whatever they do."""
        with self._lock:
            self._is_closed = True
            started = [*self._started]
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in started:
            worker.kill()
        self._threads.shutdown()
        for worker in started:
            worker.close()

    def start(self) -> None:
        """Start all processes, for a build that is known to need them."""
        if self.workers > 1:
            for _ in range(self.workers):
                self._threads.submit(self._run, FunctionCall(_ignore, (0,)), _ignore)

    def renew(self) -> None:
        """End the idle processes that kept much, and return what this one has freed.

        Called between stages: the caches of one are of no use to the next.
        """
        with self._lock:
            large = [worker for worker in self._idle if worker.memory > WORKER_MEMORY // 2]
            self._idle = [worker for worker in self._idle if worker not in large]
            self._started.difference_update(large)
        for worker in large:
            worker.kill()
            worker.close()
        release_memory()

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Call a function in a worker; `wait_for` returns the result or raises its exception."""
        if self.workers > 1:
            return self._threads.submit(self._run, FunctionCall(function, arguments), _ignore)
        future = Future[T]()
        try:
            future.set_result(_call(FunctionCall(function, arguments), _ignore))
        except Exception as error:  # noqa: BLE001  # raised by the future
            future.set_exception(error)
        return future

    def map(
        self,
        function: Callable[..., T],
        tasks: Iterable[Sequence[Any]],
        advance: Advance | None = None,
    ) -> list[T]:
        """Call a function with the arguments of each task; return the results in order.

        With `advance` the function is given a last argument, which reports steps of progress:
        `advance` is called with them, from other threads. Raises the first exception of a call, and
        then starts no further ones. A single task runs in this process.
        """
        calls = [FunctionCall(function, arguments, advance is not None) for arguments in tasks]
        advance = advance or _ignore
        if self.workers == 1 or len(calls) == 1:
            return [_call(call, advance) for call in calls]
        futures = [self._threads.submit(self._run, call, advance) for call in calls]
        pending = set(futures)
        try:
            while pending:
                done, pending = wait(pending, SIGNAL_CHECK, FIRST_EXCEPTION)
                for future in done:
                    future.result()  # raises what the function raised
        finally:
            for future in pending:
                future.cancel()
        return [future.result() for future in futures]

    def _run(self, call: FunctionCall, advance: Advance) -> Any:
        """Make a call in an idle worker, or in a new one."""
        with self._lock:
            if self._is_closed:
                raise IndexerError("the build has ended its processes")
            if not self._idle:
                self._idle.append(Worker())
                self._started.add(self._idle[-1])
            worker = self._idle.pop()
        try:
            return worker.answer(call, advance)
        finally:
            with self._lock:
                if worker.is_running and worker.memory <= self._share:
                    self._idle.append(worker)
                else:
                    self._started.discard(worker)
                    worker.kill()
                    worker.close()


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
            stderr=subprocess.DEVNULL if sys.stderr is None else None,  # None where it is closed
            env={"OPENBLAS_NUM_THREADS": "1"} | os.environ,  # there is a worker for each CPU
            process_group=0,  # Ctrl-C on a terminal reaches the build alone, which ends its workers
        )
        self._calls = cast("IO[bytes]", self._process.stdin)
        self._answers = cast("IO[bytes]", self._process.stdout)

    @property
    def is_running(self) -> bool:
        """Whether the process can take a further call."""
        return self._process.poll() is None

    @property
    def memory(self) -> int:
        """The bytes of its anonymous memory."""
        return anonymous_memory(self._process.pid)

    def answer(self, call: FunctionCall, advance: Advance) -> Any:
        """Send a call and wait for its result.

        Raises what the function raises, or IndexerError where the process ends before.
        """
        content = pickle.dumps(call, pickle.HIGHEST_PROTOCOL)
        with suppress(BrokenPipeError):  # the process has ended, and does not answer
            _write(self._calls, content)
        while (answer := _read(self._answers)) is not None:
            message: Message = pickle.loads(answer)  # noqa: S301  # our own process
            if message.error is not None:
                raise message.error
            if not message.steps:
                return message.result
            advance(message.steps)
        raise IndexerError(_describe_end(self._process.wait()))

    def kill(self) -> None:
        """Kill the process, if it still runs."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close the pipes, which no thread uses any more."""
        with suppress(BrokenPipeError):  # of a call that the process did not read
            self._calls.close()
        self._answers.close()


def work(parent: int) -> None:
    """Answer the calls on standard input: the main program of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the build names the signal; no traceback
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # printing must not damage the answers
    if sys.platform == "linux":  # elsewhere a worker ends when it next answers
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            return
    gc.set_threshold(*GC_THRESHOLDS)

    def advance(steps: int) -> None:
        _write(answers, pickle.dumps(Message(steps)))

    while (content := _read(sys.stdin.buffer)) is not None:
        _write(answers, _answer(content, advance))


def _ignore(_: int) -> None:
    """Report no progress."""


def _call(call: FunctionCall, advance: Advance) -> Any:
    """Make a call in this process, and return the memory that the call has freed."""
    extra = (advance,) if call.reports else ()
    try:
        return call.function(*call.arguments, *extra)
    finally:
        release_memory()


def _answer(content: bytes, advance: Advance) -> bytes:
    """Make a pickled call, and return the pickled message with its outcome."""
    try:
        result = _call(pickle.loads(content), advance)  # noqa: S301  # our own process
        return pickle.dumps(Message(result=result), pickle.HIGHEST_PROTOCOL)
    except BaseException as error:  # noqa: BLE001  # raised again by the build
        error.add_note(f"in a worker process:\n{traceback.format_exc()}")
        return pickle.dumps(Message(error=_picklable(error)))


def _picklable(error: BaseException) -> BaseException:
    """Return an exception, or one with its type and message where it cannot be pickled."""
    with suppress(Exception):
        pickle.loads(pickle.dumps(error))  # noqa: S301  # our own object
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")


def _write(stream: IO[bytes], content: bytes) -> None:
    """Write a pickled object whole, after it was pickled without an error."""
    pickle.dump(content, stream, pickle.HIGHEST_PROTOCOL)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes | None:
    """Return the next pickled object, or None where the stream ends."""
    try:
        return cast("bytes", pickle.load(stream))  # noqa: S301  # our own process
    except (EOFError, pickle.UnpicklingError):  # at its end, or within an object
        return None


def _describe_end(status: int) -> str:
    """Describe the end of a process that ended before its answer."""
    if status >= 0:
        return f"a process of this build ended with status {status} before its work was done"
    advice = "; is there enough memory for it?" if -status == signal.SIGKILL else ""
    name = f"signal {-status} ({signal.strsignal(-status)})"
    return f"a process of this build was ended by {name}{advice}"
