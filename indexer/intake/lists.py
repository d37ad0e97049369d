"""The items of a text: JSON lines, an array, a list in an envelope, or one document or record."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from indexer.intake.forms import (
    LISTS,
    RECORD_LISTS,
    NoList,
    describe_start,
    find_list,
    has_key,
    known_members,
    mask_surrogates,
    recognise,
    split,
)
from indexer.options import Kind
from indexer.text import BYTE_ORDER_MARK, MAX_RECORD

CHUNK = 2**20  # bytes
START = 4096  # bytes by which a text that is no JSON is named
DECISIVE = frozenset((*map(str.encode, LISTS), b"paths"))
"""Keys by which an object that is longer than a record is an envelope or a document."""
OPEN_ENDS = (b"{", b"[", b",", b":")
"""Ends of a line after which a JSON text continues on the next one."""

_raw = msgspec.json.Decoder(Raw)
_offset = re.compile(r"\(byte (\d+)\)")


class BeyondBounds(Exception):
    """A text is longer, or nested more deeply, than can be read."""


class DamagedText(Exception):
    """A text is empty, malformed or cut short, with the number of the line where known."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line


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


def open_list(file: io.BufferedReader, max_bytes: int, kind: Kind | None = None) -> ItemList:
    """Read JSON lines as a stream, and one JSON text whole.

    Several objects, each on a line, are JSON lines; white space decides nothing else. Raises
    NoList, BeyondBounds and DamagedText.

    max_bytes: of one JSON text
    kind: the kind that the operator declares
    """
    if advice := describe_start(file.peek(START)[:START].removeprefix(BYTE_ORDER_MARK)):
        raise NoList(advice)
    number, line = _first_line(file)
    if not line:
        raise DamagedText("is empty; a list of nothing is written as []")
    is_cut = len(line) > MAX_RECORD
    skipped = 0 if is_cut else _skip_blanks(file)
    if line.lstrip().startswith(b"{") and _is_one_of_lines(line, file.peek(1)[:1], is_cut=is_cut):
        return ItemList(_lines(file, number, line, skipped), is_lines=True)
    if not line.lstrip().startswith((b"{", b"[")):
        return ItemList(_lines(file, number, line, skipped), is_lines=True)
    # Blank lines are replaced, so that a fault keeps its line.
    text = _read_rest(file, line + b"\n" * min(skipped, MAX_RECORD), max_bytes)
    del line
    return _open_text(text, number, kind)


def open_lines(file: io.BufferedReader) -> ItemList:
    """Read JSON lines, whatever the first line looks like; an empty file has none."""
    line = file.readline(MAX_RECORD + 1).removeprefix(BYTE_ORDER_MARK)
    return ItemList(_lines(file, 1, line), is_lines=True)


def _first_line(file: io.BufferedReader) -> tuple[int, bytes]:
    """Return the first line that is not blank, at most MAX_RECORD + 1 bytes of it, and its number.

    The line is empty at the end of the file.
    """
    number = 1
    line = file.readline(MAX_RECORD + 1).removeprefix(BYTE_ORDER_MARK)
    while line.isspace():
        number += line.endswith(b"\n")
        line = file.readline(MAX_RECORD + 1)
    return number, line


def _skip_blanks(file: io.BufferedReader) -> int:
    """Skip white space; returns how many lines it ends."""
    lines = 0
    while buffered := file.peek(1):
        length = len(buffered) - len(buffered.lstrip())
        lines += file.read(length).count(b"\n")
        if length < len(buffered):
            break
    return lines


def _is_one_of_lines(line: bytes, following: bytes, *, is_cut: bool) -> bool:
    """Whether a line that starts an object is an item, before a character that is not blank.

    A line that is longer than a record is an item unless it starts an envelope or a document.
    """
    if is_cut:
        return not has_key(line.lstrip(), DECISIVE)
    if not following:
        return False
    try:
        members = known_members(mask_surrogates(line))
    except (msgspec.DecodeError, RecursionError):
        return following == b"{" and not line.rstrip().endswith(OPEN_ENDS)
    return not members.keys().isdisjoint(RECORD_LISTS) or not find_list(members)


def _lines(
    file: io.BufferedReader, number: int, line: bytes, skipped: int = 0
) -> Iterator[tuple[str, bytes]]:
    """Yield each line from this one on, after which `skipped` lines were blank."""
    readline = file.readline
    while line:
        if len(line) > MAX_RECORD:
            yield f"line {number}", line
            while len(line) > MAX_RECORD and not line.endswith(b"\n"):
                line = readline(MAX_RECORD + 1)
        elif text := line.strip():
            yield f"line {number}", text
        line = readline(MAX_RECORD + 1)
        number += 1 + skipped
        skipped = 0


def _read_rest(file: io.BufferedReader, start: bytes, max_bytes: int) -> bytes:
    text = io.BytesIO()  # returns its content without a copy
    size = text.write(start)
    while size <= max_bytes and (piece := file.read(CHUNK)):
        size += text.write(piece)
    if size > max_bytes:
        raise BeyondBounds(
            f"is one JSON text of more than {max_bytes:,} bytes; write it as JSON lines, which "
            "are read one at a time"
        )
    return text.getvalue()


def _open_text(text: bytes, first_line: int, kind: Kind | None) -> ItemList:
    try:
        masked = _check(text, first_line)
        if text.lstrip().startswith(b"["):
            return ItemList(_numbered("", text.strip()))
        members = known_members(masked)
    except RecursionError as error:
        raise BeyondBounds(
            "holds a value that is nested too deeply to be read; leave it out"
        ) from error
    form = recognise(members, kind)
    if form.kind is not None:
        return ItemList(iter([("", text.strip())]), form.kind)
    if not form.key:
        return ItemList(iter([(f"line {first_line}", text.strip())]))
    view = memoryview(members[form.key])
    start = masked.index(view)
    end = start + len(view)
    del masked, members, view
    beside = (text[:start] + b"null" + text[end:]).strip()
    return ItemList(_numbered(form.key, text[start:end]), key=form.key, beside=beside)


def _check(text: bytes, first_line: int) -> bytes:
    """Return a text without lone surrogates; raises DamagedText unless that is JSON."""
    try:
        _raw.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        masked = mask_surrogates(text)
        try:
            _raw.decode(masked)
        except (msgspec.DecodeError, UnicodeDecodeError):
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
