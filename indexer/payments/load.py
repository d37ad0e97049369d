"""Loading: the rows of payment files validated, parsed exactly and deduplicated."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from indexer.errors import IndexerError, SourceError
from indexer.payments import parquet, rules, text_files
from indexer.payments.columns import COLUMNS
from indexer.payments.files import PaymentFile, link_or_spool, read_start, read_version
from indexer.payments.rules import BLANK, DUPLICATE, ENCLOSED, FAILED, FAULTS
from indexer.snapshot.ecosystem import NEWEST
from indexer.sources.rejects import Reject, Rejects
from indexer.text import printable

CLOCK_SKEW = timedelta(hours=1)
BATCH = 10_000
ZSTANDARD_MAGIC = b"\x28\xb5\x2f\xfd"

# `rows` has a row for each row of the files, in order. No row is ever deleted, so that `rowid` is
# the index of a row among all.
# Storing texts would take most of the time of loading. So `rows` has 128-bit hashes of them, and
# `details` has the texts of wanted rows only: rejects and the newest payments. Among ten million
# payments two texts collide with a probability below 10^-24. MD5 collisions can be constructed,
# but an attacker gains nothing: two payments, or two addresses, of their own count as one.
TEXTS = ("id", "chain", *rules.ADDRESSES, "provider", "facilitator_id")
SCHEMA = f"""
SET TimeZone = 'UTC';
SET preserve_insertion_order = true;
CREATE TABLE rows (
    file INTEGER,
    fault TINYINT,
    unclosed BOOLEAN,
    paid_at BIGINT,
    atto HUGEINT,
    transaction UHUGEINT USING COMPRESSION uncompressed,
    sender UHUGEINT USING COMPRESSION uncompressed,
    recipient UHUGEINT USING COMPRESSION uncompressed
);
CREATE TABLE enclosed (row BIGINT, opening BIGINT);
CREATE TABLE wanted (row BIGINT);
CREATE TABLE details (
    row BIGINT, file INTEGER, fault TINYINT, damage VARCHAR,
    paid_at BIGINT, base_units HUGEINT, decimal_places TINYINT, event_index BIGINT,
    {", ".join(f"{column} VARCHAR" for column in TEXTS)}
);
CREATE VIEW payments AS
    SELECT rowid AS row, file, paid_at, atto, transaction, sender, recipient
    FROM rows WHERE fault IS NULL;
"""  # noqa: S608  # made of constants

ROW = """
    $file, fault, unclosed, paid_at,
    CASE WHEN fault IS NULL THEN atto_dollars(base_units, decimal_places) END,
    md5_number(transaction_key(
        chain, tx_hash, event_index, sender, recipient, base_units, decimal_places
    )),
    md5_number(sender),
    md5_number(recipient)
"""
DETAIL = f"""
    $start + row, $file, fault, damage, paid_at, base_units, decimal_places, event_index,
    {", ".join(TEXTS)}
"""

# A line with an odd number of quotes opens or closes a quoted value of several lines. The lines in
# between are text of that value. They may look like payments, so that counting them would let the
# author of the text forge payments.
FIND_ENCLOSED = """
INSERT INTO enclosed
SELECT unnest(range(opening + 1, closing)), opening
FROM (
    SELECT rowid AS opening, lead(rowid, 1, $stop) OVER (ORDER BY rowid) AS closing,
        row_number() OVER (ORDER BY rowid) AS number
    FROM rows WHERE file = $file AND unclosed
)
WHERE number % 2 = 1
"""
REJECT_ENCLOSED = f"""
UPDATE rows SET fault = {ENCLOSED} FROM enclosed
WHERE rows.rowid = enclosed.row AND fault IS DISTINCT FROM {BLANK}
"""  # noqa: S608  # made of constants

# Rows without a transaction hash are never duplicates.
DEDUPLICATE = f"""
UPDATE rows SET fault = {DUPLICATE} FROM (
    SELECT transaction, min(row) AS row FROM payments
    WHERE transaction IS NOT NULL GROUP BY transaction HAVING count(*) > 1
) AS original
WHERE rows.transaction = original.transaction AND rows.rowid <> original.row AND fault IS NULL
"""  # noqa: S608  # made of constants

SELECT_WANTED = f"""
INSERT INTO wanted
SELECT rowid FROM rows WHERE fault >= 0 OR fault = {ENCLOSED}
UNION ALL SELECT row FROM payments WHERE paid_at >= (
    SELECT min(paid_at) FROM (SELECT paid_at FROM payments ORDER BY paid_at DESC LIMIT {NEWEST})
)
"""  # noqa: S608  # made of constants
SELECT_PICKS = """
CREATE OR REPLACE TEMP TABLE picks AS
SELECT row - $start AS row FROM wanted WHERE row BETWEEN $start AND $start + $rows - 1
"""

COUNTS = f"""
SELECT file, count(*) FILTER (fault IS DISTINCT FROM {BLANK}),
    count(*) FILTER (fault = {FAILED}), count(*) FILTER (fault = {DUPLICATE})
