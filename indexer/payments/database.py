"""The database of payments: a DuckDB file in the staging folder of a build."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from indexer.errors import IndexerError
from indexer.processes.resources import duckdb_memory
from indexer.progress import Progress
from indexer.sources.rejects import Rejects
from indexer.text import printable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MAX_THREADS = 4
THREAD_MEMORY = 128 * 2**20  # bytes; with less, reading Parquet can run out of memory


@contextmanager
def open_payments(
    staging: Path,
    names: list[str],
    rejects: Rejects,
    now: datetime,
    progress: Progress,
    *,
    jobs: int,
    memory: int,
) -> Iterator[DuckDBPyConnection | None]:
    """Load payment files into a database and yield a connection to it, or None without files.

    jobs: maximum number of threads
    memory: bytes for the whole build, of which DuckDB takes a share

    DuckDB is imported here, so that a catalogue without payments is built without it.
    Raises IndexerError when DuckDB is missing or fails, and what `load_payments` raises.
    """
    if not names:
        yield None
        return
    try:
        import duckdb  # noqa: PLC0415  # optional

        from indexer.payments.load import load_payments  # noqa: PLC0415  # needs duckdb
    except ImportError as error:
        raise IndexerError(
            "payments are read by DuckDB, which is not installed: "
            "install ratecard with the extra [indexer]"
        ) from error

    database = str(staging / "payments.duckdb")
    if "?" in database or printable(database) != database:
        raise IndexerError(  # DuckDB takes `?` for a part of a URL and refuses other encodings
            f"{printable(database)}: DuckDB cannot work under this name; choose another --out, "
            "in UTF-8 and without a question mark"
        )
    limit = duckdb_memory(memory)
    threads = min(jobs, MAX_THREADS, limit // THREAD_MEMORY)
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{limit}B",
        "threads": max(1, threads),
        "temp_directory": str(staging / "payments.tmp"),
    }
    try:
        with duckdb.connect(database, config=config) as connection:
            with progress.stage("count the payments"):
                load_payments(connection, names, staging, rejects, now)
            yield connection
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        raise IndexerError(f"the payments cannot be counted: {reason}") from error
