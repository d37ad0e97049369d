"""Dates of discovered resources, in microseconds of Unix time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from service.schema.values import EPOCH

NEVER = -1
MAX_SECONDS = 10**11  # a greater Unix time is in milliseconds: in seconds this is the year 5138

MICROSECOND = timedelta(microseconds=1)
SECOND = 1_000_000  # microseconds


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
