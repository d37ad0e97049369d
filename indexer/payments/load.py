"""Loading: the rows of payment files validated, parsed exactly and deduplicated."""

from __future__ import annotations

import stat
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
from duckdb import DuckDBPyConnection
from msgspec import Struct

from indexer.errors import IndexerError, InvalidRecord, SourceError
from indexer.intake.findings import Findings, Tally
from indexer.intake.lists import source_errors
from indexer.payments import readers, rules
from indexer.payments.columns import COLUMNS
from indexer.payments.files import (
    Lines,
    PaymentInput,
    is_parquet,
    link_or_spool,
    prepare_text,
    read_head,
    read_version,
    sql_text,
)
from indexer.payments.readers import UNCLOSED, Damage, Reader
from indexer.payments.rules import (
    DUPLICATE,
    FAULTS,
    LEFT_OUT,
    OTHER_CURRENCY,
    TEST_NETWORK,
    UNKNOWN_TOKEN,
    WRONG_DECIMALS,
)
from indexer.resources.assets import KNOWN_STABLECOINS, Stablecoins, is_test_network

CLOCK_SKEW = timedelta(hours=1)
BATCH = 10_000

# `rows` has a row for each record of the files, in order. No row is ever deleted, so that `rowid`
# is the index of a row among all. Texts that are nearly all different are not compressed: trying to
# would take a third of the time of loading.
TYPES = {
    "file": "INTEGER",
    "fault": "TINYINT",
    "breaks": "INTEGER",
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
    "atto": "CASE WHEN fault IS NULL THEN atto_dollars(base_units, decimal_places) END",
    "stated_decimals": "CASE WHEN amount IS NOT NULL THEN decimal_places END",
}
SCHEMA = f"""
SET TimeZone = 'UTC';
SET preserve_insertion_order = true;
CREATE TABLE rows ({", ".join(f"{name} {kind}" for name, kind in TYPES.items())});
CREATE VIEW payments AS
    SELECT rowid AS row, * EXCLUDE (fault, breaks, stated_decimals),
        coalesce(stated_decimals, 6) AS decimal_places,
        whole_units(atto, coalesce(stated_decimals, 6)) AS base_units
    FROM rows WHERE fault IS NULL;
"""  # noqa: S608  # made of constants
SELECTED = ", ".join(f"{VALUES.get(name, name)} AS {name}" for name in TYPES)

# The amount of another token may exceed every bound of dollars, and is not judged.
_VALUE_FAULTS = tuple(
    code for code, (column, *_) in enumerate(FAULTS) if column in ("amount", "decimals", "dollars")
)
JUDGED = f"(fault IS NULL OR fault IN {_VALUE_FAULTS})"
NETWORKS = f"SELECT DISTINCT network FROM rows WHERE {JUDGED} AND network IS NOT NULL"  # noqa: S608  # made of constants
STABLECOINS = """
CREATE TEMP TABLE stablecoins (
    network VARCHAR, token_address VARCHAR, token_decimals TINYINT, is_usd BOOLEAN
)
"""
# Few combinations of network, token and decimals stand for all rows.
EXCLUDE = f"""
UPDATE rows SET fault = exclusion FROM (
    SELECT network, token_address, stated_decimals, CASE
        WHEN list_contains($test_networks, network) THEN {TEST_NETWORK}
        WHEN token_address IS NULL THEN NULL
        WHEN is_usd IS NULL THEN {UNKNOWN_TOKEN}
        WHEN NOT is_usd THEN {OTHER_CURRENCY}
        WHEN stated_decimals <> token_decimals THEN {WRONG_DECIMALS}
        END AS exclusion
    FROM (SELECT DISTINCT network, token_address, stated_decimals FROM rows WHERE {JUDGED})
    LEFT JOIN stablecoins USING (network, token_address)
) AS excluded
WHERE exclusion IS NOT NULL AND rows.network = excluded.network
    AND rows.token_address IS NOT DISTINCT FROM excluded.token_address
    AND rows.stated_decimals IS NOT DISTINCT FROM excluded.stated_decimals
    AND {JUDGED} AND (fault IS NULL OR exclusion < 0)
"""  # noqa: S608  # made of constants

