"""Payments as text: CSV with a header, or JSON lines, one payment on each line.

DuckDB reads lines, and SQL splits them into values. DuckDB's own CSV parser is not used, because
the author of one text value could forge payments: lines of a quoted value that spans two of its
read buffers become rows. Nor does that parser give the line number of a row that it accepts.
"""

from __future__ import annotations

import csv
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from indexer.errors import SourceError
from indexer.payments.columns import (
    check_columns,
    column_names,
    complete,
    find_columns,
    project,
)
from indexer.payments.files import (
    FORMATS,
    PaymentFile,
    PaymentInput,
    is_gzip,
    read_chunks,
    sql_path,
    sql_text,
    write_copy,
)
from indexer.text import BYTE_ORDER_MARK, MAX_RECORD

MIN_LINE_SIZE = 2**21  # bytes; the default `max_line_size` of DuckDB

# Control characters: the column separator of the line reader, which makes each line one value, and
# the start of the placeholders for unreadable lines.
SEPARATOR = b"\x01"
NOT_TEXT = b"\x02"
TOO_LONG = b"\x03"

MACROS = rf"""
CREATE MACRO is_blank(text) AS coalesce(regexp_full_match(text, '[ \t]*'), true);

CREATE MACRO has_odd_quotes(text) AS (length(text) - length(replace(text, '"', ''))) % 2 = 1;

CREATE MACRO why_unreadable(text) AS
    CASE WHEN starts_with(text, chr(2)) THEN 'is not plain UTF-8 text'
        WHEN starts_with(text, chr(3))
        THEN 'is longer than the {MAX_RECORD:,} bytes of a record' END;

CREATE MACRO unquote(value) AS
    CASE WHEN starts_with(value, '"')
        THEN replace(substring(value, 2, length(value) - 2), '""', '"') ELSE value END;

-- The values of a line, or null where a quote is out of place. Most lines have no quotes, or quotes
-- around whole values without commas: splitting those at each comma is several times as fast.
CREATE MACRO csv_values(line) AS
    CASE WHEN NOT contains(line, '"') THEN string_split(line, ',')
        WHEN regexp_full_match(line, '(?:"[^",]*"|[^",]*)(?:,(?:"[^",]*"|[^",]*))*')
        THEN string_split(replace(line, '"', ''), ',')
        WHEN regexp_full_match(',' || line, '(?:,(?:"(?:[^"]|"")*"|[^",]*))*')
        THEN [
            unquote(value)
            FOR value IN regexp_extract_all(',' || line, ',("(?:[^"]|"")*"|[^",]*)', 1)
        ] END;
"""


