"""The items of a text: JSON lines, an array, a list in an envelope, or one document or record."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import chain, count

import msgspec
from msgspec import Raw, Struct

from indexer.errors import InvalidRecord, SourceError
from indexer.intake.forms import (
    LISTS,
    RECORD_LISTS,
    NoList,
    describe_kind,
    describe_start,
    find_list,
    has_key,
    known_members,
    mask_surrogates,
    recognise,
    split,
)
from indexer.intake.pagination import describe_shortfall, read_pagination
from indexer.options import DOCUMENTS, Kind
from indexer.text import BYTE_ORDER_MARK, DAMAGES, MAX_RECORD, decompress, describe_encoding
from indexer.untrusted import raw_members

CHUNK = 2**20  # bytes
START = 4096  # bytes by which a text that is no JSON is named
BUFFER = 2**18  # bytes; lines across the end of a buffer are copied twice
MAX_DOCUMENT = 2 * 2**30  # bytes
MAX_ITEMS = 10_000_000
TOO_LONG = f"longer than the {MAX_RECORD:,} bytes of a record"
STANDARD_INPUT = "-"
LIST_KINDS = (Kind.RESOURCES, Kind.RECORDS)
"""Kinds of sources that are lists and not documents."""
DECISIVE = frozenset((*map(str.encode, LISTS), b"paths"))
"""Keys by which an object that is longer than a record is an envelope or a document."""
OPEN_ENDS = (b"{", b"[", b",", b":")
"""Ends of a line after which a JSON text continues on the next one."""
RESOURCE_KEYS = ("accepts", "resource")

_raw = msgspec.json.Decoder(Raw)
_offset = re.compile(r"\(byte (\d+)\)")


class BeyondBounds(Exception):
    """A text is longer, or nested more deeply, than can be read."""


class DamagedText(Exception):
    """A text is empty, malformed or cut short, with the number of the line where known."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line


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


class ItemList(Struct, frozen=True):
    """The items of a text, or the document that it is.

    items: positions and texts, to be read once; only a line may be invalid JSON
    kind: of a document, which is the only item; None for a list
    key: of the list in its envelope; empty for JSON lines, an array and a single record
    beside: the envelope without its list
    is_lines: whether each line is an item; one of more than MAX_RECORD bytes is cut short
    """

    items: Iterator[tuple[str, bytes]]
    kind: Kind | None = None
    key: str = ""
    beside: bytes = b""
    is_lines: bool = False


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
        most = MAX_RECORD if kind in DOCUMENTS else MAX_DOCUMENT
        found = open_lines(source) if is_lines else open_list(source, most, kind)
        number = 0
        for number, record in enumerate(_records(found, kind, read_document), 1):
            if number > max_items:
                raise SourceError(
                    f"{name}: has more than {max_items:,} items; raise `max_items` of the source "
                    "if it is right"
                )
            yield record
        stated = read_pagination(found.beside)
        if remark := describe_shortfall(stated.total, number):
            note(remark)
        elif stated.promises:
            note(f"is one page of several: it has `{stated.promises[0]}`, and no others are read")


def _records(
    found: ItemList, kind: Kind | None, read_document: ReadDocument | None
) -> Iterator[SourceRecord]:
    """Yield the records of a list or of a document; raises NoList for one of another kind."""
    if found.kind is None:
        if kind is not None and kind not in (*LIST_KINDS, Kind.PROBES):
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


def open_list(file: io.BufferedReader, max_bytes: int, kind: Kind | None = None) -> ItemList:
    """Read JSON lines as a stream, and one JSON text whole.

    Several objects, each on a line, are JSON lines; white space decides nothing else. Raises
    NoList, BeyondBounds and DamagedText.

    max_bytes: of one JSON text
    kind: the kind that the operator declares
    """
    if advice := describe_start(file.peek(START)[:START].removeprefix(BYTE_ORDER_MARK)):
        raise NoList(advice)
    lines = _lines(file)
    number, line = next(lines, (0, b""))
    if not number and kind is Kind.PROBES:
        return open_lines(file)
    if not number:
        raise DamagedText("is empty; a list of nothing is written as []")
    is_cut = len(line) > MAX_RECORD  # reading on would skip the rest of the line
    second, following = (number, b"") if is_cut else next(lines, (number, b""))
    if _is_item(line, following):
        start = [(number, line), (second, following)]
        return ItemList(_items(chain(start, lines)), is_lines=True)
    blanks = b"\n" * min(second - number - 1, MAX_RECORD)  # so that a fault keeps its line
    pieces = [line, blanks, following]
    lines.close()
    del lines, line, following  # before the text is joined, which takes their memory again
    text = _join(pieces, file, max_bytes)
    if len(text) > max_bytes and kind in DOCUMENTS:
        raise BeyondBounds(f"is longer than the {max_bytes:,} bytes of a document")
    if len(text) > max_bytes:
        raise BeyondBounds(
            f"is one JSON text of more than {max_bytes:,} bytes; write it as JSON lines, which "
            "are read one at a time"
        )
    return _open_text(text, number, kind)


