"""Records of a file: JSON lines, a JSON array or a list envelope, recognised by their content."""

from __future__ import annotations

import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from indexer.errors import SourceError
from indexer.text import (
    BYTE_ORDER_MARK,
    GZIP_MAGIC,
    MAX_RECORD,
    RECORD_KEYS,
    describe_surrogate,
    one_line,
    printable,
)

MAX_DOCUMENT = 2 * 2**30  # bytes
CHUNK = 2**20  # bytes
BUFFER = 2**18  # bytes; lines across the end of a buffer are copied twice
STANDARD_INPUT = "-"

ENVELOPE_KEYS = ("services", "items", "resources")
RESOURCE_KEYS = ("accepts", "resource")
OPEN_ENDS = (b"{", b"[", b",", b":")
"""Ends of a line after which a JSON text continues on the next one."""
CONTINUATIONS = (b",", b":", b"]", b"}")
"""Starts of a line that continues a JSON text."""
MAX_NEIGHBOURS = 1_000
"""Files of a folder that are compared with a mistyped name."""

_array = msgspec.json.Decoder(list[Raw])
_object = msgspec.json.Decoder(dict[str, Raw])
# A bracket or a string, also one that is cut short, with the colon that follows a key. Possessive,
# since backtracking would take quadratic time.
_token = re.compile(rb'[][{}]|"([^"\\]*+(?:\\.[^"\\]*+)*+)"?+(\s*+:)?', re.DOTALL)


class SourceRecord(Struct):
    """A record as its source has it; `fault` says why its text cannot be used."""

    position: str
    text: bytes
    fault: str = ""

    @property
    def is_resource(self) -> bool:
        """Whether it is an entry of a discovery feed rather than a catalogue record."""
        if b'"accepts"' not in self.text and b'"resource"' not in self.text:
            return False
        try:
            keys = _object.decode(self.text).keys()
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return b'"endpoints"' not in self.text
        return not keys.isdisjoint(RESOURCE_KEYS) and "endpoints" not in keys


def read_records(path: str, name: str = "") -> Iterator[SourceRecord]:
    """Yield the records of one file, plain or gzip, or of standard input for `-`.

    JSON lines are streamed; an array or a list envelope is one JSON text and is read whole, up to
    MAX_DOCUMENT bytes. `name` is for messages.
    Raises SourceError when the source is missing, empty, cut short or no list of records.
    """
    name = name or path
    with source_errors(name), _open(path) as file:
        yield from _read(name, decompress(file))


@contextmanager
def source_errors(name: str) -> Iterator[None]:
    """Turn errors of reading a file into SourceErrors that name it."""
    try:
        yield
    except FileNotFoundError as error:
        raise SourceError(f"{name}: there is no such file{_suggest(name)}") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SourceError(
            f"{name}: the gzip data is damaged or cut short; fetch it again"
        ) from error
    except OSError as error:
        raise SourceError(f"{name}: cannot be read: {error.strerror or error}") from error


def decompress(file: io.BufferedReader) -> io.BufferedReader:
    """Return a file that decompresses gzip data, or the file itself when it holds none."""
    if file.peek(2)[:2] == GZIP_MAGIC:
        return io.BufferedReader(gzip.GzipFile(fileobj=file))
    return file


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


def _read(name: str, file: io.BufferedReader) -> Iterator[SourceRecord]:
    number, line = _first_line(file)
    if not line:
        raise SourceError(f"{name}: is empty; a list of nothing is written as []")
    skipped = 0
    if len(line) > MAX_RECORD:
        is_document = _starts_document(line)
    else:
        skipped = _skip_blanks(file)
        is_document = _is_document(line, following=file.peek(1)[:1])
    if not is_document:
        return _line_records(file, number, line, skipped)
    # Blank lines are replaced, so that a fault keeps its line.
    text = _read_rest(name, file, line + b"\n" * min(skipped, MAX_RECORD))
    return _document_records(name, text, number)


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
    """Whether a first line starts an array or an envelope and is no record on its own.

    `following` is the next character that is not blank, empty at the end of the file.
    """
    start = line.lstrip()[:1]
    if start != b"{":
        return start == b"["
    try:
        keys = _object.decode(line).keys()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if not following:
            return any(f'"{key}"'.encode() in line for key in ENVELOPE_KEYS)
        return line.rstrip().endswith(OPEN_ENDS) or following in CONTINUATIONS
    return not RECORD_KEYS & keys and any(key in keys for key in ENVELOPE_KEYS)


