"""Texts of sellers: bounded, on one line, without invisible characters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

T = TypeVar("T")

ELLIPSIS = "…"

# Default_Ignorable_Code_Point of Unicode's DerivedCoreProperties.txt, less what
# `str.isprintable` refuses: two of them that alternate carry any bytes to an agent.
_IGNORABLE_RANGES = (
    (0x034F, 0x034F),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0),
    (0xE0100, 0xE01EF),
)
_IGNORABLE = dict.fromkeys(
    code for first, last in _IGNORABLE_RANGES for code in range(first, last + 1)
)
_ESCAPES = {code: json.dumps(chr(code)).strip('"') for code in _IGNORABLE}


def clean(text: str, limit: int) -> str:
    """Return a text on one line of at most this many characters, without invisible ones."""
    cut = text[: 4 * limit]  # Blanks collapse, so a longer part is seldom needed.
    line = " ".join(printable(cut).split())
    if len(line) <= limit and len(cut) == len(text):
        return line
    return line[: limit - 1].rstrip() + ELLIPSIS


def printable(text: str) -> str:
    """Return a text without ignorable characters, and with blanks for unprintable ones.

    Control, bidirectional and tag characters could hide a text from a person who reads what an
    agent reads.
    """
    if text.isascii() and text.isprintable():
        return text
    visible = text.translate(_IGNORABLE)
    return "".join(letter if letter.isprintable() else " " for letter in visible)


def escape_ignorable(text: str) -> str:
    """Return equivalent JSON, or a command with a JSON body, with ignorable characters escaped."""
    return text.translate(_ESCAPES)


def first_fitting(items: Iterable[T], room: int, size_of: Callable[[T], int]) -> list[T]:
    """Return the first items whose sizes add up to at most `room`; takes no more items."""
    fitting: list[T] = []
    for item in items:
        room -= size_of(item)
        if room < 0:
            break
        fitting.append(item)
    return fitting


def decode_printable(text: bytes | memoryview | Raw) -> Any:
    """Decode JSON, with texts and names as `printable` returns them."""
    return _printable_json(_decoder.decode(text))


def _printable_json(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_printable_json(each) for each in value]
    if isinstance(value, dict):
        return {printable(name): _printable_json(each) for name, each in value.items()}
    return value


def _number(text: str) -> float | str:
    """Return a number, or its text if no double is so large: JSON has no infinity."""
    number = float(text)
    return number if isfinite(number) else text


_decoder = msgspec.json.Decoder(float_hook=_number)
