"""Readers: how DuckDB reads CSV, JSON lines and Parquet, and the text of each column in them."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from indexer.errors import SourceError
from indexer.options import SourceOptions
from indexer.payments.columns import COLUMNS, check_columns, find_columns, is_token_value
from indexer.payments.files import (
    FORMATS,
    MAX_LINES,
    MAX_ROW,
    TOO_LONG,
    UNCLOSED,
    sql_path,
    sql_text,
)

BUFFER = 2 * MAX_ROW  # bytes; DuckDB needs more than a row

# `parallel = false`: with parallel reading and rejects, lines of a quoted value that spans two read
# buffers become rows, so that the author of one text value could forge payments.
CSV_OPTIONS = f"""
    auto_detect = false, header = false, skip = 1, delim = ',', quote = '"', escape = '"',
    new_line = '\\n', strict_mode = true, parallel = false, store_rejects = true,
    max_line_size = {MAX_ROW}, buffer_size = {BUFFER}, compression = 'uncompressed'
"""
# The rows that DuckDB rejected of the CSV that it read last.
DAMAGES = f"""
INSERT INTO damages SELECT $file, line, CASE text[1]
        WHEN chr({ord(UNCLOSED)}) THEN 'has a quote that is never closed'
        WHEN chr({ord(TOO_LONG)}) THEN 'is longer than {MAX_ROW:,} bytes or {MAX_LINES} lines'
        ELSE 'is no row of CSV: ' || fault END,
    coalesce(try_cast(regexp_extract(text, '^[\\x03\\x04](\\d{{1,9}})$', 1) AS BIGINT),
        len(string_split(text, chr(10))))
FROM (SELECT line, any_value(csv_line) AS text, arg_min(error_message, column_idx) AS fault
    FROM reject_errors GROUP BY line)
ORDER BY line
"""  # noqa: S608  # made of constants


class Reader(Struct, kw_only=True):
    """A file as DuckDB reads it.

    table: SQL of the rows
    texts: SQL of the text of each column of COLUMNS that the file has
    columns: the name in the file of each recognised column
    damaged: SQL that tells a row that cannot be read
    is_csv: whether the first row is a header, and DuckDB stores what it rejects
    """

    table: str
    texts: dict[str, str]
    columns: dict[str, str]
    damaged: str = "false"
    is_csv: bool = False

    def staged(self, names: tuple[str, ...]) -> str:
        """Return SQL of the stage `staged` (see `rules`), with the texts of these columns."""
        texts = ", ".join(f"{self.texts.get(each, 'NULL::VARCHAR')} AS {each}" for each in names)
        return f"staged AS (SELECT ({self.damaged}) AS damaged, {texts} FROM {self.table})"  # noqa: S608  # ours


def open_file(source: SourceOptions, path: Path, head: bytes) -> Reader:
    """Return the reader of a file that was spooled, given the first line of a text.

    Raises SourceError when the file is damaged, of another format, or lacks a column.
    """
    if head.startswith(b"["):
        raise SourceError(f"{source.name}: is a JSON array; {FORMATS}")
    if head.startswith(b"{"):
        return _open_json(source, path, head)
    reader = _open_csv(source, path, head) if head else _open_parquet(source, path)
    texts = {column: f"nullif({text}, '')" for column, text in reader.texts.items()}
    if source.chain:
        texts.setdefault("chain", sql_text(source.chain))
    if "success" in texts:  # an empty value means failed, a missing column does not
        texts["success"] = f"coalesce({texts['success']}, '')"
    reader.texts = texts
    return reader


def _open_csv(source: SourceOptions, path: Path, head: bytes) -> Reader:
    if head.count(b'"') % 2 or head.startswith(UNCLOSED):
        raise SourceError(f"{source.name}: the header has a quote that its line does not close")
    try:
        names = next(csv.reader([head.decode("utf-8", "replace")]))
    except csv.Error as error:
        raise SourceError(f"{source.name}: the first line is no CSV header: {error}") from error
    if len(names) == 1 and (separator := re.search("[;\t|]", names[0])):
        raise SourceError(
            f"{source.name}: the values are separated by {separator[0]!r}; separate them by commas"
        )
    columns = check_columns(source, names)
    types = ", ".join(f"c{index}: 'VARCHAR'" for index in range(len(names)))
    return Reader(
        table=f"read_csv({sql_path(path)}, columns = {{{types}}}, {CSV_OPTIONS})",
        texts={column: f"c{names.index(own)}" for column, own in columns.items()},
        columns=columns,
        is_csv=True,
    )


def _open_json(source: SourceOptions, path: Path, head: bytes) -> Reader:
    try:
        keys = [*msgspec.json.decode(head, type=dict[str, Raw])]
    except (msgspec.DecodeError, UnicodeDecodeError):
        keys = []
    found = find_columns(source, keys) if keys else {}
    names = {
        column: [*dict.fromkeys([*found.get(column, ()), *aliases])]
        for column, aliases in (
            COLUMNS | {column: (name,) for column, name in source.columns.items()}
        ).items()
    }
    pointers = {
        key: sql_text(f"/{key.replace('~', '~0').replace('/', '~1')}")
        for each in names.values()
        for key in each
    }
    held = {key: f"nullif(held[{index}], '')" for index, key in enumerate(pointers, 1)}
    token = ", ".join(held[key] for key in names["token_address"])
    for key in () if "dollars" in source.columns else filter(is_token_value, names["dollars"]):
        held[key] = f"CASE WHEN coalesce({token}) IS NOT NULL THEN {held[key]} END"
    texts = {
        column: f"coalesce({', '.join(held[key] for key in own)})" for column, own in names.items()
    }
    # A null or empty value means failed, a missing key does not.
    failed = "CASE WHEN types[2] IS NOT NULL THEN 'false' END"
    texts["success"] = f"coalesce({texts['success']}, {failed})"
    if source.chain:
        texts["chain"] = f"coalesce({texts['chain']}, {sql_text(source.chain)})"
    types = f"json_type(json, ['', {pointers[names['success'][0]]}])"
    paths = ", ".join(pointers.values())
    options = f"ignore_errors = true, maximum_object_size = {MAX_ROW}, compression = 'uncompressed'"
    return Reader(
        table=f"""(SELECT {types} AS types, json_extract_string(json, [{paths}]) AS held
            FROM read_ndjson_objects({sql_path(path)}, {options}))""",  # noqa: S608  # ours
        texts=texts,
        columns={column: own[0] for column, own in found.items()},
        damaged="types[1] IS DISTINCT FROM 'OBJECT'",
    )


def _open_parquet(source: SourceOptions, path: Path) -> Reader:
    import duckdb  # noqa: PLC0415  # optional

    table = f"read_parquet({sql_path(path)}, hive_partitioning = false)"
    try:
        described = duckdb.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()  # noqa: S608  # our path
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0].replace(str(path), "the file")
        fault = f"the Parquet data is damaged or cut short: {reason}"
        raise SourceError(f"{source.name}: {fault}") from error
    types = {column: kind for column, kind, *_ in described}
    columns = check_columns(source, [*types])
    texts = {column: _cast(own, types[own]) for column, own in columns.items()}
    return Reader(table=table, texts=texts, columns=columns)


def _cast(key: str, kind: str) -> str:
    name = '"' + key.replace('"', '""') + '"'
    if kind in ("DOUBLE", "FLOAT"):  # by way of its text, since FLOAT 0.1 is not DOUBLE 0.1
        return f"double_text({name}::VARCHAR::DOUBLE)"
    return f"blob_text({name})" if kind == "BLOB" else f"{name}::VARCHAR"
