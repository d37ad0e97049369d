"""The terminal: what people and scripts read, of text that anybody may have written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from io import StringIO
from typing import TYPE_CHECKING

from indexer.errors import IndexerError
from indexer.text import escape_json

if TYPE_CHECKING:  # what draws is needed only where something is drawn
    from rich.console import Console

ENDLESS = 1_000_000


def say(text: str) -> bool:
    """Print what a command did; returns whether it could be: it is done all the same."""
    try:
        print(text, flush=True)  # noqa: T201  # what a person reads
    except OSError as error:
        _lose(error)
        return False
    return True


def answer(text: str | bytes) -> int:
    """Print what was asked for, bytes as they are; returns the exit status.

    A reader who has seen enough, as `head` has, is no failure.
    """
    try:
        if isinstance(text, bytes) and sys.stdout is not None:  # else nobody wants to know
            sys.stdout.flush()
            sys.stdout.buffer.write(text + b"\n")
            sys.stdout.buffer.flush()
        else:
            print(text, flush=True)  # noqa: T201  # what a person reads
    except BrokenPipeError:
        _close()
    except OSError as error:
        _lose(error)
        return 1
    return 0


def answer_json(text: bytes) -> int:
    """Print JSON: as it is to a script, and with what is no letter escaped to a terminal."""
    return answer(escape_json(text.decode()) if is_terminal() else text)


def is_terminal() -> bool:
    """Whether standard output is one."""
    return sys.stdout is not None and sys.stdout.isatty()  # a service may have closed it


def drawn(draw: Callable[[Console], None]) -> str:
    """What this draws for standard output: as wide as the terminal, or without end for a pipe.

    Raises IndexerError where what draws is not installed.
    """
    try:
        from rich.console import Console  # noqa: PLC0415  # builds do without
    except ModuleNotFoundError as error:
        raise IndexerError(
            "tables are drawn by rich, which is not installed: pip install 'ratecard[indexer]'; "
            "--json does without"
        ) from error
    terminal, lines = is_terminal(), StringIO()
    width = None if terminal else ENDLESS
    draw(
        Console(
            file=lines,
            force_terminal=terminal,
            width=width,
            markup=False,
            emoji=False,
            highlight=False,
        )
    )
    return lines.getvalue().rstrip("\n")


def _lose(error: OSError) -> None:
    print(f"warning: the summary cannot be printed: {error.strerror}", file=sys.stderr)  # noqa: T201  # the same
    _close()


def _close() -> None:
    """Have the rest of standard output go nowhere, else exiting fails too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
