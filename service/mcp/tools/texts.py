"""Texts of sellers: bounded, on one line, without characters that nobody sees."""

from __future__ import annotations

from math import isfinite
from typing import Any

import msgspec
from msgspec import Raw

ELLIPSIS = "…"

# Variation selectors that carry arbitrary bytes behind any letter.
_HIDDEN = dict.fromkeys([*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)])


def clean(text: str, limit: int) -> str:
    """Return a text on one line of at most this many characters, without unprintable ones.

    Control, format, bidirectional and tag characters become blanks: they could hide a text from a
    person who reads what an agent reads.
    """
    cut = text[: 4 * limit]  # Blanks collapse, so a longer part is seldom needed.
    line = " ".join(printable(cut).split())
    if len(line) <= limit and len(cut) == len(text):
        return line
    return line[: limit - 1].rstrip() + ELLIPSIS


def printable(text: str) -> str:
    """Return a text with a blank for each unprintable character."""
    if text.isascii() and text.isprintable():
        return text
    visible = text.translate(_HIDDEN)
    return "".join(letter if letter.isprintable() else " " for letter in visible)


def decode_printable(text: bytes | memoryview | Raw) -> Any:
    """Decode JSON, with a blank for each unprintable character of its texts."""
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
