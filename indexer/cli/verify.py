"""`verify`: checks every file of the published snapshot."""

from __future__ import annotations

import argparse

from indexer.cli.command import add_artifacts_argument
from indexer.cli.terminal import answer
from service.snapshot.manifest import verify
from service.snapshot.publication import SNAPSHOTS, read_current

SUMMARY = "check every file of the published snapshot"
EXAMPLES: tuple[str, ...] = ("verify",)
add_options = add_artifacts_argument


def run(options: argparse.Namespace) -> int:
    """Check the published snapshot against its manifest."""
    snapshot_id = read_current(options.artifacts).id
    manifest = verify(options.artifacts / SNAPSHOTS / snapshot_id)
    count = len(manifest.files)
    done = f"snapshot {snapshot_id} is whole: {count} files as they were published"
    if manifest.encoder:
        done += f", encoder {manifest.encoder}"
    if manifest.index is not None:
        done += f"; its postings are in the index {manifest.index}"
    return answer(done)
