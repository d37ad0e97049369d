"""The command line: its commands, and the options of each."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path

from indexer.bazaar import Policy

Command = Callable[[argparse.Namespace], int]


def policy_of(options: argparse.Namespace) -> Policy:
    """What of a discovery feed these options want."""
    return Policy(options.max_price, options.allow_http, options.allow_private)


def parse_options(
    arguments: list[str] | None, commands: Mapping[str, Command], description: str | None
) -> argparse.Namespace:
    """The options; `run` is the one of the commands that was given, by its name."""
    parser = argparse.ArgumentParser(prog="python -m indexer", description=description)
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (summary, add_options) in COMMANDS.items():
        command = subparsers.add_parser(name, help=summary, description=summary)
        command.set_defaults(run=commands[name])
        add_options(command)
    return parser.parse_args(arguments)


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
        "--out", type=Path, default=Path("artifacts"), help="where to publish (%(default)s)"
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
    command.add_argument(
        "--artifacts",
        type=Path,
        default=Path("artifacts"),
        help="where ids are looked up (%(default)s)",
    )
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


def _artifacts(command: argparse.ArgumentParser) -> None:
    command.add_argument("artifacts", nargs="?", type=Path, default=Path("artifacts"))


COMMANDS: Mapping[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "build": ("build a snapshot from sources and publish it", _build),
    "verify": ("check the published snapshot", _artifacts),
    "rollback": ("serve the snapshot that was published before", _artifacts),
    "diff": ("list what changed between two snapshots", _diff),
    "evaluate": ("judge the ranking of a corpus by queries", _evaluate),
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
