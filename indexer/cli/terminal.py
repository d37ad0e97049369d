"""Standard output: text, JSON and tables, for a terminal or a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from io import StringIO
from typing import TYPE_CHECKING

from indexer.errors import IndexerError
from indexer.text import one_line
from service.bodies import escape_json
from service.errors import needs_extra

if TYPE_CHECKING:  # rich is an optional dependency
    from rich.console import Console

UNBOUNDED = 1_000_000  # columns


def announce(text: str | bytes) -> None:
    """Print what a command did, as lines or as JSON, or a warning that it cannot be printed."""
    if error := _print(_sanitise(text)):
        _warn(error)


def answer(text: str | bytes) -> int:
    """Print what was asked for, as lines or as JSON; returns the exit status.

    A closed pipe, as of `head`, is no failure.
    """
    return _answer(_sanitise(text))


def answer_drawn(draw: Callable[[Console], None]) -> int:
    """Print what rich draws: as wide as the terminal, or in whole lines for a pipe.

    Raises IndexerError where rich is not installed.
    """
    try:
        from rich.console import Console  # noqa: PLC0415  # an optional dependency
    except ImportError as error:
        message = needs_extra("drawing tables, which --json does without,", "indexer")
        raise IndexerError(message) from error
    lines = StringIO()
    draw(
        Console(
            file=lines,
            force_terminal=_is_terminal(),
            width=None if _is_terminal() else UNBOUNDED,
            markup=False,
            emoji=False,
            highlight=False,
        )
    )
    return _answer(lines.getvalue().rstrip("\n"))


def _sanitise(text: str | bytes) -> str | bytes:
    """Escape control characters: in lines always, in JSON, which is bytes, for a terminal only."""
    if isinstance(text, bytes):
        return escape_json(text.decode()) if _is_terminal() else text
    return "\n".join(map(one_line, text.split("\n")))


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()  # None where it is closed


def _answer(text: str | bytes) -> int:
    error = _print(text)
    if error is None or isinstance(error, BrokenPipeError):
        return 0
    _warn(error)
    return 1


def _print(text: str | bytes) -> OSError | None:
    """Print text and flush it; returns the error, if any, and then discards further output."""
    try:
        if isinstance(text, bytes) and sys.stdout is not None:
            sys.stdout.flush()
            sys.stdout.buffer.write(text + b"\n")
            sys.stdout.buffer.flush()
        else:
            print(text, flush=True)  # noqa: T201  # for a person or a script to read
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # exiting flushes again
        return error
    return None


def _warn(error: OSError) -> None:
    print(f"warning: the summary cannot be printed: {error.strerror}", file=sys.stderr)  # noqa: T201  # the same
