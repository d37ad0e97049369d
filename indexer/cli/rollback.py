"""`rollback`: serves the snapshot that was published before."""

from __future__ import annotations

import argparse

from indexer.cli.command import add_artifacts_argument
from indexer.cli.terminal import announce
from indexer.snapshot.rollback import roll_back

SUMMARY = "serve the snapshot that was published before"
EXAMPLES: tuple[str, ...] = ("rollback",)
add_options = add_artifacts_argument


def run(options: argparse.Namespace) -> int:
    """Roll back, whether or not the outcome can be printed."""
    announce(roll_back(options.artifacts))
    return 0
