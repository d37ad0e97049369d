"""The summary of a build, for a person to read."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from indexer.rejects import SHOWN, Rejects
from service.snapshot import Manifest


class Outcome(Struct):
    """How a build ended: the manifest of what is published now, and whether it is new."""

    manifest: Manifest
    changed: bool
    seconds: float


def summarise_build(outcome: Outcome, rejects: Rejects, artifacts: Path) -> str:
    """Some lines: what came from each source, what was rejected, what is published now."""
    manifest = outcome.manifest
    counts = manifest.counts
    size = _size(sum(file.bytes for file in manifest.files.values()))
    held = f"{counts.services:,} services, {counts.endpoints:,} endpoints"
    verb = "published" if outcome.changed else "nothing changed; still serving"
    return "\n".join(
        [
            *_source_lines(rejects),
            *_reject_lines(rejects),
            f"{held}, {counts.payments:,} payments; {size} in {outcome.seconds:.1f} s",
            f"{verb} {artifacts}/snapshots/{manifest.id}",
        ]
    )


def _source_lines(rejects: Rejects) -> list[str]:
    lines = []
    for tally in rejects.tallies:
        left_out = [f"{count:,} {policy}" for policy, count in tally.left_out.items() if count]
        parts = [f"{tally.records:,} records", f"{tally.malformed:,} rejected", *left_out]
        lines.append(f"{tally.source}: {', '.join(parts)}")
    return lines


def _reject_lines(rejects: Rejects) -> list[str]:
    lines = [f"  {fate} {reject}" for fate, reject in rejects.first]
    if rejects.count > SHOWN:
        lines.append(f"  and {rejects.count - SHOWN:,} more; --rejects FILE lists them all")
    return lines


def _size(size: float) -> str:
    for unit in ("bytes", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
