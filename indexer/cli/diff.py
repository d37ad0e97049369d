"""`diff`: lists what changed between two snapshots."""

from __future__ import annotations

import argparse

from indexer.cli.command import add_artifacts_option
from indexer.cli.terminal import answer
from indexer.snapshot.compare import compare, find_snapshot, summarise_difference

SUMMARY = "list what changed between two snapshots"
EXAMPLES: tuple[str, ...] = ("diff 1f3a 9c07", "diff /srv/old artifacts")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the two snapshots and where to look them up."""
    for name in ("old", "new"):
        parser.add_argument(
            name,
            metavar=name.upper(),
            help="an id or the start of one, the folder of a snapshot, or an artifacts folder for "
            "the snapshot that it serves",
        )
    add_artifacts_option(parser, "where ids are looked up")
    parser.add_argument("--json", action="store_true", help="answer in JSON")


def run(options: argparse.Namespace) -> int:
    """Compare two snapshots."""
    old, new = (find_snapshot(options.artifacts, name) for name in (options.old, options.new))
    text = summarise_difference(compare(old, new), as_json=options.json)
    return answer(text.encode() if options.json else text)
