"""Tolerant readers of untrusted JSON: any value may stand in any place.

Dates are in microseconds of Unix time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import isinf
from typing import Any

import msgspec
from msgspec import Raw

from indexer.errors import InvalidRecord
from indexer.text import check_depth, decode_or_invalid, drop_ignorable
from service.schema.values import EPOCH
from service.urls import ParsedUrl, parse_url

NEVER = -1
"""The moment of a date that is missing, or no date."""
MAX_SECONDS = 10**11  # a greater Unix time is in milliseconds: in seconds this is the year 5138
MICROSECOND = timedelta(microseconds=1)
SECOND = 1_000_000  # microseconds

# Control characters, line and paragraph separators, and embeddings and isolates of direction.
_control = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_string = msgspec.json.Decoder(str)


def _number(text: str) -> Decimal:
    """Return a number unrounded; raises ValueError for one that is beyond a 64-bit float."""
    if isinf(float(text)):
        raise ValueError(text)
    try:
        return Decimal(text)
    except ArithmeticError:  # too near to zero
        return Decimal(0)


_values = msgspec.json.Decoder(dict[str, Any], float_hook=_number)
_members = msgspec.json.Decoder(dict[str, Raw])
raw_members = _members.decode
raw_items = msgspec.json.Decoder(list[Raw]).decode


def decode_object(text: bytes) -> dict[str, Any]:
    """Decode an object with its numbers unrounded.

    Raises InvalidRecord also for numbers that clients cannot decode, as they would refuse the page
    that has them.
    """
    try:
        values = _values.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        decode_or_invalid(_members, text)  # it finds all faults but those of numbers
        check_depth(text)
        reason = "holds a number beyond those of a 64-bit float or with too many digits"
        raise InvalidRecord("$", reason) from error
    check_depth(text)
    return values


def url_or_invalid(url: str, path: str) -> ParsedUrl:
    """Parse a URL that stands at a JSON path of its record; raises InvalidRecord."""
    try:
        return parse_url(url)
    except ValueError as error:
        raise InvalidRecord(path, str(error)) from error


def string_of(raw: Raw) -> str:
    """Return the string that JSON holds, or an empty one for other values."""
    try:
        return _string.decode(raw) if bytes(raw).startswith(b'"') else ""
    except msgspec.MsgspecError:
        return ""


def mapping(value: Any, key: str) -> dict[str, Any]:
    """Return the object under a key, or an empty one."""
    member = value.get(key) if isinstance(value, dict) else None
    return member if isinstance(member, dict) else {}


def items(value: Any, key: str, most: int | None = None) -> list[Any]:
    """Return the elements of the list under a key, as many as are read, or none."""
    member = value.get(key) if isinstance(value, dict) else None
    return member[:most] if isinstance(member, list) else []


def objects(value: Any, key: str, most: int | None = None) -> list[dict[str, Any]]:
    """Return the objects among the elements of the list under a key that are read."""
    return [each for each in items(value, key, most) if isinstance(each, dict)]


def text(value: Any, max_length: int | None = None) -> str:
    """Return a string, or an empty one for blank or longer strings and for other values."""
    if not isinstance(value, str) or not value.strip():
        return ""
    return "" if max_length is not None and len(value) > max_length else value


def line(value: Any, max_length: int) -> str:
    """Return a stripped string without default-ignorable characters.

    An empty one is returned for a string with control characters.
    """
    stripped = text(value, max_length).strip()
    return "" if _control.search(stripped) else drop_ignorable(stripped).strip()


def since_epoch(moment: datetime) -> int:
    """Return a moment in microseconds of Unix time."""
    return (moment - EPOCH) // MICROSECOND


def parse_moment(value: Any) -> int:
    """Return a time in microseconds, from ISO 8601, or from Unix time as in version 2.

    A time without a zone is in UTC.
    """
    if isinstance(value, str):
        try:
            moment = msgspec.convert(value, datetime)
            in_utc = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        except (msgspec.MsgspecError, OverflowError):
            return NEVER
        return NEVER if in_utc < EPOCH else since_epoch(in_utc)
    if not isinstance(value, (int, Decimal)) or isinstance(value, bool):
        return NEVER
    if not 0 <= value < MAX_SECONDS * 1000:
        return NEVER
    return int(value * (10**6 if value < MAX_SECONDS else 1000))
