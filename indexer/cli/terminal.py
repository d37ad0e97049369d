"""Standard output: text, JSON and tables, for a terminal or a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from io import StringIO
from typing import TYPE_CHECKING

from indexer.errors import IndexerError
from indexer.text import one_line
from service.bodies import escape_json
from service.errors import needs_extra

if TYPE_CHECKING:  # rich is an optional dependency
    from rich.console import Console

UNBOUNDED = 1_000_000  # columns
Styled = str | tuple[str, str]
"""Text, or text with a style of rich."""


def answer(text: str | bytes) -> int:
    """Print lines or JSON, with control characters escaped; returns the exit status.

    JSON, which is bytes, is escaped for a terminal only.
    """
    if isinstance(text, str):
        return _print("\n".join(map(one_line, text.split("\n"))))
    return _print(escape_json(text.decode()) if _is_terminal() else text)


def answer_lines(lines: Iterable[Styled]) -> int:
    """Print lines as `answer` does, in their styles on a terminal where rich is installed."""
    pairs = [(each, "") if isinstance(each, str) else each for each in lines]
    safe = [(one_line(text), style) for text, style in pairs]
    if not _is_terminal() or find_spec("rich") is None:
        return answer("\n".join(text for text, _ in safe))

    def draw(console: Console) -> None:
        for text, style in safe:
            console.print(text, style=style, soft_wrap=True)

    return answer_drawn(draw)


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
    return _print(lines.getvalue().rstrip("\n"))


def draw_text(
    console: Console, indent: int, *parts: Styled, label: str = "", is_whole: bool = False
) -> None:
    """Draw a paragraph, wrapped within the console, with a label before its first line.

    is_whole: whether it is a line to copy, which the terminal itself breaks
    """
    from rich.text import Text  # noqa: PLC0415  # an optional dependency

    width = UNBOUNDED if is_whole else max(console.width - indent, 10)
    pairs = [(each, "") if isinstance(each, str) else each for each in parts]
    for line in Text.assemble(*((one_line(text), style) for text, style in pairs)).wrap(
        console, width
    ):
        line.rstrip()
        console.print(Text.assemble((f"{label:<{indent}}", "dim"), line), soft_wrap=True)
        label = ""


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()  # None where it is closed


def _print(text: str | bytes) -> int:
    """Print text and flush it, or discard further output; returns the exit status.

    A closed pipe, as of `head`, is no failure.
    """
    try:
        if isinstance(text, bytes) and sys.stdout is not None:
            sys.stdout.flush()
            sys.stdout.buffer.write(text + b"\n")
            sys.stdout.buffer.flush()
        else:
            print(text, flush=True)  # noqa: T201  # for a person or a script to read
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # exiting flushes again
        if isinstance(error, BrokenPipeError):
            return 0
        print(f"warning: the summary cannot be printed: {error.strerror}", file=sys.stderr)  # noqa: T201  # the same
        return 1
    return 0