def _starts_document(prefix: bytes) -> bool:
    """Whether a first line that is longer than a record may be starts an array or an envelope."""
    start = prefix.lstrip()[:1]
    if start != b"{":
        return start == b"["
    keys = set()
    depth = 0
    for token in _token.finditer(prefix):
        if token[0] in b"[{":
            depth += 1
        elif token[0] in b"]}":
            depth -= 1
        elif depth == 1 and token[2]:
            keys.add(token[1].decode(errors="replace"))
    return keys.isdisjoint(RECORD_KEYS) and not keys.isdisjoint(ENVELOPE_KEYS)


def _line_records(
    file: io.BufferedReader, number: int, line: bytes, skipped: int
) -> Iterator[SourceRecord]:
    """Yield the record of each line from this one on, after which `skipped` lines were blank."""
    while line:
        text = line if _is_cut(line) else line.strip()
        if text:
            yield _record(f"line {number}", text)
        while _is_cut(line):
            line = file.readline(MAX_RECORD + 1)
        line = file.readline(MAX_RECORD + 1)
        number += 1 + skipped
        skipped = 0


def _is_cut(line: bytes) -> bool:
    return len(line) > MAX_RECORD and not line.endswith(b"\n")


def _read_rest(name: str, file: io.BufferedReader, start: bytes) -> bytes:
    pieces = [start, *islice(iter(lambda: file.read(CHUNK), b""), MAX_DOCUMENT // CHUNK)]
    if file.peek(1):
        raise SourceError(
            f"{name}: is one JSON text of more than {MAX_DOCUMENT:,} bytes; write it as JSON "
            "lines, which are read one at a time"
        )
    return b"".join(pieces)


def _document_records(name: str, text: bytes, first_line: int) -> Iterator[SourceRecord]:
    try:
        if text[:MAX_RECORD].lstrip().startswith(b"["):
            where, records = "", _array.decode(text)
        else:
            where, records = _open_envelope(_object.decode(text))
    except msgspec.ValidationError as error:
        raise SourceError(f"{name}: is no list of services: {error}") from error
    except RecursionError as error:
        raise SourceError(
            f"{name}: a value is nested too deeply to be read; leave it out"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        offset = re.search(r"\(byte (\d+)\)", str(error))
        line = first_line + text.count(b"\n", 0, int(offset[1]) if offset else len(text.rstrip()))
        damage = f"{error}; the file is damaged or cut short, fetch it again"
        raise SourceError(f"{name}:{line}: {describe_surrogate(text) or damage}") from error
    for index, record in enumerate(records):
        yield _record(f"{where}[{index}]", bytes(record))


def _open_envelope(envelope: dict[str, Raw]) -> tuple[str, list[Raw]]:
    """Return the key of an envelope's list, and the list."""
    key = next((key for key in ENVELOPE_KEYS if key in envelope), "")
    if not key:
        keys = ", ".join(f"`{key}`" for key in ENVELOPE_KEYS)
        raise msgspec.ValidationError(f"Object misses a list under {keys}")
    try:
        return key, _array.decode(envelope[key])
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"{error} - at `$.{key}`") from error


def _record(position: str, text: bytes) -> SourceRecord:
    if len(text) > MAX_RECORD:
        return SourceRecord(position, b"", f"longer than the {MAX_RECORD:,} bytes of a record")
    return SourceRecord(position, text)
