"""A program that builds with two workers that never end, those of a given stage."""

from __future__ import annotations

import signal
import sys
import threading
from unittest.mock import patch

from indexer.__main__ import main
from tests.support.workers import never_end, several_cpus

WORKERS = 2

FUNCTIONS = {
    "read": "indexer.catalogue.reading.read_texts",
    "derive": "indexer.derive.deriving.derive_part",
}
"""The functions that workers run, by the stage of the build."""


def interrupt() -> None:
    """Send SIGINT to this thread, which is not the main one, after a line on standard input."""
    if sys.stdin.readline():
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)


if __name__ == "__main__":
    # A test run in the background of a shell inherits that SIGINT is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=interrupt, daemon=True).start()
    _, stage, *arguments = sys.argv
    # Start workers at the first record, and send them one at a time.
    with (
        several_cpus(WORKERS),
        patch(FUNCTIONS[stage], never_end),
        patch("indexer.catalogue.reading.BATCH", 1),
    ):
        sys.exit(main(arguments))
