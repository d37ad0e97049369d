"""`build` and `check`: read sources, publish a snapshot of them or nothing, and report."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from indexer.build import build_snapshot, check_sources
from indexer.cli.options import (
    Command,
    add_cluster_options,
    add_flags,
    add_ranking_options,
    add_source_options,
    parse_cluster,
    parse_ranking,
    parse_reading,
)
from indexer.cli.terminal import answer
from indexer.intake.findings import MAX_EXAMPLES, State, Tally
from indexer.options import BuildOptions, ClusterOptions
from indexer.progress import Progress
from indexer.report import Report
from indexer.text import one_line
from service.schema.listings import Fate

SHORTEST_STAGE = 0.1  # seconds


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a build."""
    add_source_options(parser, publishes=True)
    add_ranking_options(parser)
    add_cluster_options(parser)
    add_flags(parser, ClusterOptions, ["prefix"])
    _add_report_options(parser)


def add_check_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a check."""
    add_source_options(parser, publishes=False)
    _add_report_options(parser)


def _add_report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")


def run(options: argparse.Namespace) -> int:
    """Build, and print the report; a published snapshot is a success without it, too."""
    build_options = BuildOptions(
        **parse_reading(options), ranking=parse_ranking(options), cluster=parse_cluster(options)
    )
    return _report(build_snapshot, build_options, options)


def check(options: argparse.Namespace) -> int:
    """Check the sources, and print the report."""
    return _report(check_sources, BuildOptions(**parse_reading(options)), options)


def _report(
    act: Callable[[BuildOptions, Progress], Report],
    build_options: BuildOptions,
    options: argparse.Namespace,
) -> int:
    """Build or check, and print the report as the options ask for."""
    report = act(build_options, Progress(quiet=options.quiet or options.json))
    if options.json:
        answer(msgspec.json.encode(report))
    elif not options.quiet:
        answer("\n".join(_describe(report, build_options.out)))
    return 0


def _describe(report: Report, artifacts: Path) -> Iterator[str]:
    for tally in report.sources:
        yield from _describe_source(tally)
    yield from (f"  {finding.fate} {finding}" for finding in report.first_findings)
    if report.findings > (shown := len(report.first_findings)):
        yield f"  and {report.findings - shown:,} more; --rejects FILE lists them all"
    yield from (f"note: {note}" for note in report.notes)
    yield from _describe_some("unused overlay:", report.unused_overlays)
    yield from _describe_some("unused denial:", report.unused_denials)
    if report.undescribed:
        yield (
            f"without a text of their own: {report.undescribed:,} of {report.endpoints:,} endpoints"
        )
    if (report.changed or not report.snapshot) and (changes := report.changes):
        counts = f"{changes.added:,} added, {changes.changed:,} changed"
        yield f"since the last snapshot: {counts}, {changes.removed:,} removed"
    stages = {name: taken for name, taken in report.stages.items() if taken >= SHORTEST_STAGE}
    if len(stages) > 1:
        yield ", ".join(f"{name} {taken:.1f} s" for name, taken in stages.items())
    if report.snapshot:
        yield f"{report.indexed:,} of {report.services:,} services indexed anew"
    yield from _describe_snapshot(report, artifacts)


def _describe_snapshot(report: Report, artifacts: Path) -> Iterator[str]:
    counts = f"{report.services:,} services, {report.endpoints:,} endpoints"
    if report.resources:
        counts += f", {report.resources:,} listed resources"
    counts += f", {report.payments:,} payments"
    if not report.snapshot:
        yield f"{counts}; checked in {report.seconds:.1f} s, and nothing was published"
        return
    yield f"encoder: {report.encoder or 'none; ranked by words alone'}"
    if report.downloads:
        yield f"downloads: {_format_size(report.downloads)}"
    yield f"{counts}; {_format_size(report.bytes)} in {report.seconds:.1f} s"
    verb = "published" if report.changed else "nothing changed; still serving"
    yield f"{verb} {artifacts}/snapshots/{report.snapshot}"


def _describe_source(tally: Tally) -> Iterator[str]:
    """Yield the fates of the records of a source, then the reasons of each fate."""
    reasons = {
        Fate.NOTED: tally.noted,
        Fate.LEFT_OUT: tally.left_out,
        Fate.REJECTED: tally.reasons,
    }
    counts = {fate: sum(counted.values()) for fate, counted in reasons.items()}
    parts = [f"{tally.published:,} published"]
    parts += [f"{count:,} {fate}" for fate, count in counts.items() if count]
    yield f"{tally.source}: {tally.records:,} records: {', '.join(parts)}"
    if tally.state is not State.CURRENT:
        copy = "nothing was read" if tally.state is State.SKIPPED else f"read as of {tally.as_of}"
        yield from (f"  {line}" for line in (copy, *tally.failure.split("\n")))
    elif tally.file:
        yield f"  read as of {tally.as_of}"
    if tally.file and any(counts.values()):
        yield f"  positions are lines of {tally.file}"
    for fate, counted in reasons.items():
        for reason, count in sorted(counted.items(), key=lambda each: -each[1])[:MAX_EXAMPLES]:
            yield f"  {fate}: {count:,} × {reason}"


def _describe_some(label: str, texts: list[str]) -> Iterator[str]:
    for text in texts[:MAX_EXAMPLES]:
        yield f"{label} {one_line(text)}"
    if len(texts) > MAX_EXAMPLES:
        yield f"  and {len(texts) - MAX_EXAMPLES:,} more; --json lists them all"


def _format_size(size: float) -> str:
    for unit in ("bytes", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


BUILD = Command(
    "build a snapshot from sources and publish it",
    (
        "build seeds/services.jsonl",
        "build catalogue.toml",
        "build services.jsonl --transactions 'payments/*.parquet'",
        "build https://feed.example/discovery/resources --rejects bad.jsonl --on-error last",
    ),
    add_options,
    run,
)
CHECK = Command(
    "read sources and report, and publish nothing",
    ("check catalogue.toml", "check services.jsonl --rejects bad.jsonl"),
    add_check_options,
    check,
)
