"""A command of the command line, and what several commands share."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Protocol

from indexer.options import ARTIFACTS

PUBLISHING = ("publish", "sign")
"""Fields of BuildOptions that count where a snapshot is published."""


class Command(Protocol):
    """A module with a command; its examples are command lines without the program."""

    SUMMARY: str
    EXAMPLES: tuple[str, ...]

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""

    def run(self, options: argparse.Namespace) -> int:
        """Run with options that have `prog`, the program as called; returns the exit status."""


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
