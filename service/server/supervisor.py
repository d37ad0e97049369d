"""The supervisor of several workers: uvicorn's own, but for how they are started and stopped."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import select
import signal
from copy import copy
from socket import socket, socketpair

from uvicorn import Config
from uvicorn.supervisors import multiprocess

LOOK_EVERY = 0.5
"""Seconds between two looks at the workers, and so at most two starts of one that cannot live."""

_fork = multiprocessing.get_context("fork")
_log = logging.getLogger("uvicorn.error")


class Worker(multiprocess.Process):
    """A process that begins as a copy of its supervisor, which has everything imported."""

    def __init__(self, config: Config, sockets: list[socket]) -> None:
        super().__init__(config, sockets)
        forked = _fork.Process(target=self.target, args=(sockets,))
        self.process = forked  # type: ignore[assignment]  # in place of one that is spawned

    def start(self) -> None:
        """Fork; what is sent to the new process at once must not meet its parent's handlers."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, multiprocess.SIGNALS)
        super().start()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def target(self, sockets: list[socket] | None = None) -> None:
        """Serve, in the new process."""
        signal.set_wakeup_fd(-1)
        for number in multiprocess.SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, multiprocess.SIGNALS)
        super().target(sockets)


multiprocess.Process = Worker  # type: ignore[misc]  # the name by which uvicorn makes workers


class Supervisor(multiprocess.Multiprocess):
    """Starts the workers, replaces those that die, and stops them together."""

    def run(self) -> None:
        """Supervise until told to stop."""
        _log.info("Started parent process [%d]", os.getpid())
        copy(self.config).load()  # imports everything; each worker makes an application of its own
        gc.freeze()  # what no worker looks at for garbage stays shared
        woken, waking = socketpair()
        waking.setblocking(False)
        signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
        self.init_processes()
        while not self.should_exit.is_set():
            if select.select([woken], [], [], LOOK_EVERY)[0]:
                woken.recv(1024)
            self.handle_signals()
            self.keep_subprocess_alive()
        self.terminate_all()
        self.join_all()

    def terminate_all(self) -> None:
        """Stop the workers; once they listen no more, nobody does."""
        super().terminate_all()
        for listener in self.sockets:
            listener.close()

    def join_all(self) -> None:
        """Wait for the workers, and pass it on when they are to stop at once."""
        for process in self.processes:
            while process.process.is_alive():
                if self.signal_queue:
                    self.signal_queue.clear()
                    self._hurry()
                process.process.join(0.1)

    def _hurry(self) -> None:
        for process in self.processes:
            if process.process.is_alive() and process.pid is not None:
                os.kill(process.pid, signal.SIGTERM)
