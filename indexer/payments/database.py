"""The database of payments: a DuckDB file in the staging folder of a build."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from indexer.errors import IndexerError
from indexer.intake.findings import Findings
from indexer.payments.files import PaymentInput
from indexer.processes.resources import duckdb_memory
from indexer.progress import Progress
from indexer.resources.assets import KNOWN_STABLECOINS, Stablecoins
from indexer.text import printable
from service.errors import needs_extra

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MAX_MEMORY = 256 * 2**20  # bytes; DuckDB would keep all texts in more, and be no faster
THREAD_MEMORY = 128 * 2**20  # bytes; with less, reading Parquet can run out of memory
INTERRUPTED = "Query interrupted"  # message of the RuntimeError that DuckDB raises on Ctrl-C


def check_payment_files(inputs: Sequence[PaymentInput]) -> None:
    """Check the beginning of each file, before anything else is done; pipes are not read.

    Raises SourceError when a file is missing, unreadable, of no known format or lacks a column.
    """
    if inputs:
        with _query_errors():
            from indexer.payments.load import check_files  # noqa: PLC0415  # needs duckdb

            check_files(inputs)


@contextmanager
def open_payments(
    staging: Path,
    inputs: Sequence[PaymentInput],
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

    DuckDB is imported here, so that a catalogue without payments is built without it.
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
    threads = min(jobs, limit // THREAD_MEMORY)
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{limit}B",
        "threads": max(1, threads),
        "temp_directory": str(staging / "payments.tmp"),
    }
    with _query_errors():
        import duckdb  # noqa: PLC0415  # optional

        from indexer.payments.load import load_payments  # noqa: PLC0415  # needs duckdb

        with duckdb.connect(database, config=config) as connection:
            with progress.stage("count the payments"):
                load_payments(connection, inputs, staging, findings, now, stablecoins)
            yield connection


@contextmanager
def _query_errors() -> Iterator[None]:
    """Raise IndexerError when DuckDB is missing or fails.

    KeyboardInterrupt is raised when Ctrl-C ends a query.
    """
    try:
        import duckdb  # noqa: PLC0415  # optional
    except ImportError as error:
        raise IndexerError(needs_extra("reading payments", "indexer")) from error
    try:
        yield
    except (duckdb.Error, IndexerError, RuntimeError) as error:
        cause = error.__cause__ if isinstance(error, IndexerError) else error
        if isinstance(cause, duckdb.InterruptException) or str(cause) == INTERRUPTED:
            raise KeyboardInterrupt from error
        if not isinstance(error, duckdb.Error):
            raise
        reason = str(error).partition("\n")[0]
        raise IndexerError(f"the payments cannot be counted: {reason}") from error
