"""Payments: rows of payment files, validated, cast to exact numbers and deduplicated."""

from __future__ import annotations

import glob
from datetime import datetime, timedelta
from pathlib import Path

from duckdb import DuckDBPyConnection

from indexer.errors import IndexerError
from indexer.paymentfile import COLUMNS, ENCLOSED, LINES, PaymentFile, open_payment_file
from indexer.rejects import Reject, Rejects, Tally

MAX_DECIMALS = 18
MAX_DOLLARS = 10**12
CLOCK_SKEW = timedelta(hours=1)
SUCCESSES = "('true', 't', '1')"
FORTUNE = f"base::DOUBLE / pow(10, places) > {MAX_DOLLARS}"

# The column at fault, the condition in SQL, and the reason in words, but for the first, which the
# row itself tells; the first that holds counts.
FAULTS = (
    ("", "broken IS NOT NULL", ""),
    ("chain", "chain IS NULL", "is missing"),
    ("block_timestamp", "block_timestamp IS NULL", "is missing"),
    ("block_timestamp", "moment IS NULL", "is not a date and time such as `2026-05-07T10:16:51Z`"),
    ("block_timestamp", "moment < 0", "is before 1970"),
    ("block_timestamp", "moment > getvariable('latest')", "is more than an hour in the future"),
    ("sender", "sender IS NULL", "is missing"),
    ("recipient", "recipient IS NULL", "is missing"),
    ("amount", "coalesce(amount, dollars) IS NULL", "is missing"),
    ("amount", "amount IS NOT NULL AND base IS NULL", "is not a whole number of base units"),
    ("dollars", "base IS NULL", "is not a decimal of at most 6 places, from 0, without exponent"),
    ("decimals", "amount IS NOT NULL AND decimals IS NULL", "is missing"),
    ("decimals", "places IS NULL", f"is not a whole number from 0 to {MAX_DECIMALS}"),
    ("amount", f"amount IS NOT NULL AND {FORTUNE}", "is over 10^12 US dollars"),
    ("dollars", FORTUNE, "is over 10^12 US dollars"),
    ("log_index", "log_index IS NOT NULL AND event IS NULL", "is not a whole number"),
)
CONDITIONS = " ".join(f"WHEN {condition} THEN {n}" for n, (_, condition, _) in enumerate(FAULTS))
POWERS = f"[{', '.join(f'{10**power}::HUGEINT' for power in range(MAX_DECIMALS + 1))}]"

SCHEMA = f"""
SET TimeZone = 'UTC';
CREATE TABLE texts (
    file INTEGER, row BIGINT, broken VARCHAR, {", ".join(f"{column} VARCHAR" for column in COLUMNS)}
);
CREATE MACRO plain_address(text) AS
    CASE WHEN starts_with(text, '0x') THEN lower(text) ELSE text END;
"""

JUDGED = f"""
CREATE TABLE judged AS
SELECT
    * REPLACE (
        plain_address(tx_hash) AS tx_hash, plain_address(sender) AS sender,
        plain_address(recipient) AS recipient, plain_address(address) AS address,
        plain_address(transaction_from) AS transaction_from,
        plain_address(token_address) AS token_address
    ),
    CASE WHEN regexp_full_match(block_timestamp, '\\d{{4}}-\\d\\d-\\d\\d[T ]\\d\\d:\\d\\d.*')
        THEN epoch_ms(try_cast(block_timestamp AS TIMESTAMPTZ)) END AS moment,
    CASE WHEN amount IS NULL AND regexp_full_match(dollars, '\\d{{1,20}}(\\.\\d{{1,6}}0*)?')
            THEN (dollars::DECIMAL(38, 6) * 1000000)::HUGEINT
        WHEN regexp_full_match(amount, '\\d{{1,38}}') THEN try_cast(amount AS HUGEINT)
        END AS base,
    CASE WHEN amount IS NULL THEN 6
        WHEN regexp_full_match(decimals, '\\d\\d?') AND decimals::INTEGER <= {MAX_DECIMALS}
        THEN decimals::INTEGER END AS places,
    CASE WHEN regexp_full_match(log_index, '\\d{{1,18}}') THEN log_index::BIGINT END AS event,
    broken IS NULL AND coalesce(lower(success) NOT IN {SUCCESSES}, false) AS failed,
    CASE WHEN failed THEN NULL {CONDITIONS} END AS fault
FROM texts
"""  # noqa: S608  # made of constants

