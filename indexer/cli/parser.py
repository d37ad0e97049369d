"""The command line: its commands, and the options of each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from indexer.options import ARTIFACTS
from service.api.parameters import SORTS
from service.cli import Parser

FIRST = ("build", "search", "show")
"""What a newcomer runs, one after the other."""

Command = Callable[[argparse.Namespace], int]


def parse_options(
    arguments: list[str] | None, commands: Mapping[str, Command]
) -> argparse.Namespace:
    """The options; `run` is the one of the commands that was given, by its name."""
    given = sys.argv[1:] if arguments is None else arguments
    parser = Parser(
        prog="python -m indexer",
        description="Build the snapshot that the service answers from, ask what is in it, compare "
        "snapshots and judge the ranking.",
        examples=[*(COMMANDS[name].examples[0] for name in FIRST), "python -m service"],
    )
    parser.add_version()
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (summary, add_options, examples) in COMMANDS.items():
        command = subparsers.add_parser(
            name, help=summary, description=f"{summary.capitalize()}.", examples=examples
        )
        command.set_defaults(run=commands[name])
        add_options(command)
    if not given:
        parser.print_help()
        parser.exit(2)
    if not given[0].startswith("-") and given[0] not in COMMANDS:
        parser.refuse("command", given[0], COMMANDS)
    return parser.parse_args(given)


def _build(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="a file, folder or http(s) URL of services or of x402 discovery resources, as JSON "
        "lines, a JSON array or an envelope, plain or gzip; - for standard input; later sources "
        "replace services of earlier ones",
    )
    command.add_argument(
        "--transactions",
        action="extend",
        nargs="+",
        default=[],
        metavar="FILE",
        help="payments as CSV, JSON lines or Parquet, plain or compressed; patterns as well",
    )
    command.add_argument(
        "--overlay",
        action="extend",
        nargs="+",
        default=[],
        metavar="FILE",
        help="JSON merge patches by service id, over whatever the sources say",
    )
    command.add_argument(
        "--out", type=Path, default=ARTIFACTS, help="where to publish (%(default)s)"
    )
    command.add_argument(
        "--rejects", type=Path, metavar="FILE", help="list rejected records here, as JSON lines"
    )
    command.add_argument(
        "--max-rejects",
        type=_share,
        default="1%",
        metavar="SHARE",
        help="refuse to publish when more of one source is malformed (%(default)s)",
    )
    command.add_argument(
        "--max-price",
        type=_price,
        default="10000",
        metavar="AMOUNT",
        help="leave out discovered endpoints that charge more, in units of the currency "
        "(%(default)s)",
    )
    command.add_argument(
        "--allow-http", action="store_true", help="keep discovered resources that are not encrypted"
    )
    command.add_argument(
        "--allow-private",
        action="store_true",
        help="keep discovered resources at private addresses",
    )
    command.add_argument(
        "--allow-private-feeds",
        action="store_true",
        help="read feeds whose host name resolves to a private address",
    )
    command.add_argument(
        "--feed-seconds",
        type=_positive,
        default="600",
        metavar="SECONDS",
        help="give up a feed that takes longer (%(default)s)",
    )
    command.add_argument(
        "--feed-bytes",
        type=_positive,
        default=str(4 * 2**30),
        metavar="BYTES",
        help="give up a feed that is longer, decompressed (%(default)s)",
    )
    command.add_argument("--quiet", action="store_true", help="say nothing but errors")
    command.add_argument("--json", action="store_true", help="report in JSON, on standard output")


def _diff(command: argparse.ArgumentParser) -> None:
    for name in ("old", "new"):
        command.add_argument(
            name,
            metavar=name.upper(),
            help="an id or the start of one, the folder of a snapshot, or an artifacts folder for "
            "the snapshot that it serves",
        )
    _artifacts_option(command, "where ids are looked up")
    command.add_argument("--json", action="store_true", help="answer in JSON")


def _evaluate(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--corpus",
        required=True,
        metavar="FILE",
        help="JSON lines of documents: id, name, description, category",
    )
    command.add_argument(
        "--queries",
        required=True,
        metavar="FILE",
        help='JSON lines of queries: {"query":"...","relevant":{"document id":grade}}',
    )
    command.add_argument("--json", action="store_true", help="answer in JSON")
    command.add_argument(
        "--worst", type=int, default=0, metavar="N", help="show the N queries that fared worst"
    )


def _search(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "words",
        nargs="*",
        metavar="QUERY",
        help="words to search for; without any, all services are listed, best known first",
    )
    for name in ("category", "network"):
        command.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar=name.upper(),
            help=f"only services with this {name}; repeated, with any of several",
        )
    command.add_argument(
        "--max-price",
        metavar="AMOUNT",
        help="only services whose cheapest price is at most this, in units of its currency",
    )
    command.add_argument(
        "--sort",
        default="relevance",
        metavar="ORDER",
        help=f"one of {', '.join(SORTS)} (%(default)s)",
    )
    command.add_argument(
        "--limit", default="10", metavar="N", help="how many at most, up to 200 (%(default)s)"
    )
    command.add_argument(
        "--offset", default="0", metavar="N", help="how many to pass over (%(default)s)"
    )
    _artifacts_option(command, "where they are published")
    command.add_argument("--json", action="store_true", help="answer as the service over HTTP")


def _show(command: argparse.ArgumentParser) -> None:
    command.add_argument("id", metavar="ID", help="the id of the service")
    _artifacts_option(command, "where it is published")
    command.add_argument("--json", action="store_true", help="the record as it is stored")


def _artifacts(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "artifacts",
        nargs="?",
        type=Path,
        default=ARTIFACTS,
        help="where it is published (%(default)s)",
    )


def _artifacts_option(command: argparse.ArgumentParser, meaning: str) -> None:
    command.add_argument(
        "--artifacts",
        type=Path,
        default=ARTIFACTS,
        metavar="FOLDER",
        help=f"{meaning} (%(default)s)",
    )


class Described(NamedTuple):
    """What help says of a command: in one line, by its options, and by examples."""

    summary: str
    add_options: Callable[[argparse.ArgumentParser], None]
    examples: tuple[str, ...]


COMMANDS: Mapping[str, Described] = {
    "build": Described(
        "build a snapshot from sources and publish it",
        _build,
        (
            "python -m indexer build seeds/services.jsonl",
            "python -m indexer build services.jsonl --transactions 'payments/*.parquet'",
            "python -m indexer build https://feed.example/discovery/resources --rejects bad.jsonl",
        ),
    ),
    "search": Described(
        "search what is published, or list it",
        _search,
        (
            "python -m indexer search weather forecast",
            "python -m indexer search weather --network Base --max-price 0.01 --sort price",
            "python -m indexer search weather --json | jq -r '.services[].id'",
        ),
    ),
    "show": Described(
        "show a service: its endpoints, prices and how to call them",
        _show,
        ("python -m indexer show tidewatch-example",),
    ),
    "diff": Described(
        "list what changed between two snapshots",
        _diff,
        ("python -m indexer diff 1f3a 9c07", "python -m indexer diff /srv/old artifacts"),
    ),
    "verify": Described(
        "check every file of the published snapshot",
        _artifacts,
        ("python -m indexer verify",),
    ),
    "rollback": Described(
        "serve the snapshot that was published before",
        _artifacts,
        ("python -m indexer rollback",),
    ),
    "evaluate": Described(
        "judge the ranking of a corpus by queries",
        _evaluate,
        ("python -m indexer evaluate --corpus corpus.jsonl --queries queries.jsonl",),
    ),
}


def _share(text: str) -> Fraction:
    try:
        share = Fraction(text.removesuffix("%")) / 100
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if not text.endswith("%") or not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"expected a percentage such as 1%, got {text!r}")
    return share


def _price(text: str) -> Decimal:
    try:
        price = Decimal(text)
    except InvalidOperation:
        price = Decimal("NaN")
    if not price.is_finite() or price < 0:
        raise argparse.ArgumentTypeError(f"expected an amount such as 100, got {text!r}")
    return price


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text!r}")
    return int(text)
