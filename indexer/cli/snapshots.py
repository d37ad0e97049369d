"""`diff`, `verify` and `rollback`: compare, check and go back to published snapshots."""

from __future__ import annotations

import argparse

import msgspec

from indexer.build import connect_cluster
from indexer.cli.options import (
    Command,
    add_artifacts_argument,
    add_artifacts_option,
    add_cluster_options,
    parse_cluster,
)
from indexer.cli.terminal import answer
from indexer.snapshot.compare import compare, find_snapshot, summarise_difference
from indexer.snapshot.rollback import roll_back
from service.snapshot.manifest import verify
from service.snapshot.publication import SNAPSHOTS, read_current


def add_diff_options(parser: argparse.ArgumentParser) -> None:
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


def diff(options: argparse.Namespace) -> int:
    """Compare two snapshots."""
    old, new = (find_snapshot(options.artifacts, name) for name in (options.old, options.new))
    difference = compare(old, new)
    if options.json:
        return answer(msgspec.json.encode(difference))
    return answer(summarise_difference(difference))


def verify_served(options: argparse.Namespace) -> int:
    """Check the published snapshot against its manifest."""
    snapshot_id = read_current(options.artifacts).id
    manifest = verify(options.artifacts / SNAPSHOTS / snapshot_id)
    done = f"snapshot {snapshot_id} is whole: {len(manifest.files)} files as they were published"
    if manifest.encoder:
        done += f", encoder {manifest.encoder}"
    return answer(done)


def add_rollback_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a rollback."""
    add_artifacts_argument(parser)
    add_cluster_options(parser)


def rollback(options: argparse.Namespace) -> int:
    """Roll back, whether or not the outcome can be printed."""
    cluster = connect_cluster(parse_cluster(options), options.artifacts)
    switch = None if cluster is None else cluster.switch
    answer(roll_back(options.artifacts, switch))
    return 0


DIFF = Command(
    "list what changed between two snapshots",
    ("diff 1f3a 9c07", "diff /srv/old artifacts"),
    add_diff_options,
    diff,
)
VERIFY = Command(
    "check every file of the published snapshot",
    ("verify",),
    add_artifacts_argument,
    verify_served,
)
ROLLBACK = Command(
    "serve the snapshot that was built before",
    ("rollback",),
    add_rollback_options,
    rollback,
)
