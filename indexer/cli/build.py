"""`build` and `check`: read sources, publish a snapshot of them or nothing, and report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
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
from indexer.cli.terminal import Styled, answer, answer_lines
from indexer.intake.findings import MAX_EXAMPLES, State, Tally
from indexer.options import BuildOptions, ClusterOptions
from indexer.progress import Progress
from indexer.report import Report
from indexer.text import count_of, one_line
from service.schema.listings import Fate

SHORTEST_STAGE = 0.1  # seconds
FAILED, NOTEWORTHY = "bold red", "yellow"
"""Styles of lines."""


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
    parser.add_argument("--quiet", action="store_true", help="print nothing but what failed")
    parser.add_argument("--verbose", action="store_true", help="print times and sizes as well")
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
    progress = Progress(quiet=options.quiet or options.json, verbose=options.verbose)
    report = act(build_options, progress)
    if options.json:
        answer(msgspec.json.encode(report))
    elif not options.quiet:
        answer_lines(_describe(report, build_options.out, is_verbose=options.verbose))
    else:
        for tally in (each for each in report.sources if each.failure):
            for line in (_describe_source(tally), *_describe_failure(tally)):
                with suppress(OSError):  # a closed pipe: the snapshot is published
                    print(one_line(line), file=sys.stderr)  # noqa: T201  # for a person to read
    return 0


def _describe(report: Report, artifacts: Path, *, is_verbose: bool) -> Iterator[Styled]:
    """Yield the sources, then what to look at, then the outcome."""
    for tally in report.sources:
        yield _describe_source(tally), FAILED if tally.failure else ""
    for tally in report.sources:
        yield from _describe_findings(tally)
    yield from (f"  {finding.fate} {finding}" for finding in report.first_findings)
    if report.findings > (shown := len(report.first_findings)):
        yield f"  and {report.findings - shown:,} more; --rejects FILE lists them all"
    yield from ((f"note: {note}", NOTEWORTHY) for note in report.notes)
    yield from _describe_some("unused overlay:", report.unused_overlays)
    yield from _describe_some("unused denial:", report.unused_denials)
    if report.undescribed:
        endpoints = f"{report.undescribed:,} of {count_of(report.endpoints, 'endpoint')}"
        yield f"{endpoints} without a description; an overlay can give one"
    if is_verbose:
        yield from _describe_machine(report)
    for tally in report.sources:
        yield from ((line, FAILED) for line in _describe_failure(tally))
    yield _describe_outcome(report, artifacts), "bold"


def _describe_machine(report: Report) -> Iterator[str]:
    stages = {name: taken for name, taken in report.stages.items() if taken >= SHORTEST_STAGE}
    stages["all"] = report.seconds
    yield ", ".join(f"{name} {taken:.1f} s" for name, taken in stages.items())
    if report.snapshot:
        yield f"{report.indexed:,} of {count_of(report.services, 'service')} indexed anew"
        yield f"encoder: {report.encoder or 'none; ranked by words alone'}"
        downloads = _format_size(report.downloads) if report.downloads else "none"
        yield f"snapshot: {_format_size(report.bytes)}, downloads: {downloads}"


def _describe_outcome(report: Report, artifacts: Path) -> str:
    """Return what is served now, or would be, and how it differs from what was served before."""
    counts = count_of(report.services, "service")
    others = (report.endpoints, report.resources, report.payments)
    for number, noun in zip(others, ("endpoint", "listed resource", "payment"), strict=True):
        counts += f", {count_of(number, noun)}" if number else ""
    failed = sum(bool(tally.failure) for tally in report.sources)
    end = f"; {count_of(failed, 'source')} FAILED" if failed else ""
    place, since = f"{artifacts}/snapshots/{report.snapshot}", ""
    if changes := report.changes:
        since = f" (+{changes.added:,} ~{changes.changed:,} −{changes.removed:,})"
    if not report.snapshot:
        return f"{counts}{since}; nothing was published{end}"
    verb = "published" if report.changed else "nothing changed; still serving"
    return f"{verb} {place}{since if report.changed else ''}: {counts}{end}"


def _describe_source(tally: Tally) -> str:
    """Return the state of a source, in capitals where it has failed, and its counts."""
    if tally.state is State.SKIPPED:
        return f"SKIPPED    {tally.source}"
    state = "COPY" if tally.failure else "unchanged" if tally.is_unchanged else "fresh"
    some = "" if tally.published == tally.records else f"{tally.published:,} of "
    counts = {fate: sum(counted.values()) for fate, counted in tally.by_fate.items()}
    parts = [f"{count:,} {fate}" for fate, count in counts.items() if count]
    parts += [f"as of {tally.as_of}"] if tally.file or tally.failure else []
    start = f"{state:<9}  {some}{count_of(tally.records, 'record')} of {tally.source}"
    return ", ".join([start, *parts])


def _describe_failure(tally: Tally) -> list[str]:
    """Return why a source has failed, nothing if it has not."""
    reason = tally.failure.removeprefix(f"{tally.source}: ")
    return f"FAILED {tally.source}: {reason}".split("\n") if reason else []


def _describe_findings(tally: Tally) -> Iterator[Styled]:
    """Yield the reasons of each fate of the records of a source."""
    for fate, counted in tally.by_fate.items():
        for reason, count in sorted(counted.items(), key=lambda each: -each[1])[:MAX_EXAMPLES]:
            style = NOTEWORTHY if fate is Fate.REJECTED else ""
            yield f"{count:,} {fate} of {tally.source} ({reason})", style
    if tally.file and any(tally.by_fate.values()):
        yield f"  positions of {tally.source} are lines of {tally.file}"


def _describe_some(label: str, texts: list[str]) -> Iterator[Styled]:
    yield from ((f"{label} {text}", NOTEWORTHY) for text in texts[:MAX_EXAMPLES])
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
