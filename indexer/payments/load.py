"""Loading: the rows of payment files validated, parsed exactly and deduplicated, in one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec import Struct

from indexer.errors import IndexerError, InvalidRecord, SourceError
from indexer.intake.findings import Findings
from indexer.intake.lists import source_errors
from indexer.options import SourceOptions
from indexer.payments import readers, rules
from indexer.payments.columns import COLUMNS
from indexer.payments.files import read_version, spool, sql_map
from indexer.payments.rules import FAULTS
from indexer.probes.verdicts import query_errors
from indexer.processes.resources import duckdb_memory
from indexer.progress import Progress
from indexer.resources.assets import KNOWN_STABLECOINS, Stablecoins, is_test_network
from indexer.text import printable

if TYPE_CHECKING:  # a catalogue without payments is built without DuckDB
    from duckdb import DuckDBPyConnection

MAX_MEMORY = 256 * 2**20  # bytes; DuckDB would keep all texts in more, and be no faster
THREAD_MEMORY = 128 * 2**20  # bytes; with less, reading Parquet can run out of memory
CLOCK_SKEW = timedelta(hours=1)
BATCH = 10_000

# `rows` has a row for each record of the files, in order. No row is ever deleted, so that `rowid`
# is the index of a row among all. Texts that are nearly all different are not compressed: trying to
# would take a third of the time of loading.
TYPES = {
    "file": "INTEGER",
    "fault": "TINYINT",
    "paid_at": "BIGINT",
    "atto": "HUGEINT",
    "stated_decimals": "TINYINT",
    "network": "VARCHAR",
    "event_index": "BIGINT",
    "tx_hash": "VARCHAR USING COMPRESSION uncompressed",
    "sender": "VARCHAR USING COMPRESSION uncompressed",
    "recipient": "VARCHAR USING COMPRESSION uncompressed",
    "transaction_from": "VARCHAR USING COMPRESSION uncompressed",
    "token_address": "VARCHAR",
    "id": "VARCHAR",
    "chain": "VARCHAR",
    "address": "VARCHAR",
    "provider": "VARCHAR",
    "facilitator_id": "VARCHAR",
}
VALUES = {
    "file": "$file",
    "atto": f"CASE WHEN fault IS NULL THEN base_units * {rules.UNITS} END",
    "stated_decimals": "CASE WHEN amount IS NOT NULL THEN decimal_places END",
}
SELECTED = ", ".join(f"{VALUES.get(name, name)} AS {name}" for name in TYPES)
SCHEMA = f"""
SET TimeZone = 'UTC';
SET preserve_insertion_order = true;
CREATE TABLE rows ({", ".join(f"{name} {kind}" for name, kind in TYPES.items())});
CREATE TABLE damages (file INTEGER, number BIGINT, reason VARCHAR, lines BIGINT);
CREATE VIEW payments AS
    SELECT rowid AS row, * EXCLUDE (fault, stated_decimals),
        coalesce(stated_decimals, 6) AS decimal_places,
        atto // {rules.UNITS} AS base_units
    FROM rows WHERE fault IS NULL;
"""  # noqa: S608  # made of constants
# Few combinations of network, token and decimals stand for all rows.
EXCLUDE = f"""
UPDATE rows SET fault = found FROM (
    SELECT *, CASE WHEN list_contains($test_networks, network) THEN {rules.TEST_NETWORK}
        WHEN token_address IS NULL THEN NULL WHEN coin IS NULL THEN {rules.UNKNOWN_TOKEN}
        WHEN NOT coin.is_usd THEN {rules.OTHER_CURRENCY}
        WHEN stated_decimals <> coin.places THEN {rules.WRONG_DECIMALS} END AS found
    FROM (SELECT *, coin(network, token_address) AS coin
        FROM (SELECT DISTINCT network, token_address, stated_decimals FROM rows))
) AS excluded
WHERE coalesce(rows.fault, {len(FAULTS)}) > found AND rows.network = excluded.network
    AND rows.token_address IS NOT DISTINCT FROM excluded.token_address
    AND rows.stated_decimals IS NOT DISTINCT FROM excluded.stated_decimals
