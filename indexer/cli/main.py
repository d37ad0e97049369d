"""The entry of the command line: parses the options, runs the command, prints errors."""

from __future__ import annotations

import argparse
import errno
import gc
import os
import signal
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any

from indexer.cli import build, evaluate, probe, query, search, show, snapshots, wanted, why
from indexer.cli.options import Command
from indexer.errors import IndexerError, TooManyRejects
from indexer.processes.resources import GC_THRESHOLDS
from indexer.text import one_line
from service.cli import Parser
from service.errors import PublishingFailed, SnapshotUnavailable

COMMANDS: dict[str, Command] = {
    "build": build.BUILD,
    "check": build.CHECK,
    "search": search.SEARCH,
    "show": show.SHOW,
    "why": why.WHY,
    "query": query.QUERY,
    "diff": snapshots.DIFF,
    "verify": snapshots.VERIFY,
    "rollback": snapshots.ROLLBACK,
    "evaluate": evaluate.EVALUATE,
    "probe": probe.PROBE,
    "wanted": wanted.WANTED,
}
FIRST_STEPS = ("build", "search", "show")
SCRIPT = "ratecard"
"""The console script, which also has the commands `serve`, `mcp` and `fetch`."""


def main(arguments: list[str] | None = None, prog: str = "python -m indexer") -> int:
    """Run a command; returns the exit status. `prog` is the program as help names it."""
    gc.set_threshold(*GC_THRESHOLDS)
    if isinstance(sys.stdout, TextIOWrapper):  # a terminal may lack letters of a name
        sys.stdout.reconfigure(errors="backslashreplace")
    given = sys.argv[1:] if arguments is None else arguments
    options = parse_options(given, prog)
    try:
        status: int = options.run(options)
    except TooManyRejects as error:
        message = f"{error}\nnothing was published; what was published before stays"
        status = error.status
    except IndexerError as error:
        message, status = str(error), error.status
    except (SnapshotUnavailable, PublishingFailed) as error:
        message, status = str(error), 1
    except KeyboardInterrupt:
        message, status = "interrupted", 128 + signal.SIGINT
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        message, status = f"{where}{_reason(error)}; what was published before stays", 1
    else:
        return status
    _print_error(message, given)
    return status


def parse_options(arguments: list[str], prog: str) -> argparse.Namespace:
    """Parse a command line, or exit; the options have `run`, of the command, and `prog`."""
    if arguments and arguments[0] in COMMANDS:
        return _parse_command(arguments, prog)
    serve = f"{prog} serve" if prog == SCRIPT else "python -m service"
    first_steps = [f"{prog} {COMMANDS[name].examples[0]}" for name in FIRST_STEPS]
    parser = Parser(
        prog=prog,
        description="Build the snapshot that the service answers from, search it, compare "
        "snapshots and judge the ranking.",
        examples=[*first_steps, serve],
    )
    parser.add_version()
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        subparsers.add_parser(name, help=command.summary, **_texts_of(command, prog))
    if prog == SCRIPT:  # for the help: the script itself runs these commands
        subparsers.add_parser("serve", help="serve the published snapshot over HTTP")
        subparsers.add_parser("mcp", help="serve the published snapshot to agents by MCP")
        subparsers.add_parser("fetch", help="make a verified copy of what another Ratecard serves")
    if not arguments:
        parser.print_help()
        parser.exit(2)
    if not arguments[0].startswith("-"):
        parser.refuse("command", arguments[0], subparsers.choices)
    return parser.parse_args(arguments)


def _parse_command(arguments: list[str], prog: str) -> argparse.Namespace:
    name, *others = arguments
    command = COMMANDS[name]
    parser = Parser(prog=f"{prog} {name}", **_texts_of(command, prog))
    parser.set_defaults(run=command.run, prog=prog)
    command.add_options(parser)
    return parser.parse_args(others)


def _texts_of(command: Command, prog: str) -> dict[str, Any]:
    """Return the arguments of the `Parser` of a command."""
    examples = [f"{prog} {example}" for example in command.examples]
    return {"description": f"{command.summary.capitalize()}.", "examples": examples}


def _reason(error: OSError) -> str:
    if error.errno is None and "requested and" in str(error):  # of NumPy, which drops the errno
        return f"{os.strerror(errno.ENOSPC)}, or a limit of the disk is reached ({error})"
    return error.strerror or str(error)


def _print_error(message: str, arguments: Sequence[str]) -> None:
    """Print an error with control characters escaped: it may quote a file that others wrote.

    The lines of an error are its own: those of a file name that an argument has are joined.
    """
    for text in (text for each in arguments for text in (each, each.partition("=")[2])):
        message = message.replace(text, one_line(text)) if "\n" in text else message
    lines = map(one_line, message.split("\n"))
    print("error: " + "\n".join(lines), file=sys.stderr)  # noqa: T201  # for a person to read
