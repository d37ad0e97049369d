"""Records of a file: JSON lines, a JSON array, a list envelope, or a document that has them."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct

from indexer.compressed import ZstdDamaged, decompress
from indexer.errors import InvalidRecord, SourceError
from indexer.intake.forms import NoList, describe_kind
from indexer.intake.lists import BeyondBounds, DamagedText, ItemList, open_lines, open_list
from indexer.intake.pagination import describe_shortfall, read_pagination
from indexer.options import Kind
from indexer.text import MAX_RECORD, describe_encoding, one_line, printable
from indexer.untrusted import raw_members

MAX_DOCUMENT = 2 * 2**30  # bytes
MAX_ITEMS = 10_000_000
TOO_LONG = f"longer than the {MAX_RECORD:,} bytes of a record"
LISTS = (Kind.RESOURCES, Kind.RECORDS)
"""Kinds of sources that are lists and not documents."""
BUFFER = 2**18  # bytes; lines across the end of a buffer are copied twice
STANDARD_INPUT = "-"

RESOURCE_KEYS = ("accepts", "resource")
MAX_NEIGHBOURS = 1_000
"""Files of a folder that are compared with a mistyped name."""


class SourceRecord(Struct):
    """A record as its source has it; `fault` is why there is no text to use."""

    position: str
    text: bytes
    fault: InvalidRecord | None = None

    @property
    def is_resource(self) -> bool:
        """Whether it is an entry of a discovery feed rather than a catalogue record."""
        if b'"accepts"' not in self.text and b'"resource"' not in self.text:
            return False
        try:
            keys = raw_members(self.text).keys()
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return b'"endpoints"' not in self.text
        return not keys.isdisjoint(RESOURCE_KEYS) and "endpoints" not in keys


ReadDocument = Callable[[Kind, bytes], Iterator[SourceRecord]]
"""Yields the records that a document of a kind describes."""


def read_records(
    path: str,
    name: str = "",
    *,
    is_lines: bool = False,
    kind: Kind | None = None,
    max_items: int = MAX_ITEMS,
    note: Callable[[str], object] = lambda _: None,
    read_document: ReadDocument | None = None,
) -> Iterator[SourceRecord]:
    """Yield the records of one file, plain, gzip or zstd, or of standard input for `-`.

    JSON lines are streamed; an array or a list envelope is one JSON text and is read whole, up to
    MAX_DOCUMENT bytes. The content tells them apart unless `is_lines` is set. `name` is for
    messages. `note` is called with a remark on an envelope that has fewer items than it states.
    `read_document` yields the records of a document of a kind. Raises SourceError when the source
    is missing, empty, cut short, no list of records, too long, or not of the declared `kind`.
    """
    name = name or path
    with source_errors(name), _open(path) as file:
        source = decompress(file)
        if fault := describe_encoding(source.peek(2)[:2]):
            raise SourceError(f"{name}: {fault}")
        found = open_lines(source) if is_lines else open_list(source, MAX_DOCUMENT, kind)
        count = 0
        for count, record in enumerate(_open_records(found, kind, read_document), 1):
            if count > max_items:
                raise SourceError(
                    f"{name}: has more than {max_items:,} items; raise `max_items` of the source "
                    "if it is right"
                )
            yield record
        stated = read_pagination(found.beside)
        if remark := describe_shortfall(stated.total, count):
            note(remark)
        elif stated.promises:
            note(f"is one page of several: it has `{stated.promises[0]}`, and no others are read")


def _open_records(
    found: ItemList, kind: Kind | None, read_document: ReadDocument | None
) -> Iterator[SourceRecord]:
    """Yield the records of a list or of a document; raises NoList for one of another kind."""
    if found.kind is None:
        if kind is not None and kind not in LISTS:
            raise NoList(f"is not {describe_kind(kind)}; correct its `kind`")
        for position, text in found.items:
            if len(text) > MAX_RECORD:
                yield SourceRecord(position, b"", InvalidRecord("$", TOO_LONG))
            else:
                yield SourceRecord(position, text)
        return
    if read_document is None or kind not in {None, Kind.RESOURCES, found.kind}:
        expected = describe_kind(kind or Kind.RECORDS)
        raise NoList(f"is {describe_kind(found.kind)} where {expected} is expected")
    for _, text in found.items:
        if len(text) > MAX_RECORD:
            raise BeyondBounds(f"is longer than the {MAX_RECORD:,} bytes of a document")
        yield from read_document(found.kind, text)


@contextmanager
def source_errors(name: str) -> Iterator[None]:
    """Turn errors of reading a file into SourceErrors that name it."""
    try:
        yield
    except (NoList, BeyondBounds) as error:
        raise SourceError(f"{name}: {error}") from error
    except DamagedText as error:
        if error.line is None:
            raise SourceError(f"{name}: {error}") from error
        raise SourceError(
            f"{name}:{error.line}: {error}; the file is damaged or cut short, fetch it again"
        ) from error
    except FileNotFoundError as error:
        raise SourceError(f"{name}: there is no such file{_suggest(name)}") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        coding = "zstd" if isinstance(error, ZstdDamaged) else "gzip"
        raise SourceError(
            f"{name}: the {coding} data is damaged or cut short; fetch it again"
        ) from error
    except OSError as error:
        raise SourceError(f"{name}: cannot be read: {error.strerror or error}") from error


def _open(name: str) -> io.BufferedReader:
    if name == STANDARD_INPUT:
        if sys.stdin is None:
            raise SourceError(f"{name}: standard input is closed")
        return io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False))
    return io.BufferedReader(io.FileIO(name), BUFFER)


def _suggest(name: str) -> str:
    path = Path(name)
    try:
        neighbours = [file.name for file in islice(path.parent.iterdir(), MAX_NEIGHBOURS)]
    except OSError:
        return ""
    near = get_close_matches(path.name, neighbours, 1, 0.8)
    return f"; did you mean {one_line(printable(str(path.parent / near[0])))}?" if near else ""