"""  # noqa: S608  # made of constants
# Only the few rows that share a transaction are compared, found by hashes, which take less memory.
# A log index identifies a payment of a transaction. Without log index its parties and amount do,
# and a row is a duplicate of any row with them, so that exports with and without log indexes do not
# double. Rows without a transaction hash are never duplicates.
DEDUPLICATE = f"""
CREATE TEMP TABLE candidates AS
SELECT rowid AS row, network, tx_hash, event_index, sender, recipient, atto
FROM rows WHERE fault IS NULL AND hash(network, tx_hash) IN (
    SELECT hash(network, tx_hash) AS key FROM rows WHERE fault IS NULL AND tx_hash IS NOT NULL
    GROUP BY key HAVING count(*) > 1
);
UPDATE rows SET fault = {rules.DUPLICATE} FROM (
    FROM candidates ANTI JOIN (
        SELECT min(row) AS row FROM candidates WHERE event_index IS NOT NULL
        GROUP BY network, tx_hash, event_index
        UNION ALL
        SELECT min(row) FROM candidates
        GROUP BY network, tx_hash, sender, recipient, atto HAVING bool_and(event_index IS NULL)
    ) AS originals USING (row)
    WHERE tx_hash IS NOT NULL
) AS duplicate
WHERE rows.rowid = duplicate.row;
DROP TABLE candidates;
"""  # noqa: S608  # made of constants
COUNTS = "SELECT fault, count(*) FROM rows WHERE file = ? GROUP BY fault ORDER BY fault"
# Rows are numbered as in a spreadsheet, where a header is the first. A damaged row has no row in
# `rows`, and moves the numbers of all behind it.
REJECTED = f"""
WITH damaged AS (
    SELECT *, row_number() OVER (ORDER BY number) AS count FROM damages WHERE file = $file
),
gaps AS (SELECT number - count - $header AS row, max(count) AS count FROM damaged GROUP BY ALL),
faulty AS (
    SELECT rowid - $start AS row, fault, coalesce(id, tx_hash) AS id
    FROM rows WHERE file = $file AND fault IN {rules.REJECTS}
)
SELECT faulty.row + 1 + $header + coalesce(gaps.count, 0) AS number, fault, NULL AS reason, id,
    1 AS lines
