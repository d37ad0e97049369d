"""Payment lines: copied once, so that DuckDB can read each and it keeps its number.

The copy is made by Python: it reads pipes, checks what gzip promises, and leaves lines that DuckDB
can read under a name that is ours. What cannot be read is marked in its place.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct, field

from indexer.sources.records import decompress, source_errors
from indexer.text import BYTE_ORDER_MARK, MAX_RECORD

CHUNK = 2**20
MAGIC = 4
# Read as CSV without quotes, of which this separates the columns, a line is a value as it stands.
SEPARATOR = b"\x01"
# What the copy of a line starts with that cannot be read.
NOT_TEXT = b"\x02"
TOO_LONG = b"\x03"
READ_LINES = f"""
    read_csv(
        $path, columns = {{{{{{columns}}}}}}, auto_detect = false, header = false,
        compression = 'none', delim = '{SEPARATOR.decode()}', quote = '', escape = '',
        new_line = '\\n', strict_mode = false, max_line_size = {{longest}}
    )
"""
UNREADABLE = f"""
    WHEN starts_with(text, '{NOT_TEXT.decode()}') THEN 'is not plain UTF-8 text'
    WHEN starts_with(text, '{TOO_LONG.decode()}')
        THEN 'is longer than the {MAX_RECORD:,} bytes of a record'
"""
BLANK = "coalesce(regexp_full_match(text, '[ \t]*'), true)"


class Block(Struct):
    """Some lines of the copy: where they start, and the number of the first, from 0."""

    start: int
    line: int


class Lines(Struct):
    """The lines of a copy: the first that is not blank, their number, what none is longer than."""

    copy: Path
    head: bytes = b""
    count: int = 0
    longest: int = 2 * CHUNK
    blocks: list[Block] = field(default_factory=list)

    def query(self) -> str:
        """Every line at `$path`, in order: a `text`, its `row` unknown."""
        columns = "'text': 'VARCHAR'"
        source = READ_LINES.format(columns=columns, longest=self.longest)
        return f"SELECT NULL::BIGINT AS row, text FROM {source}"  # noqa: S608  # made of constants

    def picked_query(self) -> str:
        """The lines at `$path` that `pick` wrote: a `text` and its `row`, from 0."""
        columns = "'row': 'BIGINT', 'text': 'VARCHAR'"
        source = READ_LINES.format(columns=columns, longest=self.longest + 20)
        return f"SELECT row, text FROM {source}"  # noqa: S608  # made of constants

    def pick(self, rows: Iterable[int], target: Path) -> None:
        """Write the lines of these numbers, which ascend, each after its number."""
        with self.copy.open("rb") as file, target.open("wb") as picked:
            for number, group in groupby(rows, key=self._block):
                block = self.blocks[number]
                stop = self.blocks[number + 1].start if number + 1 < len(self.blocks) else None
                file.seek(block.start)
                lines = file.read(-1 if stop is None else stop - block.start).split(b"\n")
                picked.writelines(
                    b"%d%b%b\n" % (row, SEPARATOR, lines[row - block.line]) for row in group
                )

    def _block(self, row: int) -> int:
        return bisect_right(self.blocks, row, key=lambda block: block.line) - 1


def read_chunks(path: str, name: str) -> Generator[bytes, None, None]:
    """The bytes of a file, decompressed; the first ones tell its format.

    Raises SourceError when it is missing, unreadable or damaged.
    """
    with source_errors(name), Path(path).open("rb") as file:
        content = decompress(file)
        yield content.read(MAGIC)
        while chunk := content.read(CHUNK):
            yield chunk


def copy_lines(chunks: Iterable[bytes], target: BinaryIO) -> Lines:
    """Copy lines, of which a header becomes a blank one; raises what either side does."""
    lines = Lines(Path(target.name))
    for block in _blocks(chunks):
        lines.blocks.append(Block(target.tell(), lines.count))
        lines.count += block.count(b"\n")
        lines.longest = max(lines.longest, len(block))
        target.write(_readable(block if lines.head else _take_head(lines, block)))
    return lines


def _blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines, each ended by a line feed, some at a time."""
    rest, starts = b"", True
    for chunk in chunks:
        rest += chunk
        if starts:  # the first chunk is as long as it takes to tell
            rest, starts = rest.removeprefix(BYTE_ORDER_MARK), False
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


def _take_head(lines: Lines, block: bytes) -> bytes:
    text = block.lstrip()
    line, _, rest = text.partition(b"\n")
    lines.head = line.rstrip()
    if is_header(lines.head):
        return b"\n" * (block.count(b"\n") - rest.count(b"\n")) + rest
    return block


def is_header(line: bytes) -> bool:
    """Whether the first line names the columns of CSV, and is no row of JSON lines."""
    return bool(line) and not line.startswith((b"{", b"["))


def _readable(lines: bytes) -> bytes:
    if _is_text(lines):  # almost always; to ask of each line would take much longer
        return lines
    return b"".join(
        line if _is_text(line) else _marked(NOT_TEXT, line) + b"\n"
        for line in lines.splitlines(keepends=True)
    )


def _is_text(lines: bytes) -> bool:
    try:
        if not lines.isascii():
            lines.decode()
    except UnicodeDecodeError:
        return False
    return SEPARATOR not in lines


def _marked(mark: bytes, line: bytes) -> bytes:
    """What stands for a line that cannot be read; a quote too many is still one."""
    return mark + b'"' * (line.count(b'"') % 2)
