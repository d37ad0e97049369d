"""`build`: builds a snapshot from sources, publishes it and reports."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path

import msgspec

from indexer.build import build_snapshot
from indexer.cli.command import add_publishing_options
from indexer.cli.options.engine import add_engine_options, add_loading_options, parse_cluster
from indexer.cli.options.ranking import add_ranking_options, parse_ranking
from indexer.cli.terminal import announce
from indexer.errors import Misuse
from indexer.options import ARTIFACTS, BuildOptions, Kind, Limits, Policy
from indexer.progress import Progress
from indexer.report import Report
from indexer.sources.catalogue_file import name_source
from indexer.sources.rejects import MAX_EXAMPLES, Tally
from indexer.text import one_line
from service.publishing.artifacts import KEPT

SUMMARY = "build a snapshot from sources and publish it"
EXAMPLES: tuple[str, ...] = (
    "build seeds/services.jsonl",
    "build services.jsonl --transactions 'payments/*.parquet'",
    "build https://feed.example/discovery/resources --rejects bad.jsonl",
)

SHORTEST_STAGE = 0.1  # seconds
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a build."""
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="a file, folder or http(s) URL of services or of x402 discovery resources, as JSON "
        "lines, a JSON array or an envelope, plain or gzip; - for standard input; later sources "
        "replace services of earlier ones",
    )
    parser.add_argument(
        "--transactions",
        action="extend",
        nargs="+",
        default=[],
        metavar="FILE",
        help="payments as CSV, JSON lines or Parquet, plain or compressed; patterns as well",
    )
    parser.add_argument(
        "--overlay",
        action="extend",
        nargs="+",
        default=[],
        metavar="FILE",
        help="JSON merge patches by service id, over whatever the sources say",
    )
    parser.add_argument(
        "--out", type=Path, default=ARTIFACTS, help="where to publish (%(default)s)"
    )
    parser.add_argument(
        "--rejects", type=Path, metavar="FILE", help="list rejected records here, as JSON lines"
    )
    parser.add_argument(
        "--max-rejects",
        type=_share,
        default="1%",
        metavar="SHARE",
        help="refuse to publish when more of one source is malformed (%(default)s)",
    )
    parser.add_argument(
        "--max-price",
        type=_price,
        default="10000",
        metavar="AMOUNT",
        help="leave out discovered endpoints that charge more, in units of the currency "
        "(%(default)s)",
    )
    parser.add_argument(
        "--allow-http", action="store_true", help="keep discovered resources that are not encrypted"
    )
    parser.add_argument(
        "--allow-private",
        action="store_true",
        help="keep discovered resources at private addresses",
    )
    parser.add_argument(
        "--allow-private-feeds",
        action="store_true",
        help="read feeds whose host name resolves to a private address",
    )
    parser.add_argument(
        "--feed-seconds",
        type=_positive,
        default="600",
        metavar="SECONDS",
        help="give up a feed that takes longer (%(default)s)",
    )
    parser.add_argument(
        "--feed-bytes",
        type=_positive,
        default=str(4 * 2**30),
        metavar="BYTES",
        help="give up a feed that is longer, decompressed (%(default)s)",
    )
    add_ranking_options(parser)
    parser.add_argument(
        "--no-endpoints",
        action="store_false",
        dest="endpoints",
        help="do not index the texts of endpoints: no search for endpoints finds any by words",
    )
    parser.add_argument(
        "--jobs",
        type=_positive,
        metavar="N",
        help="use at most N processes to index (as many as there are CPUs available)",
    )
    parser.add_argument(
        "--memory",
        type=_size,
        metavar="SIZE",
        help="plan for this much memory, such as 2G (what is available)",
    )
    parser.add_argument(
        "--from-scratch",
        action="store_true",
        help="derive everything anew, and nothing from what the last build kept",
    )
    parser.add_argument(
        "--keep",
        type=_positive,
        default=str(KEPT),
        metavar="N",
        help="number of snapshots that stay on disk (%(default)s)",
    )
    parser.add_argument(
        "--no-downloads",
        action="store_false",
        dest="downloads",
        help="make no archives of the snapshot, which downloads and replicas need",
    )
    add_publishing_options(parser)
    add_engine_options(parser)
    add_loading_options(parser)
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    parser.add_argument("--json", action="store_true", help="report in JSON, on standard output")


