"""The commands that ask of what is published, or withdraw it; each returns the exit status."""

from __future__ import annotations

import argparse
import re
import shlex
import tempfile
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from indexer.build import build_quietly, build_snapshot
from indexer.cli.report import encode_report, summarise_build
from indexer.cli.terminal import answer, answer_json, drawn, say
from indexer.errors import IndexerError, Misuse
from indexer.evaluation import summarise_evaluation
from indexer.options import ARTIFACTS, BuildOptions, Limits, Policy
from indexer.relevance import evaluate
from indexer.snapshot.compare import compare, find_snapshot, summarise_difference
from indexer.snapshot.rollback import roll_back
from indexer.text import shorten
from service.api import parameters as params
from service.api.listing import answer_listing
from service.api.parameters import Listing
from service.errors import InvalidParameter
from service.records import Service, ServiceList
from service.search.filters import NO_FILTERS
from service.snapshot.snapshot import SNAPSHOTS, Snapshot, open_snapshot, read_current, verify

if TYPE_CHECKING:  # what draws is needed only where something is drawn
    from rich.console import Console

COMPARED = 20_000  # in less than a second
MAX_ID = 256
SUGGESTED = 3
NARROWING = ("category", "network", "max_price")

_services = msgspec.json.Decoder(ServiceList)
_service = msgspec.json.Decoder(Service)


def build(options: argparse.Namespace) -> int:
    """Build a snapshot and print the report; returns the exit status."""
    build_options = BuildOptions(
        sources=tuple(options.sources),
        transactions=tuple(options.transactions),
        overlays=tuple(options.overlay),
        out=options.out,
        rejects=options.rejects,
        max_rejects=options.max_rejects,
        policy=Policy(options.max_price, options.allow_http, options.allow_private),
        limits=Limits(seconds=options.feed_seconds, bytes=options.feed_bytes),
        quiet=options.quiet,
        json=options.json,
    )
    report = build_snapshot(build_options)
    if options.json:
        say(encode_report(report))
    elif not options.quiet:
        say(summarise_build(report, options.out))
    return 0  # published, even when the report cannot be printed


def evaluate_ranking(options: argparse.Namespace) -> int:
    """Judge search on a corpus, through the code of a build and of a request."""
    with tempfile.TemporaryDirectory(prefix="ratecard-") as folder:

        def build_corpus(records: Iterator[bytes]) -> Snapshot:
            source, artifacts = Path(folder) / "corpus.jsonl", Path(folder) / "artifacts"
            source.write_bytes(b"\n".join(records))
            build_quietly(source, artifacts)
            return open_snapshot(artifacts)

        judgements = evaluate(options.corpus, options.queries, build_corpus)
    return answer(summarise_evaluation(judgements, options.worst, as_json=options.json))


def search_published(options: argparse.Namespace) -> int:
    """Search as a request would, or list where there are no words."""
    asked = _asked(options)
    snapshot = open_snapshot(options.artifacts)
    found = answer_listing(snapshot, asked)
    if options.json:
        return answer_json(found)

    def draw(console: Console) -> None:
        from indexer.cli.table import draw_results  # noqa: PLC0415  # it needs what draws

        page = _services.decode(found)
        if page.services:
            draw_results(console, page)
            console.print()
        for line in _summary(snapshot, asked, page, options):
            console.print(line, style="dim", soft_wrap=True)

    return answer(drawn(draw))


def show_published(options: argparse.Namespace) -> int:
    """Show one service; raises IndexerError, with ids near to it, where none has the id."""
    snapshot = open_snapshot(options.artifacts)
    text = snapshot.find(options.id)
    if text is None:
        raise IndexerError(_not_found(snapshot, options))
    if options.json:
        return answer_json(text)

    def draw(console: Console) -> None:
        from indexer.cli.detail import draw_card  # noqa: PLC0415  # it needs what draws

        draw_card(console, _service.decode(text))

    return answer(drawn(draw))


