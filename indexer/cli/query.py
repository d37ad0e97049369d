"""`query`: asks the Whoosh index of the published snapshot."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

import msgspec
from msgspec import Struct
from whoosh.qparser import FieldsPlugin, MultifieldParser

from indexer.cli.options import Command, add_artifacts_option
from indexer.cli.terminal import answer
from indexer.errors import IndexerError, Misuse
from indexer.text import shorten
from indexer.whoosh_index import FIELDS, SCHEMA, open_whoosh_index
from service.errors import REBUILD
from service.snapshot.snapshot import Snapshot, open_snapshot


class Match(Struct):
    """A service that matches."""

    id: str
    name: str


class QueryMatches(Struct):
    """The services that match, best first, and how many there are without a limit."""

    total: int
    services: list[Match]


_INCOMPLETE = re.compile(r"(?:^|\()\s*(AND|OR)\b|\b(AND|OR|NOT)\s*(?:\)|$)|\b\w+:(?=[\s)]|$)")
STEMS = "; patterns are compared with the stems of words: `forecast*` finds forecasting"

_match = msgspec.json.Decoder(Match)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the query and the form of the answer."""
    parser.add_argument(
        "words",
        nargs="+",
        metavar="QUERY",
        help="words, which all must match; NAME:WORD for one of the fields id, name, description "
        "and category; AND, OR, NOT, parentheses; * and ? for any characters",
    )
    parser.add_argument("--limit", type=_count, metavar="N", help="how many at most (all)")
    add_artifacts_option(parser, "where they are published")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--ids", action="store_true", help="print ids alone")
    form.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Print the services that match, best first."""
    query = parse_query(" ".join(options.words))
    snapshot = open_snapshot(options.artifacts)
    ids = _search(snapshot, options, query)
    shown = [_read(snapshot, each) for each in ids[: options.limit]]
    if options.json:
        return answer(msgspec.json.encode(QueryMatches(len(ids), shown)))
    if not shown:
        hint = STEMS if any(set("*?").intersection(word) for word in options.words) else ""
        print(f"no service matches{hint}", file=sys.stderr)  # noqa: T201  # lists of ids stay empty
        return 0
    width = max(len(each.id) for each in shown)
    lines = [
        each.id if options.ids else f"{each.id:<{width}}  {shorten(each.name)}" for each in shown
    ]
    return answer("\n".join(lines))


def parse_query(text: str) -> Any:
    """Parse a query in the language of Whoosh; raises Misuse for what the index cannot answer."""
    name = f"{shorten(text)!r} is no query"
    if '"' in text:
        raise Misuse(f"{name}: the index has no phrases; write the words without double quotes")
    if text.count("(") != text.count(")") or _INCOMPLETE.search(text):
        raise Misuse(f"{name}: a parenthesis is missing, or a word beside AND, OR, NOT or a field")
    parser = MultifieldParser(FIELDS, SCHEMA)
    parser.replace_plugin(FieldsPlugin(remove_unknown=False))
    try:
        query = parser.parse(text)
        fields = {leaf.field() for leaf in query.leaves()}
    except Exception as error:  # the parsers of the distributions raise any where a text is odd
        raise Misuse(f"{name}: {error}") from error
    if unknown := fields - {None, "id", *FIELDS}:
        raise Misuse(f"{name}: no field {shorten(min(unknown))!r}; id, {', '.join(FIELDS)} are")
    return query


def _search(snapshot: Snapshot, options: argparse.Namespace, query: Any) -> list[str]:
    """Return the ids of all services that match: by their score, then by id."""
    with open_whoosh_index(options.artifacts, snapshot.id).searcher() as searcher:
        hits = [(-hit.score, hit["id"]) for hit in searcher.search(query, limit=None)]
    return [service_id for _, service_id in sorted(hits)]


def _read(snapshot: Snapshot, service_id: str) -> Match:
    record = snapshot.find(service_id)
    if record is None:
        raise IndexerError(
            f"the Whoosh index has {shorten(service_id)}, and the snapshot has not; {REBUILD}"
        )
    return _match.decode(record)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a number from 1, got {text!r}")
    return int(text)


QUERY = Command(
    "list the services that match a query in the language of Whoosh",
    (
        "query 'description:premium AND category:data'",
        "query 'name:weather* NOT id:*-example' --ids",
        "query category:gambling --json | jq -c '.services[] | {(.id): null}' > removals.json",
    ),
    add_options,
    run,
)
