"""Loading: the rows of payment files validated, parsed exactly and deduplicated."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
from duckdb import DuckDBPyConnection

from indexer.assets.stablecoins import KNOWN_STABLECOINS, Stablecoins
from indexer.compressed import ZSTD_MAGIC
from indexer.errors import IndexerError, InvalidRecord, SourceError
from indexer.intake.findings import Findings
from indexer.intake.records import source_errors
from indexer.payments import parquet, rules, text_files
from indexer.payments.columns import COLUMNS
from indexer.payments.exclusions import exclude_rows
from indexer.payments.files import (
    PaymentFile,
    PaymentInput,
    link_or_spool,
    read_start,
    read_version,
)
from indexer.payments.rules import BLANK, ENCLOSED, FAULTS, LEFT_OUT
from indexer.snapshot.ecosystem import NEWEST
from indexer.text import describe_encoding, printable

CLOCK_SKEW = timedelta(hours=1)
BATCH = 10_000

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
    stated_decimals TINYINT,
    network VARCHAR,
    transaction UHUGEINT USING COMPRESSION uncompressed,
    event_index BIGINT,
    sender UHUGEINT USING COMPRESSION uncompressed,
    recipient UHUGEINT USING COMPRESSION uncompressed,
    token UHUGEINT
);
CREATE TABLE enclosed (row BIGINT, opening BIGINT);
CREATE TABLE wanted (row BIGINT);
CREATE TABLE details (
    row BIGINT, damage VARCHAR,
    paid_at BIGINT, base_units HUGEINT, decimal_places TINYINT, event_index BIGINT,
    {", ".join(f"{column} VARCHAR" for column in TEXTS)}
);
CREATE VIEW payments AS
    SELECT rowid AS row, file, paid_at, atto, network, transaction, event_index, sender, recipient,
        token
    FROM rows WHERE fault IS NULL;
"""  # noqa: S608  # made of constants

ROW = """
    $file, fault, unclosed, paid_at,
    CASE WHEN fault IS NULL THEN atto_dollars(base_units, decimal_places) END,
    CASE WHEN amount IS NOT NULL THEN decimal_places END,
    network,
    md5_number(network || ' ' || tx_hash),
    event_index,
    md5_number(sender),
    md5_number(recipient),
    md5_number(token_address)
"""
DETAIL = f"""
    $start + row, damage, paid_at, base_units, decimal_places, event_index,
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
SELECT file, fault, count(*) FROM rows WHERE fault IS DISTINCT FROM {BLANK}
GROUP BY file, fault ORDER BY file, fault DESC
"""  # noqa: S608  # made of constants
REJECTED = """
SELECT file, row, coalesce(id, tx_hash), opening, fault, damage
FROM details JOIN rows ON rows.rowid = row LEFT JOIN enclosed USING (row)
WHERE fault >= 0 OR opening IS NOT NULL
ORDER BY row
"""


def load_payments(
    connection: DuckDBPyConnection,
    inputs: Sequence[PaymentInput],
    staging: Path,
    findings: Findings,
    now: datetime,
    stablecoins: Stablecoins = KNOWN_STABLECOINS,
) -> None:
    """Load files into the view `payments` and the table `details`, and report their findings.

    payments: `row` is the index among the rows of all files, `file` that among the inputs;
        `paid_at` is in milliseconds since 1970, `atto` in 10^-18 US dollars; `network` is the text
        that `service.networks.network_key` returns; `transaction` is a hash of network and
        transaction hash, or null; `sender`, `recipient` and `token` are hashes,
        `md5_number(canonical_address(text))`, and `token` is null where the row names none
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
    for index, source in enumerate(inputs):
        if files:
            _remove_copy(files[-1])
        path = staging / f"payments-{index}"
        link_or_spool(source, path)
        version = read_version(path)
        if _is_parquet(source, path):
            file = parquet.open_parquet_file(connection, source, path)
        else:
            file = text_files.open_text_file(source, path)
        file.index, file.start, file.version = index, start, version
        _load_rows(connection, file, latest)
        files.append(file)
        start += file.rows
    connection.execute(REJECT_ENCLOSED)
    exclude_rows(connection, stablecoins)
    connection.execute(SELECT_WANTED)
    for file in reversed(files):  # the copy of the last file still exists
        _load_details(connection, file, latest)
    _report(connection, files, findings)


def check_files(inputs: Sequence[PaymentInput]) -> None:
    """Raise SourceError for a file that `load_payments` cannot read, by its beginning."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        connection: DuckDBPyConnection | None = None
        for index, source in enumerate(inputs):
            with source_errors(source.name):
                mode = Path(source.path).stat().st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                continue
            path = Path(folder) / str(index)
            link_or_spool(source, path)
            if _is_parquet(source, path):
                connection = connection or stack.enter_context(duckdb.connect())
                parquet.open_parquet_file(connection, source, path)
            else:
                text_files.check_text_file(source, path)


def _is_parquet(source: PaymentInput, path: Path) -> bool:
    content = read_start(source.name, path)
    if fault := describe_encoding(content[:2]):
        raise SourceError(f"{source.name}: {fault}")
    if content.startswith(ZSTD_MAGIC):
        instead = f"give <(zstd -dc {printable(source.path)}) instead"
        raise SourceError(f"{source.name}: is compressed with zstd; {instead}")
    return content.startswith(parquet.MAGIC)


def _load_rows(connection: DuckDBPyConnection, file: PaymentFile, latest: int) -> None:
    query = f"INSERT INTO rows {_select(file.all_rows, file.staged, ROW)}"
    count = _insert(connection, file, query, {"latest": latest, "file": file.index})
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
    try:
        ((count,),) = connection.execute(query, values).fetchall()
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        raise IndexerError(f"the payments of {file.name} cannot be counted: {reason}") from error
    return int(count)


def _report(connection: DuckDBPyConnection, files: list[PaymentFile], findings: Findings) -> None:
    tallies = [findings.tally(file.name) for file in files]
    for index, fault, count in connection.execute(COUNTS).fetchall():
        tallies[index].records += count
        if fault in LEFT_OUT:
            tallies[index].left_out[LEFT_OUT[fault]] += count
    cursor = connection.execute(REJECTED)
    while batch := cursor.fetchmany(BATCH):
        for index, row, payment_id, opening, code, damage in batch:
            file = files[index]
            shift = file.first_number - file.start
            column, reason = "", damage
            if opening is not None:
                reason = f"is within a quoted value that starts on line {opening + shift}"
            elif code > 0:
                column, _, reason = FAULTS[code]
            position, path = f"{file.unit} {row + shift}", _path(file.columns, column)
            fault = InvalidRecord(path, reason)
            findings.refuse(tallies[index], position, payment_id, fault)
    for tally in tallies:
        tally.published = tally.records - tally.malformed - sum(tally.left_out.values())


def _path(names: dict[str, str], column: str) -> str:
    """Return the JSON path of a column by its name in the file."""
    if column == "amount" and column not in names and "dollars" in names:
        column = "dollars"
    return f"$.{names.get(column, COLUMNS[column][0])}" if column else "$"