# Only the few rows that share a transaction are compared, found by hashes, which take less memory.
# A log index identifies a payment of a transaction. Without log index its parties and amount do,
# and a row is a duplicate of any row with them, so that exports with and without log indexes do not
# double. Rows without a transaction hash are never duplicates.
CANDIDATES = """
CREATE TEMP TABLE candidates AS
SELECT rowid AS row, network, tx_hash, event_index, sender, recipient, atto
FROM rows WHERE fault IS NULL AND hash(network, tx_hash) IN (
    SELECT hash(network, tx_hash) AS key FROM rows WHERE fault IS NULL AND tx_hash IS NOT NULL
    GROUP BY key HAVING count(*) > 1
)
"""
DEDUPLICATE = f"""
UPDATE rows SET fault = {DUPLICATE} FROM (
    FROM candidates ANTI JOIN (
        SELECT min(row) AS row FROM candidates WHERE event_index IS NOT NULL
        GROUP BY network, tx_hash, event_index
        UNION ALL
        SELECT min(row) FROM candidates
        GROUP BY network, tx_hash, sender, recipient, atto HAVING bool_and(event_index IS NULL)
    ) AS originals USING (row)
    WHERE tx_hash IS NOT NULL
) AS duplicate
WHERE rows.rowid = duplicate.row
"""  # noqa: S608  # made of constants

COUNTS = """
SELECT file, fault, count(*) FROM rows GROUP BY file, fault ORDER BY file, fault DESC
"""
REJECTED = """
SELECT rowid, fault, coalesce(id, tx_hash) FROM rows WHERE file = $file AND fault >= 0
ORDER BY rowid
"""


class LoadedFile(Struct):
    """A file in the table `rows`.

    start, count: its rows, by `rowid`
    head: the number of the line above its first row
    gaps: the numbers of lines that are no rows: blank ones, and damaged ones
    """

    name: str
    columns: dict[str, str]
    start: int
    count: int
    unit: str = "row"
    head: int = 0
    gaps: list[int] = []
    damages: list[Damage] = []

    def number(self, row: int) -> int:
        """Return the number of the line, the record or the row at an index among the rows."""
        number = self.head + row + 1
        return number + bisect_right([gap - index for index, gap in enumerate(self.gaps)], number)


