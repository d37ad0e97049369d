"""Readers: how DuckDB reads CSV, JSON lines and Parquet, and the text of each column in them."""

from __future__ import annotations

import csv
from pathlib import Path

import duckdb
import msgspec
from duckdb import DuckDBPyConnection
from msgspec import Raw, Struct

from indexer.errors import SourceError
from indexer.payments.columns import check_columns, column_names, find_columns, spellings
from indexer.payments.files import (
    BLANK,
    FORMATS,
    MAX_LINE,
    TOO_LONG,
    Lines,
    PaymentInput,
    sql_path,
    sql_text,
)

BUFFER = 2 * MAX_LINE  # bytes; DuckDB needs more than a line
MAX_ERRORS = 100_000
"""Errors of a CSV file that DuckDB describes; lines with further ones are counted only."""
MAX_SHOWN = 10_000  # characters of a line that DuckDB repeats

# `parallel = false`: with parallel reading and rejects, lines of a quoted value that spans two read
# buffers become rows, so that the author of one text value could forge payments. For the same
# reason no row is longer than a line may be (`Lines.cuts`).
CSV_OPTIONS = f"""
    auto_detect = false, header = false, delim = ',', quote = '"', escape = '"', new_line = '\\n',
    strict_mode = true, parallel = false, store_rejects = true, rejects_limit = {MAX_ERRORS},
    max_line_size = {MAX_LINE}, buffer_size = {BUFFER}, compression = 'none'
"""
MACROS = r"""
-- The lines of text that a value adds to its row.
CREATE MACRO breaks(value) AS
    CASE WHEN contains(value, chr(10)) THEN len(string_split(
        regexp_replace(value, '\n[ \t\r\n]*\n', chr(10), 'g'), chr(10))) - 1 ELSE 0 END;

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
DAMAGES = """
SELECT line, list(DISTINCT error_type), coalesce(
        min(column_idx) FILTER (error_type = 'MISSING COLUMNS'),
        max(column_idx) FILTER (error_type = 'TOO MANY COLUMNS')), any_value(csv_line)
