"""A program that builds with two workers that never end."""

from __future__ import annotations

import signal
import sys
import threading

import pytest

from indexer.__main__ import main
from tests.support.workers import several_cpus, stuck

WORKERS = 2


def interrupt() -> None:
    """Interrupt a thread other than the main one when a line arrives on standard input."""
    if sys.stdin.readline():
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)


if __name__ == "__main__":
    # A suite that a shell script runs in the background inherits that SIGINT is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=interrupt, daemon=True).start()
    with several_cpus(WORKERS), pytest.MonkeyPatch.context() as patch:
        patch.setattr("indexer.snapshot.whoosh_index.index_span", stuck)
        sys.exit(main(sys.argv[1:]))
