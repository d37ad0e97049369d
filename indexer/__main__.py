"""`python -m indexer`: build snapshots, verify, compare or withdraw them, or judge the ranking."""

from __future__ import annotations

import gc
import signal
import sys
from io import TextIOWrapper

from indexer.cli.commands import (
    build,
    diff_snapshots,
    evaluate_ranking,
    roll_back_published,
    search_published,
    show_published,
    verify_published,
)
from indexer.cli.parser import parse_options
from indexer.errors import IndexerError
from indexer.resources import GC_THRESHOLDS
from service.errors import SnapshotUnavailable


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    gc.set_threshold(*GC_THRESHOLDS)
    options = parse_options(arguments, COMMANDS)
    try:
        status: int = options.run(options)
    except IndexerError as error:
        return _fail(str(error), error.status)
    except SnapshotUnavailable as error:
        return _fail(str(error), 1)
    except KeyboardInterrupt:
        return _fail("interrupted", 128 + signal.SIGINT)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}; what was published before stays", 1)
    return status


COMMANDS = {
    "build": build,
    "verify": verify_published,
    "rollback": roll_back_published,
    "diff": diff_snapshots,
    "search": search_published,
    "show": show_published,
    "evaluate": evaluate_ranking,
}


def _fail(message: str, status: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    if isinstance(sys.stdout, TextIOWrapper):  # a terminal may not have every letter of a name
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(main())