FROM reject_errors GROUP BY line ORDER BY line
"""
UNCLOSED = "has a quote that is never closed"
REASONS = {
    "LINE SIZE OVER MAXIMUM": f"is longer than the {MAX_LINE:,} bytes of a row",
    "INVALID ENCODING": "is not UTF-8",
    "UNQUOTED VALUE": "has a quote that does not enclose a whole value",
}


class Reader(Struct, kw_only=True):
    """A file as DuckDB reads it.

    table: SQL of the rows
    texts: SQL of the text of each column of COLUMNS that the file has
    columns: the name in the file of each recognised column
    damaged: SQL that tells a row that cannot be read
    breaks: SQL of the lines that a row has beyond its first
    lines: the measures of a text, None for Parquet
    width: the number of columns of CSV
    """

    table: str
    texts: dict[str, str]
    columns: dict[str, str]
    damaged: str = "false"
    breaks: str = "0"
    lines: Lines | None = None
    width: int = 0

    def staged(self, names: tuple[str, ...]) -> str:
        """Return SQL of the stage `staged` (see `rules`), with the texts of these columns."""
        texts = self.texts
        columns = ", ".join(f"{texts.get(name, 'NULL::VARCHAR')} AS {name}" for name in names)
        fixed = f"({self.damaged}) AS damaged, ({self.breaks})::INTEGER AS breaks"
        return f"staged AS (SELECT {fixed}, {columns} FROM {self.table})"  # noqa: S608  # ours


class Damage(Struct):
    """A record of CSV that has no values: its number as DuckDB counts, why, and its lines."""

    number: int
    reason: str
    lines: int
    is_cut: bool = False


def open_text(source: PaymentInput, path: Path, lines: Lines) -> Reader:
    """Return the reader of CSV or JSON lines.

    Raises SourceError when the text is empty, of another format, or lacks a column.
    """
    name, head = source.name, lines.head
    if not head:
        raise SourceError(f"{name}: is empty; {FORMATS}")
    if head.removeprefix(b'"').startswith(TOO_LONG):
        raise SourceError(f"{name}: the first line is longer than {MAX_LINE:,} bytes; {FORMATS}")
    if head.startswith(b"["):
        raise SourceError(f"{name}: is a JSON array; {FORMATS}")
    if head.startswith(b"{"):
        return _open_json(source, path, lines)
    names = _header_names(name, head.decode("utf-8", "replace"))
    columns = check_columns(source, names)
    types = ", ".join(f"c{index}: 'VARCHAR'" for index in range(len(names)))
    options = f"columns = {{{types}}}, skip = {lines.head_number}, {CSV_OPTIONS}"
    texts = {column: f"c{names.index(own)}" for column, own in columns.items()}
    breaks = " + ".join(f"breaks(c{index})" for index in range(len(names)))
    return Reader(
        table=f"read_csv({sql_path(path)}, {options})",
        texts=_complete(source, {column: f"nullif({text}, '')" for column, text in texts.items()}),
        columns=columns,
        breaks=breaks if lines.has_quotes else "0",
        lines=lines,
        width=len(names),
    )


def open_parquet(connection: DuckDBPyConnection, source: PaymentInput, path: Path) -> Reader:
    """Return the reader of Parquet; raises SourceError when it is damaged or lacks a column."""
    table = f"read_parquet({sql_path(path)}, hive_partitioning = false)"
    try:
        described = connection.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()  # noqa: S608  # our path
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0].replace(str(path), "the file")
        fault = f"the Parquet data is damaged or cut short: {reason}"
        raise SourceError(f"{source.name}: {fault}") from error
    types = {column: kind for column, kind, *_ in described}
    columns = check_columns(source, [*types])
    texts = {column: f"nullif({_cast(own, types[own])}, '')" for column, own in columns.items()}
    return Reader(table=table, texts=_complete(source, texts), columns=columns)


def read_damages(connection: DuckDBPyConnection, width: int) -> list[Damage]:
    """Return what DuckDB rejected of the CSV of `width` columns that it read last."""
    damages = [
        Damage(
            line,
            _reason(kinds, found, text, width),
            _count(text),
            len(text) >= MAX_SHOWN or TOO_LONG.decode() in text[:2],
        )
        for line, kinds, found, text in connection.execute(DAMAGES).fetchall()
        if _count(text)
    ]
    connection.execute("DROP TABLE reject_errors; DROP TABLE reject_scans")
    return damages


def _open_json(source: PaymentInput, path: Path, lines: Lines) -> Reader:
    own = spellings(source, _keys(lines.head))
    names = {
        column: [*dict.fromkeys([*own.get(column, ()), *aliases])]
        for column, aliases in column_names(source).items()
    }
    keys = [*dict.fromkeys(key for each in names.values() for key in each)]
    paths = ", ".join(map(_pointer, keys))
    held = {key: f"nullif(held[{index}], '')" for index, key in enumerate(keys, 1)}
    texts = {
        column: f"coalesce({', '.join(held[key] for key in each)})"
        for column, each in names.items()
    }
    # A null or empty value means failed, a missing key does not.
    failed = "CASE WHEN types[2] IS NOT NULL THEN 'false' END"
    texts["success"] = f"coalesce({texts['success']}, {failed})"
    if source.chain:
        texts["chain"] = f"coalesce({texts['chain']}, {sql_text(source.chain)})"
    types = f"json_type(json, ['', {_pointer(names['success'][0])}])"
    options = f"ignore_errors = true, maximum_object_size = {MAX_LINE}, compression = 'none'"
    objects = f"read_ndjson_objects({sql_path(path)}, {options})"
    return Reader(
        table=f"""(SELECT {types} AS types, json_extract_string(json, [{paths}]) AS held
            FROM {objects})""",  # noqa: S608  # ours
        texts=texts,
        columns=find_columns(source, _keys(lines.head)) if own else {},
        damaged="types[1] IS DISTINCT FROM 'OBJECT'",
        lines=lines,
    )


def _complete(source: PaymentInput, texts: dict[str, str]) -> dict[str, str]:
    """Return the texts of a file with columns, with the chain that is given.

    An empty `success` means failed; a missing column does not.
    """
    if source.chain:
        texts.setdefault("chain", sql_text(source.chain))
    if "success" in texts:
        texts["success"] = f"coalesce({texts['success']}, '')"
    return texts


def _header_names(file: str, header: str) -> list[str]:
    if header.count('"') % 2:
        raise SourceError(f"{file}: the header has a quote that its line does not close")
    try:
        return next(csv.reader([header]))
    except csv.Error as error:
        raise SourceError(f"{file}: the first line is no CSV header: {error}") from error


def _keys(record: bytes) -> list[str]:
    try:
        return [*msgspec.json.decode(record, type=dict[str, Raw])]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []


def _pointer(key: str) -> str:
    return sql_text(f"/{key.replace('~', '~0').replace('/', '~1')}")


def _cast(key: str, kind: str) -> str:
    name = '"' + key.replace('"', '""') + '"'
    if kind in ("DOUBLE", "FLOAT"):  # by way of its text, since FLOAT 0.1 is not DOUBLE 0.1
        return f"double_text({name}::VARCHAR::DOUBLE)"
    return f"blob_text({name})" if kind == "BLOB" else f"{name}::VARCHAR"


def _reason(kinds: list[str], found: int | None, text: str, width: int) -> str:
    if TOO_LONG.decode() in text[:2]:
        return REASONS["LINE SIZE OVER MAXIMUM"]
    for kind, reason in REASONS.items():
        if kind in kinds:
            return reason
    return f"has {found} of the {width} values of the header"


def _count(text: str) -> int:
    return sum(bool(line.strip(BLANK.decode())) for line in text.split("\n"))