def run(options: argparse.Namespace) -> int:
    """Build, and print the report; a published snapshot is a success without it, too."""
    if options.publish and not options.downloads:
        raise Misuse("--publish pushes the downloads of a snapshot: leave --no-downloads out")
    build_options = BuildOptions(
        sources=(
            *(name_source(name) for name in options.sources),
            *(name_source(name, Kind.PAYMENTS) for name in options.transactions),
            *(name_source(name, Kind.OVERLAY) for name in options.overlay),
        ),
        out=options.out,
        rejects=options.rejects,
        max_rejects=options.max_rejects,
        policy=Policy(options.max_price, options.allow_http, options.allow_private),
        limits=Limits(
            seconds=options.feed_seconds,
            bytes=options.feed_bytes,
            allow_private=options.allow_private_feeds,
        ),
        ranking=parse_ranking(options),
        jobs=options.jobs,
        memory=options.memory,
        endpoints=options.endpoints,
        from_scratch=options.from_scratch,
        keep=options.keep,
        publish=tuple(options.publish),
        sign=options.sign,
        downloads=options.downloads,
        cluster=parse_cluster(options),
    )
    report = build_snapshot(build_options, Progress(quiet=options.quiet or options.json))
    if options.json:
        announce(msgspec.json.encode(report))
    elif not options.quiet:
        announce("\n".join(_describe(report, options.out)))
    return 0


def _describe(report: Report, artifacts: Path) -> Iterator[str]:
    """Yield the lines of a report for a person."""
    for tally in report.sources:
        yield from _describe_source(tally)
    yield from (f"  {reject.fate} {reject}" for reject in report.first_rejects)
    if report.rejects > (shown := len(report.first_rejects)):
        yield f"  and {report.rejects - shown:,} more; --rejects FILE lists them all"
    yield from (f"note: {note}" for note in report.notes)
    yield from _describe_some("overlay for an unknown id:", report.unused_overlays)
    yield from _describe_some("suspicious price:", [*map(str, report.suspicious_prices)])
    if report.changed and (changes := report.changes):
        counts = f"{changes.added:,} added, {changes.changed:,} changed"
        yield f"since the last snapshot: {counts}, {changes.removed:,} removed"
    stages = {name: taken for name, taken in report.stages.items() if taken >= SHORTEST_STAGE}
    if len(stages) > 1:
        yield ", ".join(f"{name} {taken:.1f} s" for name, taken in stages.items())
    if report.segments:
        known = f"{report.reused_records:,} known records"
        anew = f"{report.indexed:,} of {report.services:,} services indexed anew"
        merged = f", {report.merged} were merged" if report.merged else ""
        segments = f"{report.segments} segment{'s' * (report.segments != 1)}"
        yield f"{known}; {anew}; {segments}{merged}"
    counts = f"{report.services:,} services, {report.endpoints:,} endpoints"
    if report.resources:
        counts += f", {report.resources:,} listed resources"
    size = _format_size(report.bytes)
    yield f"encoder: {report.encoder or 'none; ranked by words alone'}"
    yield from map(str, report.pushed)
    if report.loaded:
        yield f"cluster: {_format_size(report.loaded)} of postings, without replicas"
    if report.downloads:
        patches = f", {_format_size(report.patches)} of patches" if report.patches else ""
        yield f"downloads: {_format_size(report.downloads)}{patches}"
    yield f"{counts}, {report.payments:,} payments; {size} in {report.seconds:.1f} s"
    verb = "published" if report.changed else "nothing changed; still serving"
    yield f"{verb} {artifacts}/snapshots/{report.snapshot}"


def _describe_source(tally: Tally) -> Iterator[str]:
    counts = [f"{count:,} {kind}" for kind, count in (tally.left_out | tally.noted).items()]
    parts = [f"{tally.records:,} records", f"{tally.malformed:,} rejected", *counts]
    yield f"{tally.source}: {', '.join(parts)}"
    if len(tally.reasons) > 1:
        for reason, count in list(tally.reasons.items())[:MAX_EXAMPLES]:
            yield f"  {count:,} × {reason}"


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


def _share(text: str) -> Fraction:
    try:
        share = Fraction(text.removesuffix("%")) / 100
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if not text.endswith("%") or not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"expected a percentage such as 1%, got {text!r}")
    return share


def _price(text: str) -> Decimal:
    try:
        price = Decimal(text)
    except InvalidOperation:
        price = Decimal("NaN")
    if not price.is_finite() or price < 0:
        raise argparse.ArgumentTypeError(f"expected an amount such as 100, got {text!r}")
    return price


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text!r}")
    return int(text)


def _size(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,9})([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(f"expected a size such as 512M or 2G, got {text!r}")
    return int(match[1]) * UNITS[match[2].upper()]
