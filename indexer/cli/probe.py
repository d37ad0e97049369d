"""`probe`: visits the listed endpoints, and writes what they answer."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from indexer.cli.options import Command, add_artifacts_option, add_flags, given
from indexer.cli.terminal import answer
from indexer.errors import IndexerError
from indexer.probing.options import ProbeOptions
from indexer.progress import Progress
from indexer.text import count_of
from service.errors import needs_extra

if TYPE_CHECKING:
    from indexer.probing.prober import ProbeReport


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the file, the contact and which endpoints are visited."""
    add_flags(parser, ProbeOptions)
    add_artifacts_option(parser, "where the endpoints are published")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")


def run(options: argparse.Namespace) -> int:
    """Probe, and print the numbers of observations."""
    try:
        from indexer.probing.prober import probe  # noqa: PLC0415  # needs httpx
    except ImportError as error:
        raise IndexerError(needs_extra("visiting endpoints", "indexer")) from error
    probe_options = ProbeOptions(artifacts=options.artifacts, **given(options, ProbeOptions))
    report = probe(probe_options, Progress(quiet=options.quiet))
    return 0 if options.quiet else answer(_describe(report))


def _describe(report: ProbeReport) -> str:
    counts = ", ".join(f"{count:,} {name}" for name, count in report.outcomes.most_common())
    observed = count_of(report.outcomes.total(), "endpoint")
    total = f"observed {observed} of {count_of(report.hosts, 'host')}"
    lines = [f"{total}: {counts or 'none is due'}"]
    if report.recent:
        lines.append(f"observed by an earlier run, within --every: {report.recent:,}")
    if report.postponed:
        lines.append(
            f"left to the next run: {report.postponed:,}, whose host asks to wait, has stopped "
            "answering, or took all of its time"
        )
    return "\n".join(lines)


PROBE = Command(
    "visit the listed endpoints unpaid, and write what they answer",
    (
        "probe --out probes.jsonl --contact https://catalogue.example/probes",
        "probe --out probes.jsonl --contact operator@catalogue.example --every 12h --post",
    ),
    add_options,
    run,
)
