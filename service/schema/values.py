"""Types of values that the public schema shares: amounts, counts, ids and times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from msgspec import Meta, Raw

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NULL = Raw(b"null")

# `$(?!\n)` is the end of the text in Python and in ECMA 262 alike.
AMOUNT_PATTERN = r"^(?:[0-9]+(?:\.[0-9]+)?)?$(?!\n)"
COUNT_PATTERN = r"^[0-9]{1,19}$(?!\n)"
ID_PATTERN = r"^(?!(?:search|\.\.?)$)[A-Za-z0-9._~-]{1,256}$(?!\n)"

PATTERN_MEANINGS = {
    AMOUNT_PATTERN: "a non-negative decimal such as `0.01`, or an empty string",
    COUNT_PATTERN: "a whole number of at most 19 digits",
    ID_PATTERN: "1 to 256 letters, digits or `-._~`, other than `search`, `.` and `..`",
}

DecimalAmount = Annotated[
    str,
    Meta(
        pattern=AMOUNT_PATTERN,
        max_length=100,
        description="A decimal in units of the currency; empty when no fixed amount is given.",
        examples=["0.01", ""],
    ),
]
DecimalCount = Annotated[
    str, Meta(pattern=COUNT_PATTERN, description="An int64 as a decimal string.")
]
ServiceId = Annotated[str, Meta(pattern=ID_PATTERN, description="Opaque; fit for a URL path.")]
GivenTime = Annotated[datetime, Meta(tz=True)]
Timestamp = Annotated[
    str,
    Meta(
        description="UTC, to the millisecond.",
        examples=["2026-05-07T10:16:51.000Z"],
        extra_json_schema={"format": "date-time"},
    ),
]
NonEmpty = Annotated[str, Meta(min_length=1)]
Whole = Annotated[int, Meta(ge=0)]
Proportion = Annotated[float, Meta(ge=0, le=1)]
Json = dict[str, Any]


def format_timestamp(moment: datetime) -> Timestamp:
    """Format a moment as in every response: UTC, to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