def open_lines(file: io.BufferedReader) -> ItemList:
    """Read JSON lines, whatever the first line looks like; an empty file has none."""
    return ItemList(_items(_lines(file)), is_lines=True)


def _lines(file: io.BufferedReader) -> Generator[tuple[int, bytes]]:
    """Yield the lines that are not blank and their numbers, at most MAX_RECORD + 1 bytes of each.

    The rest of a line is left in the file until the next one is asked for.
    """
    if file.peek(len(BYTE_ORDER_MARK)).startswith(BYTE_ORDER_MARK):
        file.read(len(BYTE_ORDER_MARK))
    for number in count(1):
        line = file.readline(MAX_RECORD + 1)
        if not line:
            return
        if len(line) > MAX_RECORD or not line.isspace():
            yield number, line
        while len(line) > MAX_RECORD and not line.endswith(b"\n"):
            line = file.readline(MAX_RECORD + 1)


def _items(lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[str, bytes]]:
    for number, line in lines:
        text = line if len(line) > MAX_RECORD else line.strip()
        if text:
            yield f"line {number}", text


def _is_item(line: bytes, following: bytes) -> bool:
    """Whether the first line is an item of lines, before another line.

    A line that is longer than a record is an item unless it starts an envelope or a document.
    """
    start = line.lstrip()
    if not start.startswith(b"{"):
        return not start.startswith(b"[")
    if len(line) > MAX_RECORD:
        return not has_key(start, DECISIVE)
    if not following:
        return False
    try:
        members = known_members(mask_surrogates(line))
    except (msgspec.DecodeError, RecursionError):
        is_object = following.lstrip().startswith(b"{")
        return is_object and not line.rstrip().endswith(OPEN_ENDS)
    return not members.keys().isdisjoint(RECORD_LISTS) or not find_list(members)


def _join(pieces: list[bytes], file: io.BufferedReader, max_bytes: int) -> bytes:
    """Return one text of these pieces, which are emptied, and the rest of a file.

    It is not read to its end once it is longer than `max_bytes`.
    """
    text = io.BytesIO()  # returns its content without a copy
    while pieces:
        text.write(pieces.pop(0))
    size = text.tell()
    while size <= max_bytes and (piece := file.read(CHUNK)):
        size += text.write(piece)
    return text.getvalue()


def _open_text(text: bytes, first_line: int, kind: Kind | None) -> ItemList:
    if kind is Kind.PROBES and not text.lstrip().startswith(b"["):
        return ItemList(iter([(f"line {first_line}", text.strip())]))
    try:
        masked = _check(text, first_line)
        if text.lstrip().startswith(b"["):
            return ItemList(_numbered("", text.strip()))
        members = known_members(masked)
    except RecursionError as error:
        raise BeyondBounds(
            "holds a value that is nested too deeply to be read; leave it out"
        ) from error
    key, document = recognise(members, kind)
    if document is not None:
        return ItemList(iter([("", text.strip())]), document)
    if not key:
        return ItemList(iter([(f"line {first_line}", text.strip())]))
    view = memoryview(members[key])
    start = masked.index(view)
    end = start + len(view)
    del masked, members, view
    beside = (text[:start] + b"null" + text[end:]).strip()
    return ItemList(_numbered(key, text[start:end]), key=key, beside=beside)


def _check(text: bytes, first_line: int) -> bytes:
    """Return a text without lone surrogates; raises DamagedText unless that is JSON."""
    try:
        _raw.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        masked = mask_surrogates(text)  # as long as the text
        try:
            _raw.decode(masked)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            offset = _offset.search(str(error))
            end = int(offset[1]) if offset else len(text.rstrip())
            line = first_line + text.count(b"\n", 0, end)
            raise DamagedText(str(error), line) from error
        return masked
    return text


def _numbered(key: str, body: bytes) -> Iterator[tuple[str, bytes]]:
    """Return the elements of a list, or of null, with their positions."""
    elements = split(body) if body.startswith(b"[") else ()
    return ((f"{key}[{number}]", element) for number, element in enumerate(elements))


@contextmanager
def source_errors(name: str) -> Iterator[None]:
    """Turn errors of reading a file into SourceErrors that name it."""
    try:
        yield
    except (NoList, BeyondBounds) as error:
        raise SourceError(f"{name}: {error}") from error
    except DamagedText as error:
        line = "" if error.line is None else f":{error.line}"
        advice = "; the file is damaged or cut short, fetch it again" if line else ""
        raise SourceError(f"{name}{line}: {error}{advice}") from error
    except FileNotFoundError as error:
        place = "" if error.filename == name else f" as {error.filename}"
        raise SourceError(f"{name}: there is no such file{place}") from error
    except DAMAGES as error:
        fault = "the compressed data is damaged or cut short; fetch it again"
        raise SourceError(f"{name}: {fault}") from error
    except OSError as error:
        raise SourceError(f"{name}: cannot be read: {error.strerror or error}") from error


def _open(name: str) -> io.BufferedReader:
    if name == STANDARD_INPUT:
        if sys.stdin is None:
            raise SourceError(f"{name}: standard input is closed")
        return io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False))
    return io.BufferedReader(io.FileIO(name), BUFFER)