FROM rows GROUP BY file
"""  # noqa: S608  # made of constants
REJECTED = """
SELECT file, row, coalesce(id, tx_hash), opening, fault, damage
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
    """Load files into the view `payments` and the table `details`, and report their rejects.

    payments: `row` is the index among the rows of all files, `paid_at` is in milliseconds since
        1970, `atto` in 10^-18 US dollars; `sender` and `recipient` are hashes,
        `md5_number(canonical_address(text))`
    details: the texts of rejected rows and of at least the newest 10,000 payments; the amount is
        `base_units` / 10^`decimal_places` tokens

    Raises SourceError when a file is missing, unreadable, lacks a column or changes while it is
    read, and IndexerError or duckdb.Error when memory or disk space runs out.
    """
    for script in (SCHEMA, rules.MACROS, text_files.MACROS, parquet.MACROS):
        connection.execute(script)
    latest = int((now + CLOCK_SKEW).timestamp() * 1000)
    files: list[PaymentFile] = []
    start = 0
    for index, source in enumerate(names):
        if files:
            _remove_copy(files[-1])
        path, name = staging / f"payments-{index}", printable(source)
        link_or_spool(source, name, path)
        version = read_version(path)
        file = _recognise(connection, name, path)
        file.index, file.start, file.version = index, start, version
        _load_rows(connection, file, latest)
        files.append(file)
        start += file.rows
    for query in (REJECT_ENCLOSED, DEDUPLICATE, SELECT_WANTED):
        connection.execute(query)
    for file in reversed(files):  # the copy of the last file still exists
        _load_details(connection, file, latest)
    _report(connection, files, rejects)


def _recognise(connection: DuckDBPyConnection, name: str, path: Path) -> PaymentFile:
    content = read_start(name, path)
    if content.startswith(ZSTANDARD_MAGIC):
        raise SourceError(f"{name}: is compressed with zstd; give <(zstd -dc {name}) instead")
    if content.startswith(parquet.MAGIC):
        return parquet.open_parquet_file(connection, name, path)
    return text_files.open_text_file(name, path)


def _load_rows(connection: DuckDBPyConnection, file: PaymentFile, latest: int) -> None:
    query = f"INSERT INTO rows {_select(file.all_rows, file.staged, ROW)}"
    count = _insert(connection, file, query, {"latest": latest})
    if count != file.rows:  # a lost row would shift the line numbers of all later rows
        _check_version(file)
        raise IndexerError(f"{file.name}: {count:,} of {file.rows:,} {file.unit}s could be read")
    connection.execute(FIND_ENCLOSED, {"file": file.index, "stop": file.start + count})


def _load_details(connection: DuckDBPyConnection, file: PaymentFile, latest: int) -> None:
    rows = {"start": file.start, "rows": file.rows}
    ((count,),) = connection.execute(SELECT_PICKS, rows).fetchall()
    if count:
        if file.copy is not None and not file.copy.exists():
            text_files.copy_lines(file.name, file.path, file.copy)
        query = f"INSERT INTO details {_select(file.picked_rows, file.staged, DETAIL)}"
        _insert(connection, file, query, {"latest": latest, "start": file.start})
    _check_version(file)
    _remove_copy(file)
    file.path.unlink()


def _check_version(file: PaymentFile) -> None:
    if file.version != read_version(file.path):
        raise SourceError(
            f"{file.name}: changed while it was read; build again when it is complete"
        )


def _remove_copy(file: PaymentFile) -> None:
    """Remove the copy of a file, so that the disk never holds two copies."""
    if file.copy is not None:
        file.copy.unlink(missing_ok=True)


def _select(source: str, staged: str, columns: str) -> str:
    return f"WITH {source}, {staged}, {rules.STAGES} SELECT {columns} FROM judged"  # noqa: S608  # ours


def _insert(
    connection: DuckDBPyConnection, file: PaymentFile, query: str, values: dict[str, int]
) -> int:
    """Insert rows that are read from a file; returns their number."""
    try:
        ((count,),) = connection.execute(query, values | {"file": file.index}).fetchall()
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        raise IndexerError(f"the payments of {file.name} cannot be counted: {reason}") from error
    return int(count)


def _report(connection: DuckDBPyConnection, files: list[PaymentFile], rejects: Rejects) -> None:
    tallies = [rejects.tally(file.name) for file in files]
    for index, rows, failed, duplicates in connection.execute(COUNTS).fetchall():
        tallies[index].records += rows
        tallies[index].left_out["failed payments"] += failed
        tallies[index].left_out["duplicate payments"] += duplicates
    cursor = connection.execute(REJECTED)
    while batch := cursor.fetchmany(BATCH):
        for index, row, payment_id, opening, fault, damage in batch:
            file = files[index]
            shift = file.first_number - file.start
            column, reason = "", damage
            if opening is not None:
                reason = f"is within a quoted value that starts on line {opening + shift}"
            elif fault > 0:
                column, _, reason = FAULTS[fault]
            position, path = f"{file.unit} {row + shift}", _path(file.columns, column)
            reject = Reject(file.name, position, payment_id, path, reason)
            rejects.malformed(tallies[index], reject)


def _path(names: dict[str, str], column: str) -> str:
    """Return the JSON path of a column by its name in the file."""
    if column == "amount" and column not in names and "dollars" in names:
        column = "dollars"
    return f"$.{names.get(column, COLUMNS[column][0])}" if column else "$"
