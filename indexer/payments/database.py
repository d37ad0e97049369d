"""The base of payments: a DuckDB database for the time of a build."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from indexer.errors import IndexerError
from indexer.progress import Progress
from indexer.sources.rejects import Rejects
from indexer.text import printable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@contextmanager
def open_payments(
    staging: Path, names: list[str], rejects: Rejects, now: datetime, progress: Progress
) -> Iterator[DuckDBPyConnection | None]:
    """The table of payments from these files, or None without files.

    DuckDB is imported here, so that a catalogue without payments builds without it.
    """
    if not names:
        yield None
        return
    try:
        import duckdb  # noqa: PLC0415  # see above

        from indexer.payments.load import load_payments  # noqa: PLC0415  # see above
    except ImportError as error:
        raise IndexerError(
            "payments are read by DuckDB, which is not installed: pip install 'ratecard[indexer]'"
        ) from error

    database = str(staging / "payments.duckdb")
    if "?" in database or printable(database) != database:  # to DuckDB it is a URL, or no name
        raise IndexerError(
            f"{printable(database)}: DuckDB cannot work under this name; choose another --out, "
            "in UTF-8 and without a question mark"
        )
    try:
        with duckdb.connect(database) as connection:
            with progress.stage("count the payments"):
                load_payments(connection, names, staging, rejects, now)
            yield connection
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        raise IndexerError(f"the payments cannot be counted: {reason}") from error