def load_payments(
    connection: DuckDBPyConnection,
    inputs: Sequence[PaymentInput],
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
    for script in (rules.MACROS, readers.MACROS, _known_decimals(stablecoins), SCHEMA):
        connection.execute(script)
    latest = int((now + CLOCK_SKEW).timestamp() * 1000)
    files: list[LoadedFile] = []
    start = 0
    for index, source in enumerate(inputs):
        values = {"file": index, "latest": latest}
        files.append(_load_file(connection, source, staging / f"payments-{index}", start, values))
        start += files[-1].count
    _exclude(connection, stablecoins)
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
            if is_parquet(source, path):
                connection = connection or stack.enter_context(duckdb.connect())
                readers.open_parquet(connection, source, path)
            else:
                readers.open_text(source, path, read_head(source.name, path))


def _load_file(
    connection: DuckDBPyConnection,
    source: PaymentInput,
    path: Path,
    start: int,
    values: dict[str, int],
) -> LoadedFile:
    """Insert the rows of a file, of which at most one copy is on the disk at a time."""
    link_or_spool(source, path)
    version, copy = read_version(path), path.with_name(f"{path.name}-lines")
    if is_parquet(source, path):
        reader = readers.open_parquet(connection, source, path)
    else:
        lines = prepare_text(source.name, path, copy)
        reader = readers.open_text(source, copy if copy.exists() else path, lines)
    query = f"WITH {reader.staged(tuple(COLUMNS))}, {rules.STAGES} SELECT {SELECTED} FROM judged"  # noqa: S608  # ours
    try:
        ((count,),) = connection.execute(f"INSERT INTO rows {query}", values).fetchall()
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        raise IndexerError(f"the payments of {source.name} cannot be counted: {reason}") from error
    if version != read_version(path):
        raise SourceError(
            f"{source.name}: changed while it was read; build again when it is complete"
        )
    file = LoadedFile(source.name, reader.columns, start, count)
    if reader.lines is not None:
        _number_lines(connection, file, reader, reader.lines, copy if copy.exists() else path)
    copy.unlink(missing_ok=True)
    path.unlink()
    return file


def _number_lines(
    connection: DuckDBPyConnection, file: LoadedFile, reader: Reader, lines: Lines, path: Path
) -> None:
    """Find the lines of a text that are no rows; each is damaged, or belongs to another one."""
    is_csv = reader.width > 0
    file.unit, file.head = "line", lines.head_number - (not is_csv)
    query = "SELECT coalesce(sum(breaks), 0)::BIGINT FROM rows WHERE rowid >= ?"
    ((breaks,),) = connection.execute(query, [file.start]).fetchall()
    file.damages = readers.read_damages(connection, reader.width) if is_csv else []
    lost = lines.count - file.head - file.count - breaks
    lost -= sum(each.lines for each in file.damages)
    if lost:
        file.gaps = lines.find_blank(path)
        lost -= len(file.gaps)
    if lost and not is_csv:  # a lost row would shift the line numbers of all later rows
        raise IndexerError(f"{file.name}: {lost:,} of {lines.count:,} lines could not be read")
    if breaks or any(each.lines > 1 for each in file.damages):
        file.unit, file.gaps = "record", []
    file.gaps = sorted({*file.gaps, *(each.number for each in file.damages)})
    cut = next((each for each in file.damages if each.is_cut), None)
    if lost > 0 and cut is not None:
        cut.lines += lost
    elif lost > 0:  # DuckDB says nothing of a quoted value that the end of the file ends
        file.damages.append(Damage(file.number(file.count), UNCLOSED, lost))


def _known_decimals(stablecoins: Stablecoins) -> str:
    assets = stablecoins.assets.items()
    pairs = (f"{sql_text(' '.join(key))}: {asset.decimals}" for key, asset in assets)
    return f"""
CREATE MACRO known_decimals(network, token) AS
    map_extract_value(MAP {{{", ".join(pairs)}}}, network || ' ' || token)::VARCHAR;
"""


def _exclude(connection: DuckDBPyConnection, stablecoins: Stablecoins) -> None:
    """Set the fault of rows that are no dollars, on test networks, or duplicates."""
    connection.execute(STABLECOINS)
    known = [(*key, each.decimals, each.is_usd) for key, each in stablecoins.assets.items()]
    connection.executemany("INSERT INTO stablecoins VALUES (?, ?, ?, ?)", known)
    networks = (name for (name,) in connection.execute(NETWORKS).fetchall())
    connection.execute(EXCLUDE, {"test_networks": [*filter(is_test_network, networks)]})
    for query in (CANDIDATES, DEDUPLICATE):
        connection.execute(query)
    connection.execute("DROP TABLE stablecoins; DROP TABLE candidates")


def _report(connection: DuckDBPyConnection, files: list[LoadedFile], findings: Findings) -> None:
    counts = connection.execute(COUNTS).fetchall()
    for index, file in enumerate(files):
        tally = findings.tally(file.name)
        tally.records = file.count + sum(each.lines for each in file.damages)
        for number, fault, count in counts:
            if number == index and fault in LEFT_OUT:
                tally.left_out[LEFT_OUT[fault]] += count
        _refuse(connection, file, findings, tally, index)
        tally.published = tally.records - tally.malformed - sum(tally.left_out.values())


def _refuse(
    connection: DuckDBPyConnection, file: LoadedFile, findings: Findings, tally: Tally, index: int
) -> None:
    """Report the rejected rows of a file in order; a damaged one counts for each of its lines."""
    base = file.head if file.unit == "record" else 0
    damages = [*reversed(file.damages)]

    def refuse_damages(end: int | None = None) -> None:
        while damages and (end is None or damages[-1].number < end):
            damage = damages.pop()
            fault = InvalidRecord("$", damage.reason)
            findings.refuse(tally, f"{file.unit} {damage.number - base}", None, fault)
            tally.malformed += damage.lines - 1

    cursor = connection.execute(REJECTED, {"file": index})
    while batch := cursor.fetchmany(BATCH):
        for row, fault, payment_id in batch:
            number = file.number(row - file.start)
            refuse_damages(number)
            column, _, reason = FAULTS[fault]
            position, path = f"{file.unit} {number - base}", _path(file.columns, column)
            findings.refuse(tally, position, payment_id, InvalidRecord(path, reason))
    refuse_damages()


def _path(names: dict[str, str], column: str) -> str:
    """Return the JSON path of a column by its name in the file."""
    if column == "amount" and column not in names and "dollars" in names:
        column = "dollars"
    if not column:
        return "$"
    return f"$.{names.get(column, 'amount_usdc' if column == 'dollars' else column)}"
