"""Payments as Parquet: typed columns are cast to the same text that CSV has for a value."""

from __future__ import annotations

from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from indexer.errors import SourceError
from indexer.payments.columns import check_columns, complete, project
from indexer.payments.files import PaymentFile, PaymentInput, is_gzip, sql_path

MAGIC = b"PAR1"
MACROS = """
-- The shortest decimal without an exponent that reads back as the same number; of a whole number
-- all digits. DuckDB reads decimals of more than 38 digits as doubles.
CREATE MACRO double_text(number) AS
    CASE WHEN number = trunc(number) AND abs(number) < 1e38 THEN number::HUGEINT::VARCHAR
        WHEN abs(number) < 0.001 THEN number::DECIMAL(38, 18)::VARCHAR
        ELSE number::VARCHAR END;

-- Binary values of 20 or 32 bytes are addresses and hashes; others are decoded as UTF-8.
CREATE MACRO blob_text(value) AS
    CASE WHEN octet_length(value) IN (20, 32) THEN '0x' || lower(hex(value))
        ELSE try(decode(value)) END;
"""


def open_parquet_file(
    connection: DuckDBPyConnection, source: PaymentInput, path: Path
) -> PaymentFile:
    """Read the columns and the row count of a Parquet file.

    Raises SourceError when the file is inside gzip, damaged or lacks a column.
    """
    name = source.name
    if is_gzip(name, path):
        raise SourceError(f"{name}: is Parquet compressed with gzip; decompress it first")
    table = f"read_parquet({sql_path(path)}, file_row_number = true, hive_partitioning = false)"
    try:
        described = connection.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()  # noqa: S608  # our path
        ((rows,),) = connection.execute(f"SELECT count(*) FROM {table}").fetchall()  # noqa: S608  # our path
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0].replace(str(path), "the file")
        raise SourceError(f"{name}: the Parquet data is damaged or cut short: {reason}") from error
    types = {column: kind for column, kind, *_ in described if column != "file_row_number"}
    columns = check_columns(source, [*types])
    texts = {column: _text(key, types[key]) for column, key in columns.items()}
    return PaymentFile(
        name=name,
        path=path,
        rows=rows,
        unit="row",
        columns=columns,
        all_rows=f"source AS (FROM {table})",
        picked_rows=f"source AS (FROM {table} WHERE file_row_number IN (FROM picks))",
        staged=f"""
staged AS (
    SELECT file_row_number AS row, false AS blank, NULL::VARCHAR AS damage, false AS unclosed,
        {project(complete(source, texts))}
    FROM source
)
""",  # noqa: S608  # made of constants and names of COLUMNS
    )


def _text(key: str, kind: str) -> str:
    name = '"' + key.replace('"', '""') + '"'
    if kind in ("DOUBLE", "FLOAT"):  # by way of its text, since FLOAT 0.1 is not DOUBLE 0.1
        return f"double_text({name}::VARCHAR::DOUBLE)"
    return f"blob_text({name})" if kind == "BLOB" else f"{name}::VARCHAR"
