"""A worker: a function at work in a process of its own, since Python uses one core in each."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, cast

from indexer.errors import IndexerError

PR_SET_PDEATHSIG = 1
START = """
import sys
sys.path[:] = sys.argv[2:]
from indexer.snapshot.pool import work
work(int(sys.argv[1]))
"""

MANY = (100_000, 50, 100)
"""Objects between two searches for garbage in cycles, which a build makes little of: ten times as
rare as usual, they take a sixth less of its time."""


@contextmanager
def hire(number: int, function: Callable[..., object]) -> Iterator[list[Worker]]:
    """So many workers for one function, which are gone when the body ends."""
    with ExitStack() as hired:
        workers = []
        for _ in range(number):
            workers.append(Worker(function))
            hired.callback(workers[-1].cancel)
        yield workers


class Answer(NamedTuple):
    """What a worker says: steps that it took, or in the end what came of it."""

    steps: int = 0
    result: Any = None
    error: Exception | None = None


def results(workers: Sequence[Worker], advance: Callable[[int], None]) -> list[Any]:
    """What the functions of these workers return, in their order; raises what one of them does.

    Their steps are passed on as they are taken.
    """
    found: dict[Worker, Any] = {}
    while len(found) < len(workers):
        pipes = {worker.pipe: worker for worker in workers if worker not in found}
        for ready in wait(list(pipes)):
            worker = pipes[cast("Connection", ready)]
            answer = worker.answer()
            advance(answer.steps)
            if not answer.steps:
                found[worker] = answer.result
    return [found[worker] for worker in workers]


class Worker:
    """Starts at once, imports what its function needs, and waits for the arguments to run it.

    The function is given one argument more, to be called with the steps that it takes.

    It is a Python of its own, and not one of `multiprocessing`, which would first run the program
    over again that called the build.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  # this very Python
                [sys.executable, "-c", START, str(theirs.fileno()), *sys.path],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self.pipe = Connection(ours.detach())
        self._send((os.getpid(), function))

    def give(self, *arguments: object) -> None:
        """Have it run its function, once."""
        self._send(arguments)

    def answer(self) -> Answer:
        """Wait for what it says next; raises what it raised, or IndexerError if it was killed."""
        try:
            answer: Answer = self.pipe.recv()
        except (EOFError, OSError) as ended:  # the latter where it was ended on the way to say
            raise IndexerError(
                f"a process of this build was ended ({self._process.wait()}); is there enough "
                "memory for it?"
            ) from ended
        if answer.error is not None:
            raise answer.error
        return answer

    def cancel(self) -> None:
        """End it, wherever it is."""
        self._process.kill()
        self._process.wait()
        self.pipe.close()

    def _send(self, message: object) -> None:
        with suppress(OSError):  # its end is met again where the result is waited for
            self.pipe.send(message)


def work(descriptor: int) -> None:
    """Be a worker: take a function and its arguments from a socket, and answer with the result."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the build itself says that it was interrupted
    if sys.platform == "linux":  # elsewhere it works on to its end when its build is killed
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    gc.set_threshold(*MANY)
    pipe = Connection(descriptor)
    answer = Answer()
    try:
        parent, function = pipe.recv()
        if os.getppid() != parent:
            return
        result = function(*pipe.recv(), lambda steps: pipe.send(Answer(steps)))
        answer = Answer(result=result)
    except EOFError:  # there is nothing to do
        return
    except Exception as raised:  # noqa: BLE001  # the build is told, whatever it is
        answer = Answer(error=raised)
    pipe.send(answer)