def verify_published(options: argparse.Namespace) -> int:
    """Check the published snapshot against its manifest."""
    snapshot_id, _ = read_current(options.artifacts)
    manifest = verify(options.artifacts / SNAPSHOTS / snapshot_id)
    count = len(manifest.files)
    return answer(f"snapshot {snapshot_id} is whole: {count} files as they were published")


def roll_back_published(options: argparse.Namespace) -> int:
    """Serve the snapshot before the one that is served now."""
    say(roll_back(options.artifacts))
    return 0  # done, whether or not anybody could be told


def diff_snapshots(options: argparse.Namespace) -> int:
    """Say what changed between two snapshots."""
    old, new = (find_snapshot(options.artifacts, name) for name in (options.old, options.new))
    return answer(summarise_difference(compare(old, new), as_json=options.json))


def _asked(options: argparse.Namespace) -> Listing:
    """What the request with the same parameters asks for; raises Misuse where that is refused."""
    given = [("q", " ".join(options.words))] if options.words else []
    given += [("category", value) for value in options.category]
    given += [("network", value) for value in options.network]
    given += [("maxPrice", options.max_price)] if options.max_price is not None else []
    given += [("sort", options.sort), ("limit", options.limit), ("offset", options.offset)]
    parse = params.search if options.words else params.listing
    try:
        asked, _ = parse(urlencode(given, errors="replace").encode())
    except InvalidParameter as error:
        name = {"q": "QUERY", "maxPrice": "--max-price"}.get(
            error.parameter, f"--{error.parameter}"
        )
        reason = str(error).removeprefix(error.parameter).lstrip()
        raise Misuse(f"{name} {reason}") from error
    return asked


def _summary(
    snapshot: Snapshot, asked: Listing, page: ServiceList, options: argparse.Namespace
) -> list[str]:
    """How many services there are, and what to ask next."""
    if not page.total:
        return _nothing(snapshot, asked, options)
    if not page.services:
        return [f"there are {page.total:,} services, of which --offset passes over all"]
    first, last = page.offset + 1, page.offset + len(page.services)
    counted = f"{page.total:,} service{'s' * (page.total != 1)}"
    if first > 1 or last < page.total:
        counted = f"{first:,}–{last:,} of {counted}"
    if last < page.total:
        counted += f"; --offset {last} has the next"
    return [counted, f"details: python -m indexer show {page.services[0].id}{_there(options)}"]


def _nothing(snapshot: Snapshot, asked: Listing, options: argparse.Namespace) -> list[str]:
    named = f" for {shorten(' '.join(options.words))!r}" if options.words else ""
    narrowed = [f"--{name.replace('_', '-')}" for name in NARROWING if getattr(options, name)]
    lines = [f"there is no service{named}"]
    if narrowed:
        wider = replace(asked, narrowing=NO_FILTERS)
        total = _services.decode(answer_listing(snapshot, wider)).total
        lines.append(f"without {' and '.join(narrowed)} there are {total:,}")
    elif options.words:
        lines.append(f"try other words, or list all: python -m indexer search{_there(options)}")
    return lines


def _not_found(snapshot: Snapshot, options: argparse.Namespace) -> str:
    """That no service has the id; which have one like it, or else its words."""
    best_known = snapshot.list(COMPARED).ids
    near = get_close_matches(options.id.lower()[:MAX_ID], best_known, SUGGESTED)
    if not near:
        words = " ".join(re.findall(r"[^\W_]+", options.id))[: params.MAX_QUERY]
        near = snapshot.search(words, SUGGESTED).ids
    said = f"no service has the id `{shorten(options.id)}`"
    if not near:
        return f"{said}\n  to find it: python -m indexer search{_there(options)}"
    said += f"; there is {', '.join(near)}"
    return f"{said}\n  for example: python -m indexer show {near[0]}{_there(options)}"


def _there(options: argparse.Namespace) -> str:
    """What a next command needs to ask the same catalogue."""
    artifacts = options.artifacts
    return "" if artifacts == ARTIFACTS else f" --artifacts {shlex.quote(str(artifacts))}"
