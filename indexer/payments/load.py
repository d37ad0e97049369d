"""Payments: rows of payment files, validated, cast to exact numbers and deduplicated."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from indexer.errors import IndexerError
from indexer.payments.columns import COLUMNS
from indexer.payments.file import PaymentFile, open_payment_file
from indexer.payments.rules import (
    BLANK,
    DUPLICATE,
    ENCLOSED,
    FAILED,
    FAULTS,
    JUDGED,
    MAX_DECIMALS,
    POWERS,
    SHOWN,
    TRANSACTION,
)
from indexer.snapshot.ecosystem import NEWEST
from indexer.sources.rejects import Reject, Rejects

CLOCK_SKEW = timedelta(hours=1)
MEMORY = "1GB"
MOST_THREADS = 4  # each takes its share of the memory
BATCH = 10_000

# Of all rows only what is counted is kept; texts are read again of those that are shown: to store
# them would take longer than all else. Texts that are compared stand as 128 bits of their hash. Two
# different ones meet by chance in one of 10^23 histories of ten million payments, and who crafts
# two that do can make one of their own payments, or of their addresses, no more. The number of a
# row is its `rowid`, since rows are inserted in order and none is ever deleted.
SCHEMA = f"""
SET TimeZone = 'UTC';
SET memory_limit = '{MEMORY}';
SET preserve_insertion_order = true;
CREATE TABLE rows (
    file INTEGER,
    fault TINYINT,
    unclosed BOOLEAN,
    moment BIGINT,
    atto HUGEINT,
    transaction UHUGEINT USING COMPRESSION uncompressed,
    sender UHUGEINT USING COMPRESSION uncompressed,
    recipient UHUGEINT USING COMPRESSION uncompressed
);
CREATE TABLE enclosed (row BIGINT, opening BIGINT);
CREATE TABLE wanted (row BIGINT);
CREATE TABLE details (
    file INTEGER, row BIGINT, fault TINYINT, broken VARCHAR,
    moment BIGINT, base HUGEINT, places TINYINT, event BIGINT,
    {", ".join(f"{column} VARCHAR" for column in SHOWN)}
);
CREATE MACRO plain_address(text) AS
    CASE WHEN starts_with(text, '0x') THEN lower(text) ELSE text END;
CREATE VIEW payments AS
    SELECT rowid AS row, file, moment, atto, transaction, sender, recipient
    FROM rows WHERE fault IS NULL;
"""  # noqa: S608  # made of constants

INSERT = f"""
INSERT INTO rows
SELECT $file, fault, unclosed, moment,
    CASE WHEN fault IS NULL THEN base * CASE places WHEN 6 THEN {10**12}::HUGEINT
        ELSE {POWERS}[{MAX_DECIMALS + 1} - places] END END,
    CASE WHEN fault IS NULL AND tx_hash IS NOT NULL THEN md5_number({TRANSACTION}) END,
    CASE WHEN fault IS NULL THEN md5_number(sender) END,
    CASE WHEN fault IS NULL THEN md5_number(recipient) END
FROM ({JUDGED})
"""  # noqa: S608  # made of constants

DETAIL = f"""
INSERT INTO details
SELECT $file, $start + row, fault, broken, moment, base, places, event, {", ".join(SHOWN)}
FROM ({JUDGED})
"""  # noqa: S608  # made of constants

# Lines between two that each have a quote too many are text of one value to a reader of CSV. They
# may look like payments, and who wrote that text would decide what was paid: none of them counts.
ENCLOSED_LINES = """
INSERT INTO enclosed
SELECT unnest(range(opening + 1, closing)), opening
FROM (
    SELECT rowid AS opening, lead(rowid, 1, $end) OVER (ORDER BY rowid) AS closing,
        row_number() OVER (ORDER BY rowid) AS number
    FROM rows WHERE file = $file AND unclosed
)
WHERE number % 2 = 1
"""
ENCLOSE = f"""
UPDATE rows SET fault = {ENCLOSED} FROM enclosed
WHERE rows.rowid = enclosed.row AND fault IS DISTINCT FROM {BLANK}
"""  # noqa: S608  # made of constants

# A row without a transaction is no duplicate of any other.
DEDUPLICATE = f"""
UPDATE rows SET fault = {DUPLICATE} FROM (
    SELECT transaction, min(row) AS row FROM payments
    WHERE transaction IS NOT NULL GROUP BY transaction HAVING count(*) > 1
) AS first
WHERE rows.transaction = first.transaction AND rows.rowid <> first.row AND fault IS NULL
"""  # noqa: S608  # made of constants

WANTED = f"""
INSERT INTO wanted
SELECT rowid FROM rows WHERE fault >= 0 OR fault = {ENCLOSED}
UNION ALL SELECT row FROM payments WHERE moment >= (
    SELECT min(moment) FROM (SELECT moment FROM payments ORDER BY moment DESC LIMIT {NEWEST})
)
"""  # noqa: S608  # made of constants

COUNTS = f"""
SELECT file, count(*) FILTER (fault IS DISTINCT FROM {BLANK}),
    count(*) FILTER (fault = {FAILED}), count(*) FILTER (fault = {DUPLICATE})
