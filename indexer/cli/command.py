"""A command of the command line, and what several commands share."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from indexer.options import ARTIFACTS


class Command(NamedTuple):
    """A command: its help, examples of its command line without the program, and its functions.

    run: takes the options and `prog`, the program as called; returns the exit status
    """

    summary: str
    examples: tuple[str, ...]
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def add_artifacts_option(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Add `--artifacts`."""
    parser.add_argument(
        "--artifacts",
        type=Path,
        default=ARTIFACTS,
        metavar="FOLDER",
        help=f"{meaning} (%(default)s)",
    )


def add_artifacts_argument(parser: argparse.ArgumentParser) -> None:
    """Add the artifacts folder as an optional argument."""
    parser.add_argument(
        "artifacts",
        nargs="?",
        type=Path,
        default=ARTIFACTS,
        help="the artifacts folder (%(default)s)",
    )


def command_line(options: argparse.Namespace, *words: str) -> str:
    """Return the command line of another command on the same artifacts folder."""
    command = f"{options.prog} {shlex.join(words)}"
    if options.artifacts == ARTIFACTS:
        return command
    return f"{command} --artifacts {shlex.quote(str(options.artifacts))}"
