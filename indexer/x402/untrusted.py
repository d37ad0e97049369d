"""Tolerant readers of untrusted JSON: any value may stand in any place."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Raw

_json = msgspec.json.Decoder(float_hook=Decimal)
# Control characters, line and paragraph separators, and those that change the direction of text.
_control = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def decode(raw: Raw | None) -> Any:
    """Decode JSON with its numbers unrounded; return None if it is absent or invalid."""
    if raw is None:
        return None
    try:
        return _json.decode(raw)
    except (msgspec.MsgspecError, RecursionError, ArithmeticError):
        return None


def mapping(value: Any, key: str) -> dict[str, Any]:
    """Return the object under a key, or an empty one."""
    member = value.get(key) if isinstance(value, dict) else None
    return member if isinstance(member, dict) else {}


def text(value: Any, max_length: int | None = None) -> str:
    """Return a string, or an empty one for blank or longer strings and for other values."""
    if not isinstance(value, str) or not value.strip():
        return ""
    return "" if max_length is not None and len(value) > max_length else value


def line(value: Any, max_length: int) -> str:
    """Return a stripped string without control characters, or an empty one."""
    stripped = text(value, max_length).strip()
    return "" if _control.search(stripped) else stripped
