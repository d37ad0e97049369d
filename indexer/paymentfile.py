"""One payment file, CSV or JSON lines: a copy of its lines, and a query for its rows as texts.

A line is a row. The copy is made by Python, once: it reads pipes, checks what gzip promises, and
leaves DuckDB lines that it can read under a name that is ours. What cannot be read is marked in
its place, so that a line of the copy has the number that it has in the file.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from indexer.errors import IndexerError, SourceError
from indexer.rejects import printable
from indexer.sources import BYTE_ORDER_MARK, MAX_RECORD, plain, said_of

# The names under which each column is recognised; the first one that a file has is used.
COLUMNS = {
    "id": ("id",),
    "chain": ("chain", "network"),
    "tx_hash": ("tx_hash", "transaction_hash"),
    "log_index": ("log_index",),
    "block_timestamp": ("block_timestamp", "block_time"),
    "sender": ("sender", "from_addr", "from_address"),
    "recipient": ("recipient", "to_addr", "to_address"),
    "amount": ("amount",),
    "decimals": ("decimals",),
    "dollars": ("amount_usdc", "value_usd"),
    "success": ("success",),
    "address": ("address",),
    "transaction_from": ("transaction_from", "facilitator_addr"),
    "provider": ("provider",),
    "facilitator_id": ("facilitator_id",),
    "token_address": ("token_address",),
}
REQUIRED = (("chain",), ("block_timestamp",), ("sender",), ("recipient",), ("amount", "dollars"))

FORMATS = "payments are CSV with a header, or JSON lines: one object on each line"
CHUNK = 2**20
# Read as CSV without quotes, of which this separates the columns, a line is a value as it stands.
SEPARATOR = b"\x01"
# What the copy of a line starts with that cannot be read.
NOT_TEXT = b"\x02"
TOO_LONG = b"\x03"
LINES = f"""
    columns = {{'text': 'VARCHAR'}}, auto_detect = false, header = false, compression = 'none',
    delim = '{SEPARATOR.decode()}', quote = '', escape = '', new_line = '\\n',
    strict_mode = false, max_line_size = {MAX_RECORD + 2 * CHUNK}
"""
UNREADABLE = f"""
    WHEN starts_with(text, '{NOT_TEXT.decode()}') THEN 'is not plain UTF-8 text'
    WHEN starts_with(text, '{TOO_LONG.decode()}') THEN 'is longer than the {MAX_RECORD:,} bytes of a record'
"""  # noqa: E501  # the reason is one text

# Values in quotes, or without any quote. Most lines hold quotes around whole values only and commas
# between values only: to drop the ones and split at the others is several times as fast.
SIMPLE = '(?:"[^",]*"|[^",]*)(?:,(?:"[^",]*"|[^",]*))*'
VALUES = '(?:,(?:"(?:[^"]|"")*"|[^",]*))*'
VALUE = ',("(?:[^"]|"")*"|[^",]*)'
UNQUOTED = """
    CASE WHEN starts_with(value, '"')
        THEN replace(substring(value, 2, length(value) - 2), '""', '"') ELSE value END