FROM faulty ASOF LEFT JOIN gaps ON faulty.row >= gaps.row
UNION ALL SELECT number, NULL, reason, NULL, lines FROM damaged
ORDER BY number
"""  # noqa: S608  # made of constants


class LoadedFile(Struct):
    """A file in the table `rows`: its rows by `rowid`, and how it was read."""

    name: str
    start: int
    count: int
    reader: readers.Reader


def check_payment_files(inputs: Sequence[SourceOptions]) -> None:
    """Check the beginning of each file, before anything else is done; pipes are not read.

    Raises SourceError when a file is missing, unreadable, of no known format or lacks a column.
    """
    if not inputs:
        return
    with query_errors("payments", "counted"), TemporaryDirectory() as folder:
        for index, source in enumerate(inputs):
            path = Path(source.path)
            with source_errors(source.name):
                path.stat()
            if path.is_file() or path.is_dir():
                target = Path(folder) / str(index)
                readers.open_file(source, target, spool(source, target, 1))


@contextmanager
def open_payments(
    staging: Path,
    inputs: Sequence[SourceOptions],
    findings: Findings,
    now: datetime,
    progress: Progress,
    *,
    jobs: int,
    memory: int,
    stablecoins: Stablecoins = KNOWN_STABLECOINS,
) -> Iterator[DuckDBPyConnection | None]:
    """Load payment files into a database and yield a connection to it, or None without files.

    jobs: maximum number of threads
    memory: bytes for the whole build, of which DuckDB takes a share
    stablecoins: the tokens that count as dollars

    Raises IndexerError when DuckDB is missing or fails, what `load_payments` raises, and
    KeyboardInterrupt when Ctrl-C ends a query.
    """
    if not inputs:
        yield None
        return
    database = str(staging / "payments.duckdb")
    if "?" in database or printable(database) != database:
        raise IndexerError(  # DuckDB takes `?` for a part of a URL and refuses other encodings
            f"{printable(database)}: DuckDB cannot work under this name; choose another --out, "
            "in UTF-8 and without a question mark"
        )
    limit = min(duckdb_memory(memory), MAX_MEMORY)
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{limit}B",
        "threads": max(1, min(jobs, limit // THREAD_MEMORY)),
        "temp_directory": str(staging / "payments.tmp"),
    }
    with query_errors("payments", "counted"):
        import duckdb  # noqa: PLC0415  # optional

        with duckdb.connect(database, config=config) as connection:
            with progress.stage("count the payments"):
                load_payments(connection, inputs, staging, findings, now, stablecoins)
            yield connection


def load_payments(
    connection: DuckDBPyConnection,
    inputs: Sequence[SourceOptions],
    staging: Path,
    findings: Findings,
    now: datetime,
    stablecoins: Stablecoins = KNOWN_STABLECOINS,
) -> None:
    """Load files into the view `payments`, and report their findings.

    payments: `row` is the index among the rows of all files, `file` that among the inputs;
        `paid_at` is in milliseconds since 1970, `atto` in 10^-18 US dollars; `network` is the text
        that `service.networks.network_key` returns; the amount is `base_units` /
        10^`decimal_places` tokens; other columns are texts, null where the row has none

    Raises SourceError when a file is missing, unreadable, lacks a column or changes while it is
    read, and IndexerError or duckdb.Error when memory or disk space runs out.
    """
    coins = {
        " ".join(key): {"places": coin.decimals, "is_usd": coin.is_usd}
        for key, coin in stablecoins.assets.items()
    }
    kind = "STRUCT(places TINYINT, is_usd BOOLEAN)"
    macro = f"map_extract_value({sql_map(coins, kind)}, network || ' ' || token)"
    for script in (f"CREATE MACRO coin(network, token) AS {macro}", rules.MACROS, SCHEMA):
        connection.execute(script)
    latest = int((now + CLOCK_SKEW).timestamp() * 1000)
    files: list[LoadedFile] = []
    start = 0
    for index, source in enumerate(inputs):
        values = {"file": index, "latest": latest}
        files.append(_load(connection, source, staging / f"payments-{index}", start, values))
        start += files[-1].count
    networks = connection.execute("SELECT DISTINCT network FROM rows").fetchall()
    tests = [network for (network,) in networks if network and is_test_network(network)]
    connection.execute(EXCLUDE, {"test_networks": tests})
    connection.execute(DEDUPLICATE)
    for index, file in enumerate(files):
        _report(connection, index, file, findings)


def _load(
    connection: DuckDBPyConnection,
    source: SourceOptions,
    path: Path,
    start: int,
    values: dict[str, int],
) -> LoadedFile:
    """Insert the rows of a file, of which at most one copy is on the disk at a time."""
    version = read_version(source.path)
    reader = readers.open_file(source, path, spool(source, path))
    staged = reader.staged(tuple(COLUMNS))
    query = f"INSERT INTO rows WITH {staged}, {rules.STAGES} SELECT {SELECTED} FROM judged"  # noqa: S608  # ours
    ((count,),) = connection.execute(query, values).fetchall()
    if version != read_version(source.path):
        raise SourceError(
            f"{source.name}: changed while it was read; build again when it is complete"
        )
    if reader.is_csv:
        connection.execute(readers.DAMAGES, {"file": values["file"]})
        connection.execute("DROP TABLE reject_errors; DROP TABLE reject_scans")
    path.unlink()
    return LoadedFile(source.name, start, count, reader)


def _report(
    connection: DuckDBPyConnection, index: int, file: LoadedFile, findings: Findings
) -> None:
    """Report the rejected rows of a file in order; a damaged one counts for each of its lines."""
    tally = findings.tally(file.name)
    tally.records = file.count
    for fault, count in connection.execute(COUNTS, [index]).fetchall():
        if fault is not None and FAULTS[fault][0] is None:
            tally.left_out[FAULTS[fault][2]] += count
    values = {"file": index, "start": file.start, "header": int(file.reader.is_csv)}
    cursor = connection.execute(REJECTED, values)
    for number, fault, damage, payment_id, lines in chain.from_iterable(
        iter(partial(cursor.fetchmany, BATCH), [])
    ):
        column, _, reason = ("", "", damage) if fault is None else FAULTS[fault]
        place = _path(file.reader.columns, column or "")
        findings.refuse(tally, f"row {number}", payment_id, InvalidRecord(place, reason))
        tally.malformed += lines - 1
        tally.records += lines if damage else 0
    tally.published = tally.records - tally.malformed - sum(tally.left_out.values())


def _path(names: dict[str, str], column: str) -> str:
    """Return the JSON path of a column by its name in the file."""
    if column == "amount" and column not in names and "dollars" in names:
        column = "dollars"
    if not column:
        return "$"
    return f"$.{names.get(column, 'amount_usdc' if column == 'dollars' else column)}"
