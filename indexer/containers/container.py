"""The list of items that a text holds, recognised by its content."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from indexer.containers.documents import KEYS, recognise
from indexer.containers.elements import split
from indexer.containers.pagination import (
    LIST_KEYS,
    NONE,
    StatedPagination,
    decode_members,
    read_pagination,
)
from indexer.containers.surrogates import mask_surrogates, unmask
from indexer.options import Kind
from indexer.text import BYTE_ORDER_MARK, MAX_RECORD, RECORD_KEYS

CHUNK = 2**20  # bytes
OPEN_ENDS = (b"{", b"[", b",", b":")
"""Ends of a line after which a JSON text continues on the next one."""
CONTINUATIONS = (b",", b":", b"]", b"}")
"""Starts of a line that continues a JSON text."""
DECISIVE_KEYS = {key.encode(): key in RECORD_KEYS for key in (*LIST_KEYS, *RECORD_KEYS, *KEYS)}
"""Keys of an object, and whether each makes it a record."""

_raw = msgspec.json.Decoder(Raw)
# A bracket or a string, also one that is cut short, with the colon that follows a key. Possessive,
# since backtracking would take quadratic time.
_token = re.compile(rb'[][{}]|"([^"\\]*+(?:\\.[^"\\]*+)*+)"?+(\s*+:)?', re.DOTALL)
_opening = re.compile(rb"\s*+\[")
_offset = re.compile(r"\(byte (\d+)\)")


class NoList(Exception):
    """A text is well-formed, but no list of records."""


class BeyondBounds(Exception):
    """A text is longer, or nested more deeply, than can be read."""


class DamagedText(Exception):
    """A text is empty, malformed or cut short, with the number of the line where known."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line


class Container(Struct, frozen=True):
    """A list of items, or a document.

    items: positions and texts, to be read once; only a line may be invalid JSON
    kind: of a document, which is the only item; None for a list
    key: of the list in its envelope; empty for JSON lines, an array and a single record
    is_lines: whether each line is an item; one of more than MAX_RECORD bytes is cut short
    """

    items: Iterator[tuple[str, bytes]]
    kind: Kind | None = None
    key: str = ""
    is_lines: bool = False
    pagination: StatedPagination = NONE


def open_container(file: io.BufferedReader, max_bytes: int, kind: Kind | None = None) -> Container:
    """Read JSON lines as a stream, and an array, an envelope or a document whole.

    An envelope is an object with one of LIST_KEYS and none of RECORD_KEYS; null is an empty list. A
    document has the members of one of FORMATS. Raises NoList, BeyondBounds and DamagedText.

    max_bytes: of an array, an envelope or a document
    kind: the declared kind, for an object that may be an envelope or a document
    """
    number, line = _first_line(file)
    if not line:
        raise DamagedText("is empty; a list of nothing is written as []")
    is_cut = len(line) > MAX_RECORD
    skipped = 0 if is_cut else _skip_blanks(file)
    start = line.lstrip()[:1]
    is_document = start == b"["
    if start == b"{":
        is_document = _starts_document(line) if is_cut else _is_document(line, file.peek(1)[:1])
    if not is_document:
        return Container(_lines(file, number, line, skipped), is_lines=True)
    # Blank lines are replaced, so that a fault keeps its line.
    text = _read_rest(file, line + b"\n" * min(skipped, MAX_RECORD), max_bytes)
    del line
    return _open_text(text, number, kind)


def open_lines(file: io.BufferedReader) -> Container:
    """Read JSON lines, whatever the first line looks like; an empty file has none."""
    line = file.readline(MAX_RECORD + 1).removeprefix(BYTE_ORDER_MARK)
    return Container(_lines(file, 1, line), is_lines=True)


def describe_shortfall(total: int | None, received: int) -> str:
    """Return a remark on a list that is shorter than its stated total, or an empty string."""
    if total is None or received >= total:
        return ""
    return f"states a total of {total:,} items and gives {received:,}"


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


def _is_document(line: bytes, following: bytes) -> bool:
    """Whether a first line with an object starts an envelope and is no record on its own.

    `following` is the next character that is not blank, empty at the end of the file.
    """
    try:
        members = decode_members(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if not following:
            return any(f'"{key}"'.encode() in line for key in (*LIST_KEYS, *KEYS))
        return line.rstrip().endswith(OPEN_ENDS) or following in CONTINUATIONS
    is_list = any(key in members for key in LIST_KEYS)
    return not RECORD_KEYS & members.keys() and (is_list or recognise(members) is not None)


def _starts_document(prefix: bytes) -> bool:
    """Whether an object that is longer than a record may be is an envelope.

    The first key with a meaning decides, since reading all of them takes a second.
    """
    depth = 0
    for token in _token.finditer(prefix):
        if token[0] in b"[{":
            depth += 1
        elif token[0] in b"]}":
            depth -= 1
        elif depth == 1 and token[2] and token[1] in DECISIVE_KEYS:
            return not DECISIVE_KEYS[token[1]]
    return False


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


def _open_text(text: bytes, first_line: int, kind: Kind | None) -> Container:
    try:
        return _open_document(text, text, first_line, kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        offset = _offset.search(str(error))
        line = first_line + text.count(b"\n", 0, int(offset[1]) if offset else len(text.rstrip()))
        fault = DamagedText(str(error), line)
    masked = mask_surrogates(text)
    try:
        return _open_document(masked, text, first_line, kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise fault from error


def _open_document(masked: bytes, text: bytes, first_line: int, kind: Kind | None) -> Container:
    """Open a JSON text that is decoded as `masked`; raises DecodeError for a malformed one."""
    try:
        if opening := _opening.match(text):
            _raw.decode(masked)
            elements = split(masked, opening.end(), text.rindex(b"]"))
            return Container(_items("", elements, masked, masked, text))
        members = decode_members(masked)
    except RecursionError as error:
        raise BeyondBounds(
            "holds a value that is nested too deeply to be read; leave it out"
        ) from error
    if RECORD_KEYS & members.keys():
        return Container(iter([(f"line {first_line}", text.strip())]))
    if document := recognise(members, kind):
        if document.kind is None:
            raise NoList(f"is {document.name}, which is not read; {document.advice}")
        return Container(iter([("", text.strip())]), document.kind)
    key = next((key for key in LIST_KEYS if key in members), "")
    if not key:
        keys = ", ".join(f"`{key}`" for key in LIST_KEYS)
        raise NoList(f"is not a list of services or resources: it has no list under {keys}")
    pagination = read_pagination(members)
    body = bytes(members[key])
    if not body.startswith(b"["):
        if body != b"null":
            raise NoList(f"is not a list of services or resources: `{key}` has another value")
        return Container(iter(()), key=key, pagination=pagination)
    items = _items(key, split(body, 1, len(body) - 1), body, masked, text)
    return Container(items, key=key, pagination=pagination)


def _items(
    key: str, elements: Iterator[Raw], body: bytes, masked: bytes, text: bytes
) -> Iterator[tuple[str, bytes]]:
    """Return the positions of the elements of `body`, and their texts as `text` has them."""
    texts: Iterator[bytes] = map(bytes, elements)
    if masked is not text:
        texts = unmask(elements, body, text, masked.index(body))
    return ((f"{key}[{index}]", each) for index, each in enumerate(texts))
