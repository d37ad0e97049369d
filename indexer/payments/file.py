"""One payment file, CSV, JSON lines or Parquet: a copy of it, and a query for its rows as texts."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import msgspec
from duckdb import DuckDBPyConnection
from msgspec import Raw, Struct

from indexer.errors import IndexerError, SourceError
from indexer.payments.columns import COLUMNS, aliased, check_columns, find_columns
from indexer.payments.lines import (
    BLANK,
    TOO_LONG,
    UNREADABLE,
    Lines,
    copy_lines,
    is_header,
    read_chunks,
)
from indexer.payments.parquet import PARQUET_MAGIC, describe_parquet
from indexer.text import MAX_RECORD, printable

FORMATS = (
    "payments are CSV with a header, JSON lines (one object on each line), or Parquet; "
    "text may be compressed with gzip"
)
ZSTANDARD_MAGIC = b"\x28\xb5\x2f\xfd"

# Values in quotes, or without any quote. Most quotes stand around whole values only, and most
# commas between values only: to drop the ones and split at the others is several times as fast.
SIMPLE = '(?:"[^",]*"|[^",]*)(?:,(?:"[^",]*"|[^",]*))*'
VALUES = '(?:,(?:"(?:[^"]|"")*"|[^",]*))*'
VALUE = ',("(?:[^"]|"")*"|[^",]*)'
UNQUOTED = """
    CASE WHEN starts_with(value, '"')
        THEN replace(substring(value, 2, length(value) - 2), '""', '"') ELSE value END
