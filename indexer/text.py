"""Text that others wrote: decompressed, sanitised for terminals, and decoded with its faults."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import zlib
from typing import TypeVar

import msgspec
import numpy as np
from msgspec import Raw

from indexer.errors import InvalidRecord
from service.arrays.files import zstd
from service.schema.values import PATTERN_MEANINGS

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
DAMAGES = (EOFError, zlib.error, gzip.BadGzipFile, zstd.ZstdError)
"""Errors of reading compressed data that are damaged or cut short."""
MAX_RECORD = 16 * 2**20  # bytes
JOINERS = "\u200c\u200d"  # zero width; Persian, Indic scripts and emoji need them
MAX_LINE = 200  # characters
MAX_LEVELS = 200
"""Levels of nesting. The limit of msgspec depends on the stack that is left where it is called, so
that a record near it could be read once and not again."""

# Default_Ignorable_Code_Point of the Unicode Character Database: invisible in most fonts.
_ignorable = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_to_brackets = bytes.maketrans(b"{}", b"[]")
_not_structural = bytes(set(range(256)) - set(b'[]{}"'))
_string = re.compile(b'"[^"]*"')
_long_digits = re.compile(rb"(?<![0-9])[0-9]{4301}")

T = TypeVar("T")


def printable(name: str) -> str:
    """Return a file name as text on one line, with bytes that are not UTF-8 escaped."""
    return one_line(os.fsencode(name).decode("utf-8", "backslashreplace"))


def is_own_text(description: str, url: str) -> bool:
    """Whether a description says anything about an endpoint: it is not blank, nor its URL."""
    words = description.strip()
    _, _, address = url.partition("://")
    path = address.partition("/")[2].partition("?")[0]
    return bool(words) and not words.endswith((url, f"/{path}"))


def one_line(text: str) -> str:
    """Return text on one line, with control and other unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in JOINERS else ascii(letter)[1:-1]
        for letter in text
    )


def shorten(text: str, width: int = MAX_LINE) -> str:
    """Return text on one line as `one_line` does, with white space collapsed, cut at a width."""
    line = " ".join(text.split())
    return one_line(line if len(line) <= width else f"{line[: width - 1]}…")


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def drop_ignorable(text: str) -> str:
    """Return text without default-ignorable characters, which make equal-looking names differ."""
    return text if text.isascii() else _ignorable.sub("", text)


def decompress(file: io.BufferedReader) -> io.BufferedReader:
    """Return a file that decompresses gzip or zstd data, or the file itself when it holds none.

    Frames that refer back further than the 128 MiB of the default window count as damaged.
    """
    start = file.peek(4)
    if start.startswith(ZSTD_MAGIC):
        return io.BufferedReader(zstd.open(file))
    if start.startswith(GZIP_MAGIC):
        return io.BufferedReader(gzip.GzipFile(fileobj=file))
    return file


def describe_encoding(start: bytes) -> str:
    """Return the fault of a text file that starts like UTF-16, or an empty string."""
    is_utf_16 = start.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in start[:2]
    return "is UTF-16; save it as UTF-8" if is_utf_16 else ""


def decode_or_invalid(decoder: msgspec.json.Decoder[T], text: bytes | Raw, path: str = "$") -> T:
    """Decode JSON that stands at a JSON path of its record.

    Raises InvalidRecord with the path of the fault and the reason.
    """
    try:
        if not bytes(text).isascii():
            bytes(text).decode()  # msgspec does not check the encoding of fields that it skips
        return decoder.decode(text)
    except UnicodeDecodeError as error:
        raise InvalidRecord(path, f"is not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise InvalidRecord(path, "is nested too deeply") from error
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$")
        raise InvalidRecord(f"{path}{place.rstrip('`')}", _explain(reason)) from error
    except msgspec.DecodeError as error:
        raise InvalidRecord(path, describe_surrogate(bytes(text)) or str(error)) from error


def check_depth(text: bytes) -> None:
    """Raise InvalidRecord for JSON of more than MAX_LEVELS levels, well-formed up to there."""
    if text.count(b"[") + text.count(b"{") <= MAX_LEVELS:
        return
    unescaped = text.replace(rb"\\", b"").replace(rb"\"", b"")
    structure = unescaped.translate(_to_brackets, _not_structural)
    brackets = np.frombuffer(_string.sub(b"", structure.replace(b'""', b"")), np.uint8)
    steps = np.where(brackets == ord("["), np.int8(1), np.int8(-1))
    if steps.cumsum(dtype=np.int32).max(initial=0) > MAX_LEVELS:
        raise InvalidRecord("$", f"is nested too deeply: it has more than {MAX_LEVELS} levels")


def check_digits(text: bytes) -> None:
    """Raise InvalidRecord for well-formed JSON with an integer that Python's json refuses."""
    if _long_digits.search(text):
        try:
            json.loads(text)
        except ValueError as error:
            raise InvalidRecord("$", "holds an integer of more than 4,300 digits") from error


def describe_surrogate(text: bytes) -> str:
    """Return the fault of JSON with a lone surrogate, or an empty string.

    msgspec reports such JSON as malformed or truncated.
    """
    try:
        value = json.loads(text, parse_int=str)  # of any number of digits
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "holds one half of a surrogate pair, which is no character"
    except (ValueError, RecursionError):
        pass
    return ""


def _explain(reason: str) -> str:
    for pattern, meaning in PATTERN_MEANINGS.items():
        if repr(pattern) in reason:
            return f"Expected {meaning}"
    return reason
