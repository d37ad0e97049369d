"""`python -m indexer`: build a snapshot from sources, verify one, or judge how search ranks."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from indexer.catalogue import Catalogue, Entry
from indexer.compile import compile_postings
from indexer.ecosystem import write_ecosystem
from indexer.errors import IndexerError
from indexer.evaluate import evaluate
from indexer.evaluation import summarise_evaluation
from indexer.narrowing import write_narrowing
from indexer.normalise import Faulty, given_id, normalise
from indexer.prior import prior_of
from indexer.publish import identify, list_files, publish, reuse, stage
from indexer.rejects import Reject, Rejects, collect_rejects, printable
from indexer.report import Outcome, summarise_build
from indexer.sources import expand, read_records
from indexer.store import write_ids, write_store
from indexer.summaries import summarise_services
from indexer.textindex import read_texts, write_text_index
from service.errors import SnapshotUnavailable
from service.records import Counts
from service.snapshot import (
    FORMAT,
    SNAPSHOTS,
    Manifest,
    Snapshot,
    Source,
    open_snapshot,
    read_current,
    verify,
)
from service.store import Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def build(options: argparse.Namespace) -> int:
    """Build a snapshot and say what came of it; returns the exit status."""
    started = time.monotonic()
    inputs = [*expand(options.sources), *options.transactions]
    with stage(options.out) as staging, collect_rejects(options.rejects, inputs) as rejects:
        manifest, changed = build_within(staging, options, rejects)
    outcome = Outcome(manifest, changed, time.monotonic() - started)
    _say(summarise_build(outcome, rejects, options.out))
    return 0  # published, whether or not anybody could be told


def build_snapshot(options: argparse.Namespace, rejects: Rejects) -> tuple[Manifest, bool]:
    """Build a snapshot under a lock of its own; returns whether anything changed."""
    with stage(options.out) as staging:
        return build_within(staging, options, rejects)


def build_within(
    staging: Path, options: argparse.Namespace, rejects: Rejects
) -> tuple[Manifest, bool]:
    """Read, validate, normalise, order, write, publish; returns whether anything changed."""
    now = datetime.now(UTC)
    with (staging / "spool").open("wb") as spool:
        catalogue = Catalogue(spool)
        read_catalogue(catalogue, expand(options.sources), rejects)
        listing = catalogue.order(rejects)
        built = staging / "snapshot"
        built.mkdir()
        write_store(built, "records", catalogue.texts(listing))
        write_ids(built, [listed.id for listed in listing])
        with open_payments(staging, options.transactions, rejects, now) as payments:
            payment_count = write_ecosystem(built / "ecosystem", payments)
        rejects.check(options.max_rejects)

        served = list_files(built)
        snapshot_id = identify(served)
        published = reuse(options.out, snapshot_id)
        if published is not None:
            return published, False

        index_services(built, [listed.entry for listed in listing])
        endpoint_count = sum(listed.entry.endpoints for listed in listing)
        manifest = Manifest(
            format=FORMAT,
            id=snapshot_id,
            built_at=now,
            counts=Counts(len(listing), endpoint_count, payment_count),
            sources=[Source(t.source, t.records, t.malformed) for t in rejects.tallies],
            files=list_files(built, known=served),
        )
        publish(options.out, built, manifest)
        return manifest, True


def index_services(built: Path, entries: list[Entry]) -> None:
    """Write what listing and search need besides the stored services, whose entries these are."""
    services = Store(built, "records")
    write_store(built, "summaries", summarise_services(services))
    write_narrowing(built / "narrowing", services, [entry.calls for entry in entries])
    write_text_index(built / "whoosh", read_texts(services))
    names = [name for name, _, _ in read_texts(services)]
    prior = np.array([prior_of(entry.enriched, entry.calls) for entry in entries])
    compile_postings(built / "whoosh", names, prior, built / "postings")


def read_catalogue(catalogue: Catalogue, names: list[str], rejects: Rejects) -> None:
    """Add the valid records of these files to the catalogue, and the others to the rejects."""
    for number, name in enumerate(names):
        tally = rejects.tally(name)
        for record in read_records(name):
            tally.records += 1
            try:
                catalogue.add(number, record.position, normalise(record))
            except Faulty as fault:
                given = given_id(record.text)
                reject = Reject(name, record.position, given, fault.path, fault.reason)
                rejects.malformed(tally, reject)


@contextmanager
def open_payments(
    staging: Path, names: list[str], rejects: Rejects, now: datetime
) -> Iterator[DuckDBPyConnection | None]:
    """The table of payments from these files, or None without files.

    DuckDB is imported here, so that a catalogue without payments builds without it.
    """
    if not names:
        yield None
        return
    try:
        import duckdb  # noqa: PLC0415  # see above

        from indexer.payments import load_payments  # noqa: PLC0415  # see above
    except ImportError as error:
        raise IndexerError(
            "payments are read by DuckDB, which is not installed: pip install 'ratecard[indexer]'"
        ) from error

    database = str(staging / "payments.duckdb")
    if "?" in database or printable(database) != database:  # to DuckDB it is a URL, or no name
        raise IndexerError(
            f"{printable(database)}: DuckDB cannot work under this name; choose another --out, "
            "in UTF-8 and without a question mark"
        )
    try:
        with duckdb.connect(database) as connection:
            load_payments(connection, names, staging, rejects, now)
            yield connection
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        raise IndexerError(f"the payments cannot be counted: {reason}") from error


def verify_published(options: argparse.Namespace) -> int:
    """Check the published snapshot against its manifest; returns the exit status."""
    snapshot_id, _ = read_current(options.artifacts)
    manifest = verify(options.artifacts / SNAPSHOTS / snapshot_id)
    whole = f"snapshot {snapshot_id} is whole: {len(manifest.files)} files as they were published"
    return 0 if _say(whole) else 1


def evaluate_ranking(options: argparse.Namespace) -> int:
    """Judge search on a corpus, through the code of a build and of a request."""
    with tempfile.TemporaryDirectory(prefix="ratecard-") as folder:

        def build_corpus(records: Iterator[bytes]) -> Snapshot:
            source, artifacts = Path(folder) / "corpus.jsonl", Path(folder) / "artifacts"
            source.write_bytes(b"\n".join(records))
            none_malformed = argparse.Namespace(
                sources=[str(source)], transactions=[], out=artifacts, max_rejects=Fraction(0)
            )
            build_snapshot(none_malformed, Rejects(None))
            return open_snapshot(artifacts)

        judgements = evaluate(options.corpus, options.queries, build_corpus)
    return 0 if _say(summarise_evaluation(judgements, options.worst, as_json=options.json)) else 1


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    options = parse_options(arguments)
    try:
        status: int = options.command(options)
    except IndexerError as error:
        return _fail(str(error), error.status)
    except SnapshotUnavailable as error:
        return _fail(str(error), 1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}; what was published before stays", 1)
    return status


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m indexer", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("build", help="build a snapshot from sources and publish it")
    command.set_defaults(command=build)
    command.add_argument(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="a file or folder of services as JSON lines, a JSON array or a list envelope, "
        "plain or gzip; - for standard input; later sources replace services of earlier ones",
    )
    command.add_argument(
        "--transactions",
        action="extend",
        nargs="+",
        default=[],
        metavar="FILE",
        help="payments as CSV or JSON lines, plain or gzip",
    )
    command.add_argument(
        "--out", type=Path, default=Path("artifacts"), help="where to publish (%(default)s)"
    )
    command.add_argument(
        "--rejects", type=Path, metavar="FILE", help="list rejected records here, as JSON lines"
    )
    command.add_argument(
        "--max-rejects",
        type=_share,
        default="1%",
        metavar="SHARE",
        help="refuse to publish when more of one source is malformed (%(default)s)",
    )
    command = commands.add_parser("evaluate", help="judge the ranking of a corpus by queries")
    command.set_defaults(command=evaluate_ranking)
    command.add_argument(
        "--corpus",
        required=True,
        metavar="FILE",
        help="JSON lines of documents: id, name, description, category",
    )
    command.add_argument(
        "--queries",
        required=True,
        metavar="FILE",
        help='JSON lines of queries: {"query":"...","relevant":{"document id":grade}}',
    )
    command.add_argument("--json", action="store_true", help="answer in JSON")
    command.add_argument(
        "--worst", type=int, default=0, metavar="N", help="show the N queries that fared worst"
    )
    command = commands.add_parser("verify", help="check the published snapshot")
    command.set_defaults(command=verify_published)
    command.add_argument("artifacts", nargs="?", type=Path, default=Path("artifacts"))
    return parser.parse_args(arguments)


def _share(text: str) -> Fraction:
    try:
        share = Fraction(text.removesuffix("%")) / 100
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if not text.endswith("%") or not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"expected a percentage such as 1%, got {text!r}")
    return share


def _say(text: str) -> bool:
    """Print what a command found; returns whether it could be: what it did is done."""
    try:
        print(text, flush=True)
    except OSError as error:
        print(f"warning: the summary cannot be printed: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else exiting fails too
        return False
    return True


def _fail(message: str, status: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    if isinstance(sys.stdout, TextIOWrapper):  # a terminal may not have every letter of a name
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(main())
