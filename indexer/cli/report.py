"""The report of a build: what came from where, what became of it, and how long that took."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from indexer.catalogue.outliers import Outlier
from indexer.sources.rejects import OTHER_REASONS, SHOWN, Reject, Rejects
from indexer.text import one_line
from service.snapshot.snapshot import Manifest

FUTURE = "is more than an hour in the future"


class SourceReport(Struct, rename="camel"):
    """What one source held: records, of those the rejected ones, and why, by count."""

    name: str
    records: int
    rejected: int
    reasons: dict[str, int]
    left_out: dict[str, int]
    noted: dict[str, int]


class Changes(Struct):
    """Services that are new, other or gone since the snapshot before."""

    added: int
    changed: int
    removed: int


class Report(Struct, rename="camel"):
    """All that a build has to say; `changes` is None where there was no snapshot to compare."""

    snapshot: str
    changed: bool
    services: int
    endpoints: int
    payments: int
    bytes: int
    seconds: float
    stages: dict[str, float]
    sources: list[SourceReport]
    changes: Changes | None
    suspicious_prices: list[Outlier]
    unused_overlays: list[str]
    notes: list[str]
    rejects: int
    first_rejects: list[Reject]

    @property
    def depends_on_time(self) -> bool:
        """Whether the same sources may give something else later."""
        reasons = [reason for source in self.sources for reason in source.reasons]
        return any(FUTURE in reason or reason == OTHER_REASONS for reason in reasons)


def report_sources(rejects: Rejects) -> list[SourceReport]:
    """What each source held."""
    return [
        SourceReport(
            name=tally.source,
            records=tally.records,
            rejected=tally.malformed,
            reasons=dict(tally.reasons.most_common()),
            left_out={policy: count for policy, count in tally.left_out.items() if count},
            noted=dict(tally.noted),
        )
        for tally in rejects.tallies
    ]


def report_build(
    manifest: Manifest,
    rejects: Rejects,
    before: str,
    changes: Changes | None,
    outliers: list[Outlier],
) -> Report:
    """The report of a build that published this manifest, or found it published, after another."""
    counts = manifest.counts
    return Report(
        snapshot=manifest.id,
        changed=manifest.id != before,
        services=counts.services,
        endpoints=counts.endpoints,
        payments=counts.payments,
        bytes=sum(file.bytes for file in manifest.files.values()),
        seconds=0.0,
        stages={},
        sources=report_sources(rejects),
        changes=changes,
        suspicious_prices=outliers,
        unused_overlays=rejects.unused_overlays,
        notes=rejects.notes,
        rejects=rejects.count,
        first_rejects=rejects.first,
    )


def summarise_build(report: Report, artifacts: Path) -> str:
    """Some lines for a person to read."""
    held = f"{report.services:,} services, {report.endpoints:,} endpoints"
    size = _size(report.bytes)
    verb = "published" if report.changed else "nothing changed; still serving"
    return "\n".join(
        [
            *_source_lines(report),
            *_reject_lines(report),
            *(f"note: {note}" for note in report.notes),
            *_shown("overlay for an unknown id:", report.unused_overlays),
            *_shown("suspicious price:", list(map(str, report.suspicious_prices))),
            *_change_lines(report),
            *_stage_lines(report),
            f"{held}, {report.payments:,} payments; {size} in {report.seconds:.1f} s",
            f"{verb} {artifacts}/snapshots/{report.snapshot}",
        ]
    )


def encode_report(report: Report) -> str:
    """The report as one line of JSON."""
    return msgspec.json.encode(report).decode()


def _source_lines(report: Report) -> list[str]:
    lines = []
    for source in report.sources:
        counts = [f"{count:,} {what}" for what, count in (source.left_out | source.noted).items()]
        parts = [f"{source.records:,} records", f"{source.rejected:,} rejected", *counts]
        lines.append(f"{source.name}: {', '.join(parts)}")
        if len(source.reasons) > 1:
            reasons = list(source.reasons.items())[:SHOWN]
            lines += [f"  {count:,} × {reason}" for reason, count in reasons]
    return lines


def _reject_lines(report: Report) -> list[str]:
    lines = [f"  {reject.fate} {reject}" for reject in report.first_rejects]
    if report.rejects > len(lines):
        lines.append(f"  and {report.rejects - len(lines):,} more; --rejects FILE lists them all")
    return lines


def _stage_lines(report: Report) -> list[str]:
    stages = [f"{name} {taken:.1f} s" for name, taken in report.stages.items() if taken >= 0.1]
    return [", ".join(stages)] if len(stages) > 1 else []


def _change_lines(report: Report) -> list[str]:
    if report.changes is None or not report.changed:
        return []
    changes = report.changes
    counts = f"{changes.added:,} added, {changes.changed:,} changed, {changes.removed:,} removed"
    return [f"since the last snapshot: {counts}"]


def _shown(what: str, texts: list[str]) -> list[str]:
    lines = [f"{what} {one_line(text)}" for text in texts[:SHOWN]]
    if len(texts) > SHOWN:
        lines.append(f"  and {len(texts) - SHOWN:,} more; --json lists them all")
    return lines


def _size(size: float) -> str:
    for unit in ("bytes", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
