"""Payment files as DuckDB can read them: one link or copy at a time, of bounded rows."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from indexer.errors import IndexerError, SourceError
from indexer.intake.lists import source_errors
from indexer.options import SourceOptions
from indexer.text import BYTE_ORDER_MARK, decompress, describe_encoding

MAX_ROW = 2 * 2**20  # bytes; DuckDB takes several times as many
MAX_LINES = 50  # of a row of CSV, so that a stray quote takes few rows
CHUNK = 2**17  # bytes; fits the second-level cache of a CPU
PARQUET_MAGIC = b"PAR1"
FORMATS = (
    "payments are CSV with a header, JSON lines (one object on each line), or Parquet; "
    "text may be compressed with gzip or zstd"
)
# Each stands for a row, which is then neither JSON nor CSV, before the number of its lines.
TOO_LONG, UNCLOSED = b"\x03", b"\x04"
BLANK = b" \t\n"

_blank_lines = re.compile(rb"(?m)^[ \t]*\n")
_after_feed = re.compile(rb"\n[ \t\n]")  # three searches by `in` would take six times as long
_long_lines = re.compile(rb"[^\n]*\x03[^\n]*")


def spool(source: SourceOptions, target: Path, blocks: int | None = None) -> bytes:
    """Link to Parquet, or copy the rows of a text; return its first line, empty for Parquet.

    The copy is decompressed, without blank lines and carriage returns, and has placeholders for
    rows that are longer than MAX_ROW: DuckDB reads a quoted value that is longer than its read
    buffer as rows, so that the author of the value could forge payments.

    blocks: how many blocks of rows are copied, by default all

    Raises SourceError when the file cannot be read, IndexerError when it cannot be copied.
    """
    name, path = source.name, Path(source.path)
    with source_errors(name), path.open("rb") as file:
        if file.peek(len(PARQUET_MAGIC)).startswith(PARQUET_MAGIC):
            if path.is_file():
                target.symlink_to(path.absolute())
            else:
                _write(target, name, _read_chunks(name, file))
            return b""
        content = decompress(file)
        fault = describe_encoding(content.peek(2)[:2])
        if content.peek(len(PARQUET_MAGIC)).startswith(PARQUET_MAGIC):
            fault = "is compressed Parquet; decompress it first"
        if fault:
            raise SourceError(f"{name}: {fault}")
        lines = _read_lines(_read_chunks(name, content))
        first = next(filter(None, lines), b"")
        head = first.partition(b"\n")[0]
        rows = chain([first], lines)
        _write(target, name, islice(rows if head.startswith(b"{") else _bound_rows(rows), blocks))
    if not head or TOO_LONG in head:
        fault = f"the first line is longer than {MAX_ROW:,} bytes" if head else "is empty"
        raise SourceError(f"{name}: {fault}; {FORMATS}")
    return head


def read_version(path: str) -> tuple[int, ...]:
    """Return the device, inode, size and modification time of a file, nothing of a pipe."""
    if not Path(path).is_file():
        return ()
    status = Path(path).stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def sql_path(path: Path) -> str:
    """Return a path as an SQL string with its wildcards escaped."""
    return sql_text(glob.escape(str(path)))


def sql_text(text: str) -> str:
    """Return a text as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def sql_map(values: dict[str, Any], kind: str) -> str:
    """Return a map from texts to values of a type as an SQL constant, which binds fast."""
    text = sql_text(msgspec.json.encode(values).decode())
    return f"from_json({text}, '\"MAP(VARCHAR, {kind})\"')"


def _read_chunks(name: str, file: BinaryIO) -> Iterator[bytes]:
    with source_errors(name):
        while chunk := file.read(CHUNK):
            yield chunk


def _read_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield blocks of whole lines, none of them blank, each with a line feed.

    A placeholder replaces a line that is longer than MAX_ROW. Where the quotes of the line are odd,
    it starts with a quote, which opens or closes the same value of several lines.
    """
    rest = bytearray()
    for number, chunk in enumerate(chunks):
        rest += chunk if number else chunk.removeprefix(BYTE_ORDER_MARK)
        # A carriage return at the end may be the first half of `\r\n`.
        if end := max(rest.rfind(b"\n"), rest.rfind(b"\r", 0, -1)) + 1:
            yield _clean(bytes(rest[:end]))
            del rest[:end]
        if len(rest) > MAX_ROW:
            rest[:] = b'"' * (rest.count(b'"') % 2) + TOO_LONG
    if rest:
        yield _clean(bytes(rest) + b"\n")


def _clean(block: bytes) -> bytes:
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if block[:1] in BLANK or _after_feed.search(block):
        block = _blank_lines.sub(b"", block)
    if TOO_LONG in block:
        block = _long_lines.sub(lambda line: _placeholder(line[0]), block)
    return block


def _placeholder(line: bytes) -> bytes:
    return b'"' * (line.count(b'"') % 2) + TOO_LONG + b"1"


def _bound_rows(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the rows of CSV; a row of several lines is replaced if it is too long or never closed.

    A line with an odd number of quotes opens or closes a value of several lines.
    """
    row: list[bytes] = []
    lines = size = 0
    for block in blocks:
        if not lines and b'"' not in block and TOO_LONG not in block:
            yield block
            continue
        for line in block.splitlines(keepends=True):
            is_odd = line.count(b'"') % 2 == 1
            if not lines and not is_odd:
                yield line
                continue
            lines += 1
            size += MAX_ROW if TOO_LONG in line else len(line)
            row.append(line)
            if size > MAX_ROW or lines > MAX_LINES:
                row.clear()
            if is_odd and lines > 1:
                yield b"".join(row) or TOO_LONG + b"%d\n" % lines
                row.clear()
                lines = size = 0
    if lines:
        yield UNCLOSED + b"%d\n" % lines


def _write(target: Path, name: str, blocks: Iterable[bytes]) -> None:
    try:
        with target.open("wb") as file:
            file.writelines(blocks)
    except OSError as error:
        reason = error.strerror or error
        raise IndexerError(f"{target}: the copy of {name} cannot be written: {reason}") from error
