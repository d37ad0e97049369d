"""Payments as Parquet: typed columns, as the texts that the same payments have in CSV."""

from __future__ import annotations

import glob
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection
from msgspec import Struct

from indexer.errors import SourceError
from indexer.payments.columns import COLUMNS, aliased, check_columns, find_columns

PARQUET_MAGIC = b"PAR1"
TABLE = "read_parquet($path, file_row_number = true, hive_partitioning = false)"

# The shortest text that a number is told by, without an exponent.
NUMBER = f"""
    CASE WHEN {{column}} = trunc({{column}}) AND abs({{column}}) <= {2**53}
        THEN {{column}}::BIGINT::VARCHAR
        WHEN abs({{column}}) < 0.001 THEN {{column}}::DECIMAL(38, 18)::VARCHAR
        ELSE {{column}}::VARCHAR END
""".replace("{column}", "{column}::VARCHAR::DOUBLE")
# Hashes and addresses, and nothing else that has so many bytes and is no text, are often binary.
BYTES = """
    CASE WHEN octet_length({column}) IN (20, 32) THEN '0x' || lower(hex({column}))
        ELSE try(decode({column})) END
"""
TEXTS = {"DOUBLE": NUMBER, "FLOAT": NUMBER, "BLOB": BYTES}


class ParquetTable(Struct):
    """The number of rows, the queries for them as `PaymentFile` has them, the columns found."""

    rows: int
    query: str
    picked_query: str
    given: dict[str, str]


def describe_parquet(connection: DuckDBPyConnection, name: str, copy: Path) -> ParquetTable:
    """How to read the copy of a Parquet file.

    Raises SourceError when it is damaged or lacks a column.
    """
    path = {"path": glob.escape(str(copy))}
    try:
        columns = connection.execute(f"DESCRIBE SELECT * FROM {TABLE}", path).fetchall()  # noqa: S608  # a constant
        ((rows,),) = connection.execute(f"SELECT count(*) FROM {TABLE}", path).fetchall()  # noqa: S608  # a constant
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0].replace(str(copy), "the file")
        raise SourceError(f"{name}: the Parquet data is damaged or cut short: {reason}") from error
    types = {column: kind for column, kind, *_ in columns if column != "file_row_number"}
    check_columns(name, [*types])
    given = find_columns([*types])
    texts = dict.fromkeys(COLUMNS, "NULL::VARCHAR")
    texts |= {column: f"nullif({_text(key, types[key])}, '')" for column, key in given.items()}
    if "success" in given:  # what is not said to have succeeded did not
        texts["success"] = f"coalesce({texts['success']}, '')"
    query = f"""
        SELECT file_row_number AS row, false AS blank, NULL::VARCHAR AS broken, false AS unclosed,
            {aliased(texts)}
        FROM {TABLE}
    """  # noqa: S608  # made of constants and names of ours
    picked = f"{query} WHERE file_row_number IN (SELECT row - $start FROM wanted)"  # noqa: S608  # as above
    return ParquetTable(rows, query, picked, given)


def _text(key: str, kind: str) -> str:
    return TEXTS.get(kind, "{column}::VARCHAR").format(column=f'"{key}"')
