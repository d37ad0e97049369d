"""Texts of sellers: bounded, on one line, without invisible characters."""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any

import msgspec
from msgspec import Raw

# Default_Ignorable_Code_Point of Unicode's DerivedCoreProperties.txt, less what
# `str.isprintable` refuses: two of them that alternate carry any bytes to an agent.
_ignorable = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def clean(text: str, limit: int) -> str:
    """Return a text on one line of at most this many characters, without invisible ones."""
    cut = text[: 4 * limit]  # Blanks collapse, so a longer part is seldom needed.
    line = " ".join(printable(cut).split())
    if len(line) <= limit and len(cut) == len(text):
        return line
    return line[: limit - 1].rstrip() + "…"


def printable(text: str) -> str:
    """Return a text without ignorable characters, and with blanks for unprintable ones.

    Control, bidirectional and tag characters could hide a text from a person who reads what an
    agent reads.
    """
    if text.isascii() and text.isprintable():
        return text
    visible = _ignorable.sub("", text)
    return "".join(letter if letter.isprintable() else " " for letter in visible)


def escape_ignorable(command: str) -> str:
    """Return a command with the ignorable characters of its JSON body escaped."""
    return _ignorable.sub(lambda match: json.dumps(match[0])[1:-1], command)


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


# A number beyond all doubles stays a text: JSON has no infinity.
_decoder = msgspec.json.Decoder(
    float_hook=lambda text: float(text) if isfinite(float(text)) else text
)
