"""`why`: says why a URL, or a record of a source, is listed or not."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import msgspec
from msgspec import UNSET

from indexer.cli.options import Command, add_artifacts_option, command_line
from indexer.cli.terminal import answer
from indexer.errors import IndexerError, Misuse
from indexer.text import printable, shorten
from service.api.listings import explain_url
from service.errors import InvalidParameter
from service.schema.listings import ListingFate, ListingReport
from service.snapshot.listings import position_hash
from service.snapshot.snapshot import Snapshot, open_snapshot
from service.urls import MAX_URL


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the URL, or else the source and the position of a record."""
    parser.add_argument("url", nargs="?", metavar="URL", help="the URL of an endpoint")
    parser.add_argument("--source", metavar="NAME", help="the source of a record, as in reports")
    parser.add_argument("--position", metavar="P", help="the position of the record, as in reports")
    add_artifacts_option(parser, "where the snapshot is published")
    parser.add_argument("--json", action="store_true", help="answer as `/v1/listings` does")


def run(options: argparse.Namespace) -> int:
    """Say why something is listed or not; raises IndexerError where no source names it."""
    snapshot = open_snapshot(options.artifacts)
    report = _explain(snapshot, options)
    return answer(msgspec.json.encode(report) if options.json else "\n".join(_lines(report)))


def _explain(snapshot: Snapshot, options: argparse.Namespace) -> ListingReport:
    place = options.source, options.position
    if options.url is not None and place == (None, None):
        try:
            return explain_url(snapshot, options.url)
        except InvalidParameter as error:
            raise Misuse(f"{shorten(options.url)}: {str(error).removeprefix('url ')}") from error
    if options.url is not None or None in place:
        raise Misuse("expected a URL, or --source and --position of a record; give one of both")
    report = snapshot.listings.explain(position_hash(printable(options.source), options.position))
    if not report.is_named:
        raise IndexerError(
            f"{shorten(options.source)}:{shorten(options.position)}: nothing is known of this "
            "record; names and positions are those of `build` and `--rejects`, and a record with a "
            f"URL is found by that\n  for example: {command_line(options, 'why', 'URL')}"
        )
    return report


def _lines(report: ListingReport) -> Iterator[str]:
    title = shorten(report.url, MAX_URL)
    verdict = "listed" if report.listed else "not listed"
    if report.template is not UNSET:
        verdict = f"listed as the template {shorten(report.template, MAX_URL)}"
    yield f"{title}: {verdict}".removeprefix(": ")
    for fate in report.fates:
        yield f"  {_describe(fate)}"
    for note in report.notes:
        yield f"  note: {_describe(note)}"
    for advice in report.advice:
        yield f"  advice: {advice.text}"


def _describe(fate: ListingFate) -> str:
    where = "" if fate.service is UNSET else f" as {fate.service}"
    number = "" if fate.endpoint is UNSET else f", endpoint {fate.endpoint}"
    facts = [fate.path, fate.reason]
    reason = ": ".join(shorten(each) for each in facts if each is not UNSET)
    return f"{fate.source}: {fate.fate}{where}{number}{reason and f': {reason}'}"


WHY = Command(
    "say why a URL, or a record of a source, is listed or not",
    (
        "why https://api.tidewatch.example/v1/tides",
        "why --source seeds/services.jsonl --position 3",
    ),
    add_options,
    run,
)