# A row without a transaction is no duplicate of any other.
PAYMENTS = f"""
CREATE TABLE payments AS
SELECT *, base * {POWERS}[{MAX_DECIMALS + 1} - places] AS atto
FROM judged
WHERE fault IS NULL AND NOT failed
QUALIFY tx_hash IS NULL OR 1 = row_number() OVER (
    PARTITION BY lower(chain), tx_hash, event,
        CASE WHEN event IS NULL THEN (sender, recipient, base, places) END
    ORDER BY file, row
)
"""  # noqa: S608  # made of constants


def load_payments(
    connection: DuckDBPyConnection,
    names: list[str],
    staging: Path,
    rejects: Rejects,
    now: datetime,
) -> None:
    """Create the table `payments` from these files, each copied to the staging folder for a while.

    Of its columns `moment` is in milliseconds since 1970, `base` in base units of a token with
    `places` decimals, `atto` in 10^-18 US dollars, `event` is the log index. Raises SourceError
    when a file is missing, unreadable or lacks a column, and IndexerError or duckdb.Error when
    there is no room to work in.
    """
    connection.execute(SCHEMA)
    files = []
    for number, name in enumerate(names):
        files.append(open_payment_file(name, staging / f"payments-{number}"))
        _read(connection, number, files[-1])
    tallies = [rejects.tally(file.name) for file in files]
    latest = int((now + CLOCK_SKEW).timestamp() * 1000)
    connection.execute("SET VARIABLE latest = ?", [latest])
    connection.execute(JUDGED)
    for number, row, payment_id, fault, broken in connection.execute(
        "SELECT file, row, coalesce(id, tx_hash), fault, broken FROM judged "
        "WHERE fault IS NOT NULL ORDER BY file, row"
    ).fetchall():
        file, (column, _, reason) = files[number], FAULTS[fault]
        reject = Reject(file.name, f"line {row}", payment_id, _path(file, column), broken or reason)
        rejects.malformed(tallies[number], reject)
    connection.execute(PAYMENTS)
    _count(connection, tallies)


def _read(connection: DuckDBPyConnection, number: int, file: PaymentFile) -> None:
    """Read the rows of one file into `texts`, and remove its copy."""
    connection.execute(
        f"CREATE OR REPLACE TABLE lines AS SELECT text FROM read_csv(?, {LINES})",  # noqa: S608  # a constant
        [glob.escape(str(file.copy))],
    )
    file.copy.unlink()
    ((lines,),) = connection.execute("SELECT count(*) FROM lines").fetchall()
    if lines != file.lines:  # whatever the reason, rows were lost
        raise IndexerError(f"{file.name}: {lines:,} of its {file.lines:,} lines could be read")
    connection.execute(
        f"INSERT INTO texts BY NAME SELECT ?::INTEGER AS file, * FROM ({file.query})",  # noqa: S608  # made by us
        [number],
    )
    if file.quoted:
        connection.execute(ENCLOSED, {"file": number})
    connection.execute("DROP TABLE lines")


def _path(file: PaymentFile, column: str) -> str:
    """The JSON path of a column under the name that the file has for it."""
    if column == "amount" and column not in file.given and "dollars" in file.given:
        column = "dollars"  # either will do; this is the one that the file should have filled
    return f"$.{file.given.get(column, COLUMNS[column][0])}" if column else "$"


def _count(connection: DuckDBPyConnection, tallies: list[Tally]) -> None:
    judged = connection.execute(
        "SELECT file, count(*), count(*) FILTER (WHERE failed), count(fault) "
        "FROM judged GROUP BY file"
    ).fetchall()
    kept = dict(connection.execute("SELECT file, count(*) FROM payments GROUP BY file").fetchall())
    for number, rows, failed, faulty in judged:
        tally = tallies[number]
        tally.records += rows
        tally.left_out["failed payments"] += failed
        tally.left_out["duplicate payments"] += rows - failed - faulty - kept.get(number, 0)
