"""Sources: files of catalogue records or discovery resources, recognised by their content."""

from __future__ import annotations

import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import chain, islice
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from indexer.errors import SourceError
from indexer.text import describe_surrogate, one_line, printable

MAX_RECORD = 16 * 2**20
STANDARD_INPUT = "-"
LOOKED_AT = 1_000
SUFFIXES = (".jsonl", ".ndjson", ".json")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
GZIP_MAGIC = b"\x1f\x8b"

ENVELOPE_KEYS = ("services", "items", "resources")
RECORD_KEYS = frozenset(("name", "endpoints", "accepts"))

# How a line ends, and how the next begins, when a JSON text goes on from one to the other.
OPEN_ENDS = (b"{", b"[", b",", b":")
CONTINUATIONS = (b",", b":", b"]", b"}")


class SourceRecord(Struct):
    """A record as it stands in its source; `fault` says why its text cannot be used."""

    position: str
    text: bytes
    fault: str = ""

    @property
    def is_resource(self) -> bool:
        """Whether it is an entry of a discovery feed, and no catalogue record."""
        if b'"accepts"' not in self.text:
            return False
        try:
            keys = _object.decode(self.text).keys()
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return b'"endpoints"' not in self.text
        return "accepts" in keys and "endpoints" not in keys


_array = msgspec.json.Decoder(list[Raw])
_object = msgspec.json.Decoder(dict[str, Raw])


def expand(names: Iterable[str]) -> list[str]:
    """The files that sources stand for: a folder for its JSON files in order of their names."""
    files: list[str] = []
    for name in names:
        if name != STANDARD_INPUT and Path(name).is_dir():
            found = [str(path) for path in sorted(Path(name).iterdir()) if _is_json(path)]
            if not found:
                raise SourceError(f"{name}: no file here ends in {', '.join(SUFFIXES)} (or .gz)")
            files.extend(found)
        else:
            files.append(name)
    return files


def read_records(path: str, name: str = "") -> Iterator[SourceRecord]:
    """The records of one file, or of standard input for `-`; messages call it by its name.

    JSON lines are read one at a time; an array or a list envelope is one JSON text and is read
    whole. Raises SourceError when the source is missing, empty, cut short or no list of records.
    """
    name = name or path
    with said_of(name), _open(path) as file:
        yield from _read(name, plain(file))


@contextmanager
def said_of(name: str) -> Iterator[None]:
    """Turn whatever keeps a file of this name from being read into a SourceError."""
    try:
        yield
    except FileNotFoundError as error:
        raise SourceError(f"{name}: there is no such file{_meant(name)}") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SourceError(
            f"{name}: the gzip data is damaged or cut short; fetch it again"
        ) from error
    except OSError as error:
        raise SourceError(f"{name}: cannot be read: {error.strerror or error}") from error


def plain(file: io.BufferedReader) -> io.BufferedReader:
    """The file itself, or what it decompresses to when it holds gzip data."""
    if file.peek(2)[:2] == GZIP_MAGIC:
        return io.BufferedReader(gzip.GzipFile(fileobj=file))
    return file


def _meant(name: str) -> str:
    """The file beside it that may have been meant, if there is one."""
    path = Path(name)
    try:
        beside = [found.name for found in islice(path.parent.iterdir(), LOOKED_AT)]
    except OSError:
        return ""
    near = get_close_matches(path.name, beside, 1, 0.8)
    return f"; did you mean {one_line(printable(str(path.parent / near[0])))}?" if near else ""


def _is_json(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith(SUFFIXES) and path.is_file()


def _open(name: str) -> io.BufferedReader:
    if name == STANDARD_INPUT:
        if sys.stdin is None:
            raise SourceError(f"{name}: standard input is closed")
        return io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False))
    return Path(name).open("rb")


def _read(name: str, file: io.BufferedReader) -> Iterator[SourceRecord]:
    number = 1
    line = file.readline().removeprefix(BYTE_ORDER_MARK)
    while line.isspace():
        number += 1
        line = file.readline()
    if not line:
        raise SourceError(f"{name}: is empty; an empty catalogue is written as []")
    blank = _blank(file)
    if _is_document(line, following=file.peek(1)[:1]):
        return _document_records(name, line + blank + file.read(), lines_before=number - 1)
    lines = _lines(file, first=number + 1 + blank.count(b"\n"))
    return _line_records(chain([(number, line)], lines))


def _blank(file: io.BufferedReader) -> bytes:
    """Pass over white space; returns it."""
    blank = bytearray()
    while buffered := file.peek(1):
        passed = len(buffered) - len(buffered.lstrip())
        blank += file.read(passed)
        if passed < len(buffered):
            break
    return bytes(blank)


def _lines(file: io.BufferedReader, first: int) -> Iterator[tuple[int, bytes]]:
    """The lines to come, numbered, of each at most a little more than a record may have."""
    number = first
    while line := file.readline(MAX_RECORD + 1):
        yield number, line
        number += 1
        while len(line) > MAX_RECORD and not line.endswith(b"\n"):
            line = file.readline(MAX_RECORD + 1)


def _is_document(line: bytes, following: bytes) -> bool:
    """Whether the first line starts an array or an envelope, and is no record on its own.

    `following` is the first character after it, empty at the end of the file.
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
    return any(key in keys for key in ENVELOPE_KEYS) and keys.isdisjoint(RECORD_KEYS)


def _line_records(lines: Iterable[tuple[int, bytes]]) -> Iterator[SourceRecord]:
    for number, line in lines:
        text = line.strip()
        if text:
            yield _record(f"line {number}", text)


def _document_records(name: str, text: bytes, lines_before: int) -> Iterator[SourceRecord]:
    try:
        if text.lstrip().startswith(b"["):
            where, records = "", _array.decode(text)
        else:
            where, records = _listed(_object.decode(text))
    except msgspec.ValidationError as error:
        raise SourceError(f"{name}: is no list of services: {error}") from error
    except RecursionError as error:
        raise SourceError(
            f"{name}: a value is nested too deeply to be read; leave it out"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        line = lines_before + 1 + _fault_line(text, str(error))
        damage = f"{error}; the file is damaged or cut short, fetch it again"
        raise SourceError(f"{name}:{line}: {describe_surrogate(text) or damage}") from error
    for index, record in enumerate(records):
        yield _record(f"{where}[{index}]", bytes(record))


def _listed(envelope: dict[str, Raw]) -> tuple[str, list[Raw]]:
    """The key of an envelope's list, and the list."""
    key = next((key for key in ENVELOPE_KEYS if key in envelope), "")
    if not key:
        keys = ", ".join(f"`{key}`" for key in ENVELOPE_KEYS)
        raise msgspec.ValidationError(f"Object misses a list under {keys}")
    try:
        return key, _array.decode(envelope[key])
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"{error} - at `$.{key}`") from error


def _fault_line(text: bytes, message: str) -> int:
    found = re.search(r"\(byte (\d+)\)", message)
    return text.count(b"\n", 0, int(found[1]) if found else len(text.rstrip()))


def _record(position: str, text: bytes) -> SourceRecord:
    if len(text) > MAX_RECORD:
        return SourceRecord(position, b"", f"longer than the {MAX_RECORD:,} bytes of a record")
    return SourceRecord(position, text)
