"""`check`: reads sources and reports, as a build does that publishes nothing."""

from __future__ import annotations

import argparse

from indexer.build import check_sources
from indexer.cli.build import add_report_options, print_report
from indexer.cli.options.sources import add_source_options, parse_reading
from indexer.options import BuildOptions
from indexer.progress import Progress

SUMMARY = "read sources and report, and publish nothing"
EXAMPLES: tuple[str, ...] = ("check catalogue.toml", "check services.jsonl --rejects bad.jsonl")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the sources, their options and the form of the report."""
    add_source_options(parser)
    add_report_options(parser)


def run(options: argparse.Namespace) -> int:
    """Check the sources, and print the report."""
    build_options = BuildOptions(**parse_reading(options))
    progress = Progress(quiet=options.quiet or options.json)
    print_report(check_sources(build_options, progress), options, build_options.out)
    return 0