class Lines(Struct):
    """Measures of the lines of a file.

    count: the number of lines
    head: the first line that is not blank
    head_index: the index of that line
    longest: an upper bound on the bytes of a line
    """

    count: int = 0
    head: bytes = b""
    head_index: int = 0
    longest: int = MIN_LINE_SIZE

    def measure(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield blocks of whole lines unchanged, adding them to the measures."""
        for block in blocks:
            if not self.head:
                text = block.lstrip()
                self.head = text.partition(b"\n")[0].rstrip()
                self.head_index += block.count(b"\n", 0, len(block) - len(text))
            self.count += block.count(b"\n")
            self.longest = max(self.longest, len(block))
            yield block


def check_text_file(source: PaymentInput, path: Path) -> None:
    """Raise SourceError when the beginning of a file is no CSV with the columns nor JSON lines."""
    lines = Lines()
    with closing(_read_blocks(source.name, path)) as blocks:
        next(filter(lambda _: lines.head, lines.measure(map(_line_feeds, blocks))), None)
    _recognise(source, lines)


def open_text_file(source: PaymentInput, path: Path) -> PaymentFile:
    """Recognise CSV or JSON lines, and copy the lines where DuckDB cannot read them in place.

    Raises SourceError when the file is empty, damaged or lacks a column.
    """
    name, lines, copy = source.name, Lines(), None
    if not _is_readable_in_place(name, path, lines):
        copy = path.with_name(f"{path.name}-lines")
        lines = copy_lines(name, path, copy)
    skipped, columns, staged = _recognise(source, lines)
    table = _line_reader(copy or path, skipped, lines.longest)
    return PaymentFile(
        name=name,
        path=path,
        copy=copy,
        rows=lines.count - skipped,
        unit="line",
        first_number=1 + skipped,
        columns=columns,
        all_rows=f"source AS (SELECT NULL::BIGINT AS row, text FROM {table})",  # noqa: S608  # ours
        # DuckDB hashes `picks` for the coalesce; a plain IN is a semi join, which hashes the file.
        picked_rows=f"""
numbered AS (SELECT row_number() OVER () - 1 AS row, text FROM {table}),
source AS (FROM numbered WHERE coalesce(row IN (FROM picks), false))
""",  # noqa: S608  # ours
        staged=staged,
    )


def copy_lines(name: str, path: Path, copy: Path) -> Lines:
    """Copy a file, decompressed, with line feeds and with placeholders for unreadable lines."""
    lines = Lines()
    blocks = lines.measure(map(_line_feeds, _read_blocks(name, path)))
    write_copy(copy, name, map(_mark_unreadable, blocks))
    return lines


def _line_reader(path: Path, skipped: int, longest: int) -> str:
    columns = "{'text': 'VARCHAR'}"
    return f"""
    read_csv(
        {sql_path(path)}, columns = {columns}, auto_detect = false, header = false,
        skip = {skipped}, delim = chr(1), quote = '', escape = '', new_line = '\\n',
        compression = 'none', strict_mode = false,
        max_line_size = {longest}, buffer_size = {4 * longest}
    )
"""


def _recognise(source: PaymentInput, lines: Lines) -> tuple[int, dict[str, str], str]:
    """Return the number of lines above the payments, the columns, and the stage `staged`."""
    name, head = source.name, lines.head
    if not head:
        raise SourceError(f"{name}: is empty; {FORMATS}")
    if head.startswith(TOO_LONG):
        raise SourceError(f"{name}: the first line is longer than {MAX_RECORD:,} bytes; {FORMATS}")
    if head.startswith(b"["):
        raise SourceError(f"{name}: is a JSON array; {FORMATS}")
    if head.startswith(b"{"):
        keys = _keys(head)
        return 0, find_columns(source, keys) if keys else {}, _stage_json(source)
    names = _header_names(name, head.decode("utf-8", "replace"))
    columns = check_columns(source, names)
    return lines.head_index + 1, columns, _stage_csv(source, names, columns)


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


def _stage_csv(source: PaymentInput, names: list[str], columns: dict[str, str]) -> str:
    values = {column: f"held[{names.index(name) + 1}]" for column, name in columns.items()}
    return f"""
split AS (
    SELECT row, text, csv_values(text) AS held FROM source
),
staged AS (
    SELECT row, is_blank(text) AS blank,
        coalesce(why_unreadable(text), CASE
            WHEN held IS NULL AND has_odd_quotes(text)
            THEN 'has a quote that its line does not close'
            WHEN held IS NULL THEN 'has a quote within a value that is not in quotes'
            WHEN len(held) <> {len(names)}
            THEN concat('has ', len(held), ' of the {len(names)} values of the header')
            END) AS damage,
        held IS NULL AND has_odd_quotes(text) AS unclosed,
        {project(complete(source, values))}
    FROM split
)
"""  # noqa: S608  # made of constants and numbers


def _stage_json(source: PaymentInput) -> str:
    names = column_names(source)
    keys = [*dict.fromkeys(key for aliases in names.values() for key in aliases)]
    paths = [sql_text(f"/{key.replace('~', '~0').replace('/', '~1')}") for key in keys]
    values = {key: f"nullif(held[{index}], '')" for index, key in enumerate(keys, 1)}
    texts = {
        column: f"coalesce({', '.join(values[key] for key in aliases)})"
        for column, aliases in names.items()
    }
    if source.chain:
        texts["chain"] = f"coalesce({texts['chain']}, {sql_text(source.chain)})"
    # As for columns: an amount without decimals is no amount where there are dollars.
    is_amount = f"{texts['decimals']} IS NOT NULL OR {texts['dollars']} IS NULL"
    texts["amount"] = f"CASE WHEN {is_amount} THEN {texts['amount']} END"
    success = keys.index(names["success"][0])
    # A null or empty value means failed, a missing key does not.
    texts["success"] = (
        f"coalesce({texts['success']}, CASE WHEN types[2] IS NOT NULL THEN 'false' END)"
    )
    return f"""
parsed AS (
    SELECT row, text, CASE WHEN json_valid(text) THEN text END AS record FROM source
),
split AS (
    SELECT row, text, json_type(record, ['', {paths[success]}]) AS types,
        json_extract_string(record, [{", ".join(paths)}]) AS held
    FROM parsed
),
staged AS (
    SELECT row, is_blank(text) AS blank,
        coalesce(why_unreadable(text), CASE
            WHEN types[1] IS DISTINCT FROM 'OBJECT' THEN 'is not a JSON object' END) AS damage,
        false AS unclosed,
        {project(texts)}
    FROM split
)
"""  # noqa: S608  # made of constants


def _read_blocks(name: str, path: Path) -> Generator[bytes, None, None]:
    """Yield whole lines of a file, about a CHUNK at a time, each with an end.

    A line longer than MAX_RECORD is replaced by its placeholder.
    """
    rest = bytearray()
    for number, chunk in enumerate(read_chunks(name, path)):
        new = chunk if number else chunk.removeprefix(BYTE_ORDER_MARK)
        if rest.endswith(b"\r"):  # may be the first half of `\r\n`
            rest.pop()
            new = b"\r" + new
        end = max(new.rfind(b"\n"), new.rfind(b"\r", 0, -1)) + 1
        if end:
            yield bytes(rest) + new[:end]
            rest.clear()
        rest += new[end:]
        if len(rest) > MAX_RECORD:
            rest[:] = _marked(TOO_LONG, rest)
    if rest:
        yield bytes(rest.removesuffix(b"\r")) + b"\n"


def _is_readable_in_place(name: str, path: Path, lines: Lines) -> bool:
    """Whether DuckDB's line reader finds in a file the same lines as `copy_lines`."""
    return not is_gzip(name, path) and all(
        b"\r" not in block and TOO_LONG not in block and _is_text(block)
        for block in lines.measure(_read_blocks(name, path))
    )


def _line_feeds(block: bytes) -> bytes:
    if b"\r" not in block:
        return block
    return block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _mark_unreadable(block: bytes) -> bytes:
    """Replace lines that are not plain UTF-8 text by their placeholder."""
    if _is_text(block):  # almost always, and testing each line takes much longer
        return block
    return b"".join(
        line if _is_text(line) else _marked(NOT_TEXT, line) + b"\n"
        for line in block.splitlines(keepends=True)
    )


def _is_text(lines: bytes) -> bool:
    try:
        if not lines.isascii():
            lines.decode()
    except UnicodeDecodeError:
        return False
    return SEPARATOR not in lines


def _marked(mark: bytes, line: bytes | bytearray) -> bytes:
    """Return the placeholder of an unreadable line: the mark, and a quote if its quotes are odd."""
    return mark + b'"' * (line.count(b'"') % 2)