"""
ODD_QUOTES = "(length(text) - length(replace(text, '\"', ''))) % 2 = 1"


class PaymentFile(Struct):
    """How to read a file of so many `rows`, from its `copy`.

    `query` gives them all, in order, from the file at `$path`. `picked_query` gives, from there or
    from what `lines` picked to, those whose numbers are in the table `wanted`. Each row has its
    number from 0 as `row`, which `query` may leave open; it is `blank` or not; `broken` is the
    reason why it could not be read, if so; `unclosed` says that it has a quote too many; and there
    are the texts of COLUMNS. A row is a line, or not: `unit` says so. `given` holds the name that
    the file has for a column.
    """

    name: str
    copy: Path
    rows: int
    query: str
    picked_query: str
    given: dict[str, str]
    unit: str = "line"
    lines: Lines | None = None


def open_payment_file(connection: DuckDBPyConnection, path: str, copy: Path) -> PaymentFile:
    """Copy a file, a line for a line, and recognise it.

    Raises SourceError when the file is missing, empty, damaged or lacks a column, and IndexerError
    when the copy cannot be written.
    """
    name = printable(path)
    with closing(read_chunks(path, name)) as chunks, _writing(copy, name) as target:
        magic = next(chunks)
        whole = chain([magic], chunks)
        if magic == ZSTANDARD_MAGIC:
            raise SourceError(f"{name}: is compressed with zstd; give <(zstd -dc {name}) instead")
        if magic == PARQUET_MAGIC:
            target.writelines(whole)
        else:
            lines = copy_lines(whole, target)
    if magic == PARQUET_MAGIC:
        table = describe_parquet(connection, name, copy)
        return PaymentFile(
            name, copy, table.rows, table.query, table.picked_query, table.given, unit="row"
        )
    return _text_file(name, lines)


def _text_file(name: str, lines: Lines) -> PaymentFile:
    _check_head(name, lines.head)
    if is_header(lines.head):
        names = _names(name, lines.head.decode("utf-8", "replace"))
        check_columns(name, names)
        given = find_columns(names)
        query = _csv_query(names, given)
    else:
        given = find_columns(_keys(lines.head))
        query = _json_query()
    return PaymentFile(
        name=name,
        copy=lines.copy,
        rows=lines.count,
        query=query.replace("{lines}", lines.query()),
        picked_query=query.replace("{lines}", lines.picked_query()),
        given=given,
        lines=lines,
    )


@contextmanager
def _writing(copy: Path, name: str) -> Iterator[BinaryIO]:
    try:
        with copy.open("wb") as target:
            yield target
    except OSError as error:  # those of reading are SourceErrors by now
        reason = error.strerror or error
        raise IndexerError(f"{copy}: the copy of {name} cannot be written: {reason}") from error


def _check_head(name: str, text: bytes) -> None:
    if not text:
        raise SourceError(f"{name}: is empty; {FORMATS}")
    if text.startswith(TOO_LONG):
        raise SourceError(f"{name}: the first line is longer than {MAX_RECORD:,} bytes; {FORMATS}")
    if text.startswith(b"["):
        raise SourceError(f"{name}: is a JSON array; {FORMATS}")


def _names(file: str, header: str) -> list[str]:
    if header.count('"') % 2:
        raise SourceError(f"{file}: the header has a quote that its line does not close")
    try:
        return next(csv.reader([header]))
    except csv.Error as error:
        raise SourceError(f"{file}: the first line is no CSV header: {error}") from error


def _csv_query(names: list[str], given: dict[str, str]) -> str:
    texts = dict.fromkeys(COLUMNS, "NULL::VARCHAR")
    texts |= {column: f"nullif(held[{names.index(key) + 1}], '')" for column, key in given.items()}
    if "success" in given:  # what is not said to have succeeded did not; but broken lines say less
        texts["success"] = f"CASE WHEN held IS NOT NULL THEN coalesce({texts['success']}, '') END"
    return f"""
        SELECT row, {BLANK} AS blank,
            CASE {UNREADABLE}
                WHEN held IS NULL AND {ODD_QUOTES} THEN 'has a quote that its line does not close'
                WHEN held IS NULL THEN 'has a quote within a value that is not in quotes'
                WHEN len(held) <> {len(names)}
                THEN 'has ' || len(held) || ' of the {len(names)} values of the header' END AS broken,
            held IS NULL AND {ODD_QUOTES} AS unclosed,
            {aliased(texts)}
        FROM (
            SELECT row, text,
                CASE WHEN NOT contains(text, '"') THEN string_split(text, ',')
                    WHEN regexp_full_match(text, '{SIMPLE}')
                    THEN string_split(replace(text, '"', ''), ',')
                    WHEN regexp_full_match(',' || text, '{VALUES}')
                    THEN [{UNQUOTED} FOR value IN regexp_extract_all(',' || text, '{VALUE}', 1)]
                    END AS held
            FROM ({{lines}})
        )
    """  # noqa: S608, E501  # made of constants and numbers


def _keys(text: bytes) -> list[str]:
    try:
        return [*msgspec.json.decode(text, type=dict[str, Raw])]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []


def _json_query() -> str:
    known = [key for keys in COLUMNS.values() for key in keys]
    found = {key: f"nullif(found[{known.index(key) + 1}], '')" for key in known}
    texts = {
        column: f"coalesce({', '.join(found[key] for key in keys)})"
        for column, keys in COLUMNS.items()
    }
    # What is not said to have succeeded did not, unless the question is not put at all.
    texts["success"] = (
        f"coalesce({found['success']}, CASE WHEN kinds[2] IS NOT NULL THEN 'false' END)"
    )
    return f"""
        SELECT row, {BLANK} AS blank,
            CASE {UNREADABLE} WHEN kinds[1] IS DISTINCT FROM 'OBJECT'
                THEN 'is not a JSON object' END AS broken,
            false AS unclosed,
            {aliased(texts)}
        FROM (
            SELECT *, json_type(record, ['$', '$.success']) AS kinds,
                json_extract_string(record, {[f"$.{key}" for key in known]}) AS found
            FROM (
                SELECT row, text, CASE WHEN json_valid(text) THEN text END AS record
                FROM ({{lines}})
            )
        )
    """  # noqa: S608  # made of constants
