"""The supervisor of several workers: uvicorn's own, but for how they are stopped."""

from __future__ import annotations

import os
import signal

from uvicorn.supervisors import Multiprocess


class Supervisor(Multiprocess):
    """Starts the workers, replaces those that die, and stops them together."""

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
