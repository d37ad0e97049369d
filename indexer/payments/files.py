"""Payment files before DuckDB reads them: pipes and compressed text are copied, lines counted."""

from __future__ import annotations

import glob
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from indexer.compressed import ZSTD_MAGIC
from indexer.compressed import unzip as unzipped
from indexer.errors import IndexerError, SourceError
from indexer.intake.lists import source_errors
from indexer.text import BYTE_ORDER_MARK, GZIP_MAGIC, describe_encoding, printable

MAX_LINE = 2 * 2**20  # bytes of a row; DuckDB takes several times as many
CHUNK = 2**17  # bytes; fits the second-level cache of a CPU
PARQUET_MAGIC = b"PAR1"
FORMATS = (
    "payments are CSV with a header, JSON lines (one object on each line), or Parquet; "
    "text may be compressed with gzip"
)
BLANK = b" \t\r\n"
TOO_LONG = b"\x03"
"""Stands for a line that is longer than MAX_LINE, which is neither JSON nor a row of CSV."""


class PaymentInput(Struct, frozen=True):
    """A source of payments.

    name: of the source in messages
    path: of a file or a pipe
    columns: the name in the file of each column that it names otherwise, such as
        `{"sender": "payer"}`
    chain: the network of payments in a file without a column of it
    """

    name: str
    path: str
    columns: dict[str, str] = {}
    chain: str = ""