FROM rows GROUP BY file
"""  # noqa: S608  # made of constants

REJECTED = """
SELECT file, row, coalesce(id, tx_hash), opening, fault, broken
FROM details LEFT JOIN enclosed USING (row)
WHERE fault >= 0 OR opening IS NOT NULL
ORDER BY row
"""


def load_payments(
    connection: DuckDBPyConnection,
    names: list[str],
    staging: Path,
    rejects: Rejects,
    now: datetime,
) -> None:
    """Create the tables `payments` and `details` from these files, copied to staging for a while.

    Of `payments`, `row` is the order in which they came, `moment` is in milliseconds since 1970,
    `atto` in 10^-18 US dollars, and `sender` and `recipient` are `md5_number` of a plain address.
    `details` has the texts of the newest 10,000, and those of rejected rows; there `base` is in
    base units of a token with `places` decimals, and `event` is the log index.
    Raises SourceError when a file is missing, unreadable or lacks a column,
    and IndexerError or duckdb.Error when there is no room to work in.
    """
    connection.execute("SET temp_directory = ?", [str(staging / "payments.tmp")])
    connection.execute(f"SET threads = {min(MOST_THREADS, os.cpu_count() or 1)}")
    connection.execute(SCHEMA)
    latest = int((now + CLOCK_SKEW).timestamp() * 1000)
    files: list[PaymentFile] = []
    starts = [0]
    for number, name in enumerate(names):
        file = open_payment_file(connection, name, staging / f"payments-{number}")
        values = {"file": number, "latest": latest, "path": glob.escape(str(file.copy))}
        _execute(connection, file, INSERT.replace("{rows}", file.query), values)
        ((rows,),) = connection.execute("SELECT count(*) FROM rows").fetchall()
        if rows != starts[-1] + file.rows:  # whatever the reason, some were lost
            read = rows - starts[-1]
            raise IndexerError(f"{file.name}: {read:,} of {file.rows:,} {file.unit}s could be read")
        connection.execute(ENCLOSED_LINES, {"file": number, "end": rows})
        files.append(file)
        starts.append(rows)
    for query in (ENCLOSE, DEDUPLICATE, WANTED):
        connection.execute(query)
    for number, file in enumerate(files):
        _detail(connection, file, {"file": number, "latest": latest, "start": starts[number]})
        file.copy.unlink()
    _report(connection, files, starts, rejects)


def _execute(
    connection: DuckDBPyConnection, file: PaymentFile, query: str, values: dict[str, object]
) -> None:
    try:
        connection.execute(query, values)
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        raise IndexerError(f"the payments of {file.name} cannot be counted: {reason}") from error


def _detail(connection: DuckDBPyConnection, file: PaymentFile, values: dict[str, object]) -> None:
    """Read the wanted rows of one file again."""
    source = file.copy
    if file.lines is not None:
        source = file.copy.with_name(f"{file.copy.name}-picked")
        start = values["start"]
        wanted = connection.execute(
            "SELECT row - $start FROM wanted WHERE row - $start BETWEEN 0 AND $last ORDER BY row",
            {"start": start, "last": file.rows - 1},
        )
        file.lines.pick(_numbers(wanted), source)
    values["path"] = glob.escape(str(source))
    _execute(connection, file, DETAIL.replace("{rows}", file.picked_query), values)
    if file.lines is not None:
        source.unlink()


def _numbers(cursor: DuckDBPyConnection) -> Iterator[int]:
    while batch := cursor.fetchmany(BATCH):
        yield from (number for (number,) in batch)


def _report(
    connection: DuckDBPyConnection, files: list[PaymentFile], starts: list[int], rejects: Rejects
) -> None:
    tallies = [rejects.tally(file.name) for file in files]
    for number, rows, failed, duplicates in connection.execute(COUNTS).fetchall():
        tallies[number].records += rows
        tallies[number].left_out["failed payments"] += failed
        tallies[number].left_out["duplicate payments"] += duplicates
    cursor = connection.execute(REJECTED)
    while batch := cursor.fetchmany(BATCH):
        for number, row, payment_id, opening, fault, broken in batch:
            file, first = files[number], starts[number] - 1
            column, reason = "", broken
            if opening is not None:
                reason = f"is within a quoted value that starts on line {opening - first}"
            elif fault > 0:
                column, _, reason = FAULTS[fault]
            position = f"{file.unit} {row - first}"
            reject = Reject(file.name, position, payment_id, _path(file, column), reason)
            rejects.malformed(tallies[number], reject)


def _path(file: PaymentFile, column: str) -> str:
    """The JSON path of a column under the name that the file has for it."""
    if column == "amount" and column not in file.given and "dollars" in file.given:
        column = "dollars"  # either will do; this is the one that the file should have filled
    return f"$.{file.given.get(column, COLUMNS[column][0])}" if column else "$"
