"""Lenient reading: what of a foreign record is of use, where anything may stand in any place."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Raw

_any = msgspec.json.Decoder(float_hook=Decimal)
_control = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def decoded(raw: Raw | None) -> Any:
    """The JSON value with its numbers unrounded, or None where it cannot be decoded."""
    if raw is None:
        return None
    try:
        return _any.decode(raw)
    except (msgspec.MsgspecError, RecursionError, ArithmeticError):
        return None


def mapping(value: Any, key: str) -> dict[str, Any]:
    """The object under this key, empty where there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def text(value: Any, longest: int | None = None) -> str:
    """The text as it is, empty where it is none, blank or too long."""
    if not isinstance(value, str) or not value.strip():
        return ""
    return "" if longest is not None and len(value) > longest else value


def line(value: Any, longest: int) -> str:
    """Text that can stand on a line, without the blanks around it; empty where it is none."""
    found = text(value, longest).strip()
    return "" if _control.search(found) else found