class Lines(Struct):
    """Measures of the lines of a text.

    count: the number of lines
    head: the first line that is not blank
    head_number: its number
    has_quotes: whether any line has a quote, so that a value may have line breaks
    size: the bytes of all lines
    opened: the offset of a line whose quoted value is not closed yet
    cuts: the offsets of rows that are longer than MAX_LINE with their quoted lines
    """

    count: int = 0
    head: bytes = b""
    head_number: int = 0
    has_quotes: bool = False
    size: int = 0
    opened: int | None = None
    cuts: list[tuple[int, int]] = []

    def measure(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield blocks of whole lines unchanged, adding them to the measures."""
        for block in blocks:
            if not self.head:
                text = block.lstrip()
                self.head = text.partition(b"\n")[0].rstrip()
                self.head_number = 1 + self.count + block.count(b"\n", 0, len(block) - len(text))
            self.count += block.count(b"\n")
            self.has_quotes = self.has_quotes or b'"' in block
            if self.has_quotes and not self.head.startswith(b"{"):
                self._follow_quotes(block)
            self.size += len(block)
            yield block
        self._close(self.size)

    def _follow_quotes(self, block: bytes) -> None:
        """Find where a quoted value of several lines begins and ends: at lines of odd quotes.

        DuckDB reads a value that is longer than its read buffer as rows, so that the author of
        the value could forge payments.
        """
        if self.opened is None and block.count(b'"') % 2 == 0:
            return
        position = self.size
        for line in block.splitlines(keepends=True):
            if line.count(b'"') % 2:
                if self.opened is None:
                    self.opened = position
                else:
                    self._close(position + len(line))
            position += len(line)

    def _close(self, end: int) -> None:
        if self.opened is not None and end - self.opened > MAX_LINE:
            self.cuts.append((self.opened, end))
        self.opened = None

    def find_blank(self, path: Path) -> list[int]:
        """Return the numbers of the blank lines behind the head."""
        with path.open("rb") as lines:
            numbers = (number for number, line in enumerate(lines, 1) if not line.strip(BLANK))
            return [number for number in numbers if number > self.head_number]


def link_or_spool(source: PaymentInput, target: Path) -> None:
    """Link `target` to a regular file; copy anything else there, as a pipe is read only once.

    The link gives DuckDB a name in UTF-8 and without wildcards, whatever the file is called.
    Raises SourceError when the file cannot be read, IndexerError when it cannot be copied.
    """
    path = Path(source.path)
    if path.is_file():
        target.symlink_to(path.absolute())
    else:
        _write_copy(target, source.name, _read_chunks(source.name, path, unzip=False))


def is_parquet(source: PaymentInput, path: Path) -> bool:
    """Whether a file is Parquet and no text; raises SourceError for another format."""
    packed, content = _read_start(source.name, path, unzip=False), _read_start(source.name, path)
    if fault := describe_encoding(content[:2]):
        raise SourceError(f"{source.name}: {fault}")
    if content.startswith(ZSTD_MAGIC):
        instead = f"give <(zstd -dc {printable(source.path)}) instead"
        raise SourceError(f"{source.name}: is compressed with zstd; {instead}")
    if content.startswith(PARQUET_MAGIC) and packed != content:
        raise SourceError(f"{source.name}: is Parquet compressed with gzip; decompress it first")
    return content.startswith(PARQUET_MAGIC)


def read_head(name: str, path: Path) -> Lines:
    """Return the measures of a text up to its first line that is not blank."""
    lines = Lines()
    with closing(_read_blocks(name, path)) as blocks:
        next(filter(lambda _: lines.head, lines.measure(map(_line_feeds, blocks))), None)
    return lines


def prepare_text(name: str, path: Path, copy: Path) -> Lines:
    """Measure the lines of a text, and copy it where DuckDB would read other lines in place.

    The copy is decompressed, has line feeds alone, and placeholders for rows that are too long.
    """
    lines = Lines()
    is_plain = not _read_start(name, path, unzip=False).startswith(GZIP_MAGIC)
    if not is_plain:
        _write_copy(copy, name, lines.measure(map(_line_feeds, _read_blocks(name, path))))
    else:
        for block in lines.measure(_read_blocks(name, path)):
            if b"\r" in block or TOO_LONG in block:
                is_plain = False
    if lines.cuts or (not is_plain and not copy.exists()):
        lines = Lines()
        deque(lines.measure(map(_line_feeds, _read_blocks(name, path))), maxlen=0)
        blocks = map(_line_feeds, _read_blocks(name, path))
        _write_copy(copy, name, _without_cuts(blocks, lines.cuts))
    return lines


def read_version(path: Path) -> tuple[int, ...]:
    """Return the device, inode, size and modification time of a file; empty when it is missing."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def sql_path(path: Path) -> str:
    """Return a path as an SQL string with its wildcards escaped."""
    return sql_text(glob.escape(str(path)))


def sql_text(text: str) -> str:
    """Return a text as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def _read_chunks(name: str, path: Path, unzip: bool = True) -> Generator[bytes, None, None]:
    with source_errors(name), path.open("rb") as file:
        content = unzipped(file) if unzip else file
        while chunk := content.read(CHUNK):
            yield chunk


def _read_start(name: str, path: Path, unzip: bool = True) -> bytes:
    with closing(_read_chunks(name, path, unzip)) as chunks:
        return next(chunks, b"")


def _read_blocks(name: str, path: Path) -> Generator[bytes, None, None]:
    """Yield whole lines of a file, about a CHUNK at a time, each with an end.

    A placeholder replaces a line longer than MAX_LINE. Where its quotes are odd, the placeholder
    starts with a quote, which opens or closes the same value of several lines.
    """
    rest = bytearray()
    for number, chunk in enumerate(_read_chunks(name, path)):
        new = chunk if number else chunk.removeprefix(BYTE_ORDER_MARK)
        if rest.endswith(b"\r"):  # may be the first half of `\r\n`
            rest.pop()
            new = b"\r" + new
        end = max(new.rfind(b"\n"), new.rfind(b"\r", 0, -1)) + 1
        if end:
            yield bytes(rest) + new[:end]
            rest.clear()
        rest += new[end:]
        if len(rest) > MAX_LINE:
            rest[:] = b'"' * (rest.count(b'"') % 2) + TOO_LONG
    if rest:
        yield bytes(rest.removesuffix(b"\r")) + b"\n"


def _without_cuts(blocks: Iterable[bytes], cuts: list[tuple[int, int]]) -> Iterator[bytes]:
    """Yield blocks with a placeholder for each cut."""
    position = 0
    for block in blocks:
        begin = 0
        for start, end in cuts:
            if end <= position or start >= position + len(block):
                continue
            if start >= position:
                yield block[begin : start - position] + TOO_LONG + b"\n"
            begin = min(end - position, len(block))
        yield block[begin:]
        position += len(block)


def _line_feeds(block: bytes) -> bytes:
    if b"\r" not in block:
        return block
    return block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _write_copy(target: Path, name: str, chunks: Iterable[bytes]) -> None:
    try:
        with target.open("wb") as file:
            file.writelines(chunks)
    except OSError as error:
        reason = error.strerror or error
        raise IndexerError(f"{target}: the copy of {name} cannot be written: {reason}") from error
