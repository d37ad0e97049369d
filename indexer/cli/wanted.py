"""`wanted`: writes what clients searched for and no listing answers well."""

from __future__ import annotations

import argparse
import html
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import ip_address
from unicodedata import normalize
from urllib.parse import parse_qs

import msgspec

from indexer.cli.options import Command, add_artifacts_option
from indexer.cli.terminal import answer
from indexer.errors import IndexerError, Misuse
from indexer.index.fit import LEAST_QUESTIONS
from indexer.intake.lists import read_records
from indexer.text import count_of, drop_ignorable
from service.schema.discovery import PREFIXES
from service.snapshot.snapshot import open_snapshot

PATHS = ("/", "/endpoints", "/v1/search/services", "/v1/services/search", "/v1/search/endpoints")
SEARCHES = dict.fromkeys(PATHS, ("q", "offset"))
SEARCHES |= {f"{prefix}/discovery/search": ("query", "cursor") for prefix in PREFIXES}
"""The parameters of searches by route: the words, and the place of a page after the first."""
FREQUENT = """\
SELECT query, count(DISTINCT client) AS clients, count(*) AS requests, min(words) AS words
FROM log GROUP BY query HAVING clients >= ? ORDER BY clients DESC, requests DESC, query"""
"""The least spelling has the most capitals, at which a search cuts identifiers."""


class LogEntry(msgspec.Struct):
    """A line that `service/http/logs.py:access_record` makes."""

    client: str
    method: str
    target: str
    route: str
    status: int
    query: str = ""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the files, the least number of clients and the form of the answer."""
    parser.add_argument("logs", nargs="+", metavar="LOG", help="access log, or gzip; - for stdin")
    text = "leave out queries of fewer clients (%(default)s)"
    parser.add_argument("--at-least", type=int, default=10, metavar="N", help=text)
    add_artifacts_option(parser, "where the listings are published")
    parser.add_argument("--html", action="store_true", help="print a list for a page instead")


def run(options: argparse.Namespace) -> int:
    """Print the queries that no listing answers well, those of most clients first."""
    if options.at_least < 2:
        raise Misuse("--at-least: give 2 or more; what one client asks may be about a person")
    snapshot, tally, rows = open_snapshot(options.artifacts), Counter[str](), []
    try:
        database = sqlite3.connect("")  # a file without a name
        database.execute("CREATE TABLE log (query TEXT, words TEXT, client BLOB)")
        for log in options.logs:
            database.executemany("INSERT INTO log VALUES (?, ?, ?)", read_searches(log, tally))
        ((total, clients),) = database.execute("SELECT count(*), count(DISTINCT client) FROM log")
        database.row_factory = sqlite3.Row
        for row in map(dict, database.execute(FREQUENT, (min(options.at_least, sys.maxsize),))):
            tally["frequent"] += 1
            hits = snapshot.search(row.pop("words"), limit=1)
            if hits.warning or not hits.total:
                rows.append({**row, "fit": hits.fit, "first": next(iter(hits.ids), None)})
    except sqlite3.Error as error:
        raise IndexerError(f"the searches cannot be kept on disk: {error}") from error
    note = f"{count_of(total, 'search request')} of {count_of(clients, 'client')}; "
    fit = tally["frequent"] - len(rows)
    note += f"queries of {options.at_least:,} clients or more: {tally['frequent']:,}, "
    note += f"of which {fit:,} fit; "
    if snapshot.manifest.threshold is None:
        note += f"the catalogue is too small to judge what fits: under {LEAST_QUESTIONS} texts; "
    note += f"left out {tally['others']:,} of {tally['lines']:,} lines, "
    note += "which are not of the log of RATECARD_LOG_REQUESTS"
    print(note, file=sys.stderr)  # noqa: T201  # standard output has the queries alone
    if clients == 1:
        raise IndexerError("all are of one client; behind a gateway, set --forwarded-allow-ips")
    if not options.html:
        return max((answer(msgspec.json.encode(row)) for row in rows), default=0)
    item = "<li><bdi>{}</bdi> <small>{:,} clients</small></li>"
    items = [item.format(html.escape(row["query"]), row["clients"]) for row in rows]
    return answer("\n".join(['<ul class="wanted">', *items, "</ul>"]))


def read_searches(log: str, tally: Counter[str]) -> Iterator[tuple[str, str, bytes]]:
    """Yield query, words and client of each answered first page; count the lines."""
    for record in read_records(log, is_lines=True, max_items=sys.maxsize):
        tally["lines"] += 1
        try:
            entry = msgspec.json.decode(record.text, type=LogEntry)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            tally["others"] += 1
            continue
        if entry.status == 200 and entry.method != "HEAD":
            fold = _fold if len(entry.target) < 2000 else _fold.__wrapped__  # to bound the cache
            query, words = fold(entry.route, entry.target, entry.query)
            if query:
                yield query, words, _network_of(entry.client)


@lru_cache(2**15)
def _fold(route: str, target: str, words: str) -> tuple[str, str]:
    """Return the folded query and the words of a first page; the query is empty without any."""
    name, place = SEARCHES.get(route, ("", ""))
    given = parse_qs(target.partition("?")[2]) if name else {}
    words = "" if given.get(place, ["0"])[0].strip("0") else words or given.get(name, [""])[0]
    text = normalize("NFKC", drop_ignorable(words)).casefold()
    return " ".join("".join(each if each.isprintable() else " " for each in text).split()), words


@lru_cache(2**15)
def _network_of(address: str) -> bytes:
    """Return an IPv4 address or the network of an IPv6 one, the same for all other texts."""
    try:  # IPv4 may be written as IPv6
        return ip_address(address).packed.removeprefix(bytes(10) + b"\xff\xff")[:8]
    except ValueError:
        return b""


WANTED = Command(
    "write what clients searched for and no listing answers well",
    ("wanted access.log access.log.*.gz > wanted.jsonl", "wanted access.log --at-least 25 --html"),
    add_options,
    run,
)
