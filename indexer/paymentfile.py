"""One payment file, CSV or JSON lines: a query for its rows as texts under the names we use."""

from __future__ import annotations

import csv
import zlib
from pathlib import Path

from msgspec import Struct

from indexer.errors import SourceError
from indexer.sources import BYTE_ORDER_MARK, MAX_RECORD, plain

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

# A separator that no text holds makes DuckDB's CSV reader one of numbered lines.
LINES = "delim = '\x01', quote = '', escape = '', header = false, strict_mode = false"
CSV = "delim = ',', quote = '\"', escape = '\"', header = true"


class PaymentFile(Struct):
    """How to read a file.

    `query` gives `row`, counted from 1, `whole`, whether the row could be read at all, and the
    texts of COLUMNS. DuckDB keeps lines that it cannot split in the table `reject_errors`.
    `given` holds the name that the file has for a column.
    """

    name: str
    query: str
    lines_before: int
    given: dict[str, str]


def open_payment_file(name: str) -> PaymentFile:
    """Recognise a file; raises SourceError when it is missing, empty or lacks a column."""
    try:
        with Path(name).open("rb") as file:
            content = plain(file)
            compression = "none" if content is file else "gzip"
            line = content.readline(MAX_RECORD)
    except FileNotFoundError as error:
        raise SourceError(f"{name}: there is no such file") from error
    except (EOFError, zlib.error) as error:
        raise SourceError(
            f"{name}: the gzip data is damaged or cut short; fetch it again"
        ) from error
    except OSError as error:
        raise SourceError(f"{name}: cannot be read: {error.strerror or error}") from error
    first = line.removeprefix(BYTE_ORDER_MARK).decode("utf-8", "replace").strip()
    if not first:
        raise SourceError(f"{name}: is empty; payments are CSV with a header, or JSON lines")
    scan = f"read_csv({_quote(name)}, compression = '{compression}', {{}})"
    return _json_lines(name, scan) if first[0] == "{" else _csv(name, scan, first)


def _json_lines(name: str, scan: str) -> PaymentFile:
    texts = {
        column: "coalesce({})".format(", ".join(f"nullif(record->>'$.{key}', '')" for key in keys))
        for column, keys in COLUMNS.items()
    }
    query = f"""
        SELECT row, coalesce(json_type(record) = 'OBJECT', false) AS whole, {_aliased(texts)}
        FROM (
            SELECT row, CASE WHEN json_valid(text) THEN text::JSON END AS record
            FROM {_numbered(scan, LINES, ["text"])}
            WHERE trim(text) <> ''
        )
    """  # noqa: S608  # the file's name is quoted, all else is constant
    given = {column: keys[0] for column, keys in COLUMNS.items()}
    return PaymentFile(name, query, lines_before=0, given=given)


def _csv(name: str, scan: str, header: str) -> PaymentFile:
    names = next(csv.reader([header]))
    given = {
        column: key for column, keys in COLUMNS.items() for key in reversed(keys) if key in names
    }
    required = [*REQUIRED, ("decimals",)] if "amount" in given else REQUIRED
    for columns in required:
        if not any(column in given for column in columns):
            wanted = " or ".join(key for column in columns for key in COLUMNS[column])
            raise SourceError(f"{name}: there is no column {wanted} among {', '.join(names)}")
    texts = dict.fromkeys(COLUMNS, "NULL::VARCHAR")
    texts |= {column: f"column{names.index(key)}" for column, key in given.items()}
    if "success" in given:  # what is not said to have succeeded did not
        texts["success"] = f"coalesce({texts['success']}, 'false')"
    rows = _numbered(scan, CSV, [f"column{index}" for index in range(len(names))])
    query = f"SELECT row, true AS whole, {_aliased(texts)} FROM {rows}"  # noqa: S608  # as above
    return PaymentFile(name, query, lines_before=1, given=given)


def _numbered(scan: str, dialect: str, columns: list[str]) -> str:
    types = ", ".join(f"'{column}': 'VARCHAR'" for column in columns)
    options = (
        f"columns = {{{types}}}, auto_detect = false, {dialect}, "
        f"max_line_size = {MAX_RECORD}, store_rejects = true"
    )
    return f"(SELECT *, row_number() OVER () AS row FROM {scan.format(options)})"  # noqa: S608  # as above


def _aliased(texts: dict[str, str]) -> str:
    return ", ".join(f"{text} AS {column}" for column, text in texts.items())


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