"""
QUOTES = "(length(text) - length(replace(text, '\"', '')))"

# Lines between two that each have a quote too many are text of one value to a reader of CSV. They
# may look like payments, and who wrote that text would decide what was paid: none of them counts.
ENCLOSED = f"""
UPDATE texts SET broken = 'is within a quoted value that starts on line ' || enclosed.opening
FROM (
    SELECT texts.row, odd.row AS opening
    FROM (SELECT row FROM texts WHERE file = $file) AS texts ASOF JOIN (
        SELECT rowid + 1 AS row, lead(rowid + 1) OVER (ORDER BY rowid) AS closing,
            row_number() OVER (ORDER BY rowid) AS number
        FROM lines
        WHERE {QUOTES} % 2 = 1
            AND rowid + 1 IN (SELECT row FROM texts WHERE file = $file AND broken IS NOT NULL)
    ) AS odd ON texts.row > odd.row
    WHERE odd.number % 2 = 1 AND texts.row < coalesce(odd.closing, {2**62})
) AS enclosed
WHERE texts.file = $file AND texts.row = enclosed.row
"""  # noqa: S608  # made of constants


class PaymentFile(Struct):
    """How to read a file: its `copy` has as many `lines`, which go to a table of that name.

    `query` gives the rows of that table: `row`, the number of the line from 1, `broken`, the
    reason why it could not be read, if so, and the texts of COLUMNS. `quoted` says whether values
    may stand in quotes. `given` holds the name that the file has for a column.
    """

    name: str
    copy: Path
    lines: int
    query: str
    quoted: bool
    given: dict[str, str]


class Head(Struct):
    """The first line that is not blank, the number of lines up to it, and of all lines."""

    text: bytes = b""
    lines_before: int = 0
    lines: int = 0


def open_payment_file(path: str, copy: Path) -> PaymentFile:
    """Copy a file, a line for a line, and recognise it.

    Raises SourceError when the file is missing, empty, damaged or lacks a column, and IndexerError
    when the copy cannot be written.
    """
    name = printable(path)
    try:
        with copy.open("wb") as target:
            head = Head()
            for block in _blocks(path, name):
                target.write(_readable(block))
                _count(head, block)
    except OSError as error:  # those of reading are SourceErrors by now
        reason = error.strerror or error
        raise IndexerError(f"{copy}: the copy of {name} cannot be written: {reason}") from error
    if not head.text:
        raise SourceError(f"{name}: is empty; {FORMATS}")
    if head.text.startswith(TOO_LONG):
        raise SourceError(f"{name}: the first line is longer than {MAX_RECORD:,} bytes; {FORMATS}")
    if head.text.startswith(b"["):
        raise SourceError(f"{name}: is a JSON array; {FORMATS}")
    recognise = _json_lines if head.text.startswith(b"{") else _csv
    return recognise(name, copy, head)


def _blocks(path: str, name: str) -> Iterator[bytes]:
    """Whole lines, each ended by a line feed, some at a time."""
    with said_of(name), Path(path).open("rb") as file:
        content = plain(file)
        rest = content.read(len(BYTE_ORDER_MARK)).removeprefix(BYTE_ORDER_MARK)
        while chunk := content.read(CHUNK):
            rest += chunk
            # A carriage return at the very end may be half of a line's end.
            end = max(rest.rfind(b"\n"), rest.rfind(b"\r", 0, -1)) + 1
            if end:
                yield _line_feeds(rest[:end])
            rest = rest[end:]
            if len(rest) > MAX_RECORD:
                rest = _marked(TOO_LONG, rest)
        if rest:
            yield _line_feeds(rest.removesuffix(b"\r") + b"\n")


def _line_feeds(lines: bytes) -> bytes:
    if b"\r" not in lines:
        return lines
    return lines.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _readable(lines: bytes) -> bytes:
    if _is_text(lines):  # almost always; to ask of each line would take much longer
        return lines
    return b"".join(
        line if _is_text(line) else _marked(NOT_TEXT, line) + b"\n"
        for line in lines.splitlines(keepends=True)
    )


def _is_text(lines: bytes) -> bool:
    try:
        lines.decode()
    except UnicodeDecodeError:
        return False
    return SEPARATOR not in lines


def _marked(mark: bytes, line: bytes) -> bytes:
    """What stands for a line that cannot be read; a quote too many is still one."""
    return mark + b'"' * (line.count(b'"') % 2)


def _count(head: Head, block: bytes) -> None:
    lines = block.count(b"\n")
    head.lines += lines
    if not head.text:
        text = block.lstrip()
        head.lines_before += lines - text.count(b"\n")
        head.text = text.partition(b"\n")[0].rstrip()


def _json_lines(name: str, copy: Path, head: Head) -> PaymentFile:
    known = [key for keys in COLUMNS.values() for key in keys]
    found = {key: f"nullif(found[{known.index(key) + 1}], '')" for key in known}
    texts = {
        column: f"coalesce({', '.join(found[key] for key in keys)})"
        for column, keys in COLUMNS.items()
    }
    # What is not said to have succeeded did not, unless the question is not put at all.
    texts["success"] = f"coalesce({found['success']}, CASE WHEN asked THEN 'false' END)"
    query = f"""
        SELECT row,
            CASE {UNREADABLE} WHEN json_type(record) IS DISTINCT FROM 'OBJECT'
                THEN 'is not a JSON object' END AS broken,
            {_aliased(texts)}
        FROM (
            SELECT *, json_exists(record, '$.success') AS asked,
                json_extract_string(record, {[f"$.{key}" for key in known]}) AS found
            FROM (
                SELECT rowid + 1 AS row, text,
                    CASE WHEN json_valid(text) THEN text::JSON END AS record
                FROM lines WHERE trim(text, ' \t') <> ''
            )
        )
    """  # noqa: S608  # made of constants
    given = _given(_keys(head.text))
    return PaymentFile(name, copy, head.lines, query, quoted=False, given=given)


def _keys(text: bytes) -> list[str]:
    try:
        return [*msgspec.json.decode(text, type=dict[str, Raw])]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []


def _csv(name: str, copy: Path, head: Head) -> PaymentFile:
    names = _header(name, head.text.decode("utf-8", "replace"))
    given = _given(names)
    required = [*REQUIRED, ("decimals",)] if "amount" in given else REQUIRED
    for columns in required:
        if not any(column in given for column in columns):
            wanted = " or ".join(key for column in columns for key in COLUMNS[column])
            among = ", ".join(names)
            among = among if len(among) < 400 else among[:400] + "…"
            raise SourceError(f"{name}: there is no column {wanted} among {among}")
    texts = dict.fromkeys(COLUMNS, "NULL::VARCHAR")
    texts |= {column: f"nullif(held[{names.index(key) + 1}], '')" for column, key in given.items()}
    if "success" in given:  # as above, but for a line without any columns
        texts["success"] = f"CASE WHEN held IS NOT NULL THEN coalesce({texts['success']}, '') END"
    query = f"""
        SELECT row,
            CASE {UNREADABLE}
                WHEN held IS NULL AND {QUOTES} % 2 = 1
                THEN 'has a quote that its line does not close'
                WHEN held IS NULL THEN 'has a quote within a value that is not in quotes'
                WHEN len(held) <> {len(names)}
                THEN 'has ' || len(held) || ' of the {len(names)} values of the header' END AS broken,
            {_aliased(texts)}
        FROM (
            SELECT rowid + 1 AS row, text,
                CASE WHEN regexp_full_match(text, '{SIMPLE}')
                    THEN string_split(replace(text, '"', ''), ',')
                    WHEN regexp_full_match(',' || text, '{VALUES}')
                    THEN [{UNQUOTED} FOR value IN regexp_extract_all(',' || text, '{VALUE}', 1)]
                    END AS held
            FROM lines WHERE rowid > {head.lines_before} AND trim(text, ' \t') <> ''
        )
    """  # noqa: S608, E501  # made of constants and numbers
    return PaymentFile(name, copy, head.lines, query, quoted=True, given=given)


def _header(name: str, header: str) -> list[str]:
    if header.count('"') % 2:
        raise SourceError(f"{name}: the header has a quote that its line does not close")
    try:
        return next(csv.reader([header]))
    except csv.Error as error:
        raise SourceError(f"{name}: the first line is no CSV header: {error}") from error


def _given(names: list[str]) -> dict[str, str]:
    return {
        column: key for column, keys in COLUMNS.items() for key in reversed(keys) if key in names
    }


def _aliased(texts: dict[str, str]) -> str:
    return ", ".join(f"{text} AS {column}" for column, text in texts.items())
