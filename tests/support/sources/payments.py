"""Payment files, and the answers that a snapshot with them gives."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from io import BytesIO
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection
from msgspec import Struct

from indexer.intake.findings import Findings, Tally
from indexer.options import SourceOptions
from indexer.payments.load import load_payments
from indexer.resources.assets import KNOWN_STABLECOINS, Stablecoins
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.running import Json, write_lines

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ANY_REJECTS = ("--max-rejects", "100%")
HEADER = "chain,block_timestamp,sender,recipient,amount,decimals,tx_hash,log_index"


@cache
def _duckdb() -> DuckDBPyConnection:
    return duckdb.connect()


@contextmanager
def open_database() -> Iterator[DuckDBPyConnection]:
    """Open an empty database in the DuckDB of this process, as another takes 25 ms to start."""
    with _duckdb().cursor() as connection:
        connection.execute("ATTACH ':memory:' AS empty; USE empty")
        try:
            yield connection
        finally:
            connection.execute("USE memory; DETACH empty")


class Loaded(Struct):
    """The rows of the view `payments` with their `texts`, the rejects, the counts of each input."""

    payments: list[Json]
    rejects: list[Json]
    tallies: list[Tally]

    def dollars(self) -> list[float]:
        """Return the amounts of the payments."""
        return [payment["atto"] / 10**18 for payment in self.payments]

    def hashes(self) -> list[str]:
        """Return the transaction hashes of the payments."""
        return [payment["texts"]["tx_hash"] for payment in self.payments]

    def positions(self) -> list[str]:
        """Return the position of every reject."""
        return [reject["position"] for reject in self.rejects]

    def refused(self) -> list[tuple[str, str]]:
        """Return the position and the reason of every reject."""
        return [(reject["position"], reject["reason"]) for reject in self.rejects]


def load(
    folder: Path,
    *inputs: SourceOptions | str | Path,
    now: datetime = NOW,
    stablecoins: Stablecoins = KNOWN_STABLECOINS,
) -> Loaded:
    """Load payments from inputs, or from the files of these names."""
    listing = BytesIO()
    findings = Findings(listing)
    sources = [
        each if isinstance(each, SourceOptions) else SourceOptions(name=str(each), path=str(each))
        for each in inputs
    ]
    with open_database() as connection:
        load_payments(connection, sources, folder, findings, now, stablecoins)
        cursor = connection.execute("SELECT *, payments AS texts FROM payments ORDER BY row")
        names = [name for name, *_ in cursor.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    rejects = [json.loads(line) for line in listing.getvalue().splitlines()]
    return Loaded(rows, rejects, findings.tallies)


def items(artifacts: Path) -> list[Json]:
    """Return the newest payments of the snapshot."""
    text = open_snapshot(artifacts).ecosystem.transactions(0, 200)[0]
    transactions: list[Json] = json.loads(b"[%b]" % text)
    return transactions


def hashes(artifacts: Path) -> set[str]:
    """Return the transaction hashes of the newest payments."""
    return {item["tx_hash"] for item in items(artifacts)}


def overview(artifacts: Path, timeframe: int = 30) -> Json:
    """Return the totals of the snapshot."""
    snapshot: Snapshot = open_snapshot(artifacts)
    totals: Json = json.loads(snapshot.ecosystem.overview(timeframe))
    return totals


def row(number: int, sender: str = "0xa", log_index: str = "1") -> str:
    """Return a line of CSV with the columns of HEADER; the number is the transaction hash."""
    return f"base,2026-05-07T10:16:51Z,{sender},0xb,10000,6,0x{number},{log_index}"


def write_rows(path: Path, rows: list[str], end: str = "\n") -> str:
    """Write lines of CSV below HEADER."""
    path.write_bytes(end.join([HEADER, *rows, ""]).encode())
    return str(path)


def write_csv(path: Path, rows: list[Json]) -> str:
    """Write records as CSV, with the keys of the first as the header."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def write_parquet(path: Path, rows: list[Json], select: str = "*", condition: str = "true") -> str:
    """Write records as Parquet, with the columns that the SQL selects."""
    source = write_lines(path.with_suffix(".rows"), rows)
    with open_database() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(
            f"COPY (SELECT {select} FROM read_json(?) WHERE {condition}) "  # noqa: S608  # ours
            f"TO '{path}' (FORMAT parquet)",
            [source],
        )
    Path(source).unlink()
    return str(path)
