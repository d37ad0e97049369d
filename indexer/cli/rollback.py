"""`rollback`: serves the snapshot that was published before."""

from __future__ import annotations

import argparse

from indexer.build import connect_cluster
from indexer.cli.command import PUBLISHING, add_artifacts_argument
from indexer.cli.options.declared import add_declared, given
from indexer.cli.options.engine import add_engine_options, parse_address
from indexer.cli.terminal import announce
from indexer.options import BuildOptions, ClusterOptions
from indexer.publishing.publication import Publisher
from indexer.snapshot.rollback import roll_back

SUMMARY = "serve the snapshot that was published before"
EXAMPLES: tuple[str, ...] = ("rollback",)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a rollback."""
    add_artifacts_argument(parser)
    add_declared(parser, BuildOptions, PUBLISHING)
    add_engine_options(parser)


def run(options: argparse.Namespace) -> int:
    """Roll back, whether or not the outcome can be printed."""
    values = given(options, BuildOptions)
    publisher = Publisher(values.get("publish", ()), values.get("sign"))
    address = parse_address(options)
    options_of_cluster = None if address is None else ClusterOptions(address)
    cluster = connect_cluster(options_of_cluster, options.artifacts)
    switch = None if cluster is None else cluster.switch
    announce(roll_back(options.artifacts, publisher, switch))
    return 0
