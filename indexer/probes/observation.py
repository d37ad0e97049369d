"""Observations: lines of JSON that say how an endpoint answered an unpaid request."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from indexer.text import decode_or_invalid
from indexer.untrusted import parse_moment
from service.urls import MAX_URL

MAX_QUOTES = 100
MAX_TEXT = 256  # characters of a name, an address or an amount
MAX_STATUS = 999
LATENCY = Meta(ge=0, le=2**53 - 1)  # a number that every reader of JSON has
REFUSED = frozenset((401, 403, 405, 429))

ShortText = Annotated[str, Meta(max_length=MAX_TEXT)]


class Outcome(StrEnum):
    """The outcome of one visit.

    QUOTED: 402 with at least one way to pay
    ANSWERED: another response, or a 402 that says no price
    BLOCKED: the visitor was refused: a challenge, 401, 403, 405, 429, or by robots.txt
    UNREACHABLE: no response: DNS, TCP, TLS or a timeout
    NOT_PROBED: the prober did not ask, such as at a private address
    """

    QUOTED = "quoted"
    ANSWERED = "answered"
    BLOCKED = "blocked"
    UNREACHABLE = "unreachable"
    NOT_PROBED = "not_probed"


class Quote(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A way to pay, from an entry of `accepts` of a 402; None for members that it lacks."""

    scheme: ShortText | None = None
    network: ShortText | None = None
    asset: ShortText | None = None
    amount: ShortText | int | None = None
    pay_to: ShortText | None = field(name="payTo", default=None)
    x402_version: int | None = field(name="x402Version", default=None)


class Observation(Struct, kw_only=True):
    """One visit of an endpoint.

    observed_at: ISO 8601 or Unix time, None where the line is undated
    quotes: all entries of the 402; a line with a single `quote` gets a list of one
    prober: the name that the prober gives itself
    wildcard: whether the host answers 402 to a path that cannot exist, None where nobody asked
    bought: observer, id, payment, hash and delivery of a purchase
    """

    URL: ClassVar[str] = "$.url"
    TIME: ClassVar[str] = "$.observed_at"
    bought: ClassVar[tuple[Any, ...]] = (None,) * 5

    url: Annotated[str, Meta(min_length=1, max_length=MAX_URL)]
    method: ShortText = "GET"
    observed_at: ShortText | int | float | None = None
    outcome: Outcome
    status: Annotated[int, Meta(ge=0, le=MAX_STATUS)] | None = None
    latency_ms: Annotated[int, LATENCY] | Annotated[float, LATENCY] | None = None
    quotes: Annotated[list[Quote], Meta(max_length=MAX_QUOTES)] = []
    quote: Quote | UnsetType | None = UNSET
    prober: ShortText = ""
    wildcard: bool | None = None

    def __post_init__(self) -> None:
        if not self.quotes and self.quote:
            self.quotes, self.quote = [self.quote], UNSET

    @property
    def given_time(self) -> str | int | Decimal | None:
        """The time of the visit as it was given, with a fraction as a decimal."""
        given = self.observed_at
        return Decimal(given) if isinstance(given, float) else given

    @property
    def moment(self) -> int:
        """The time of the visit in microseconds of Unix time, NEVER where there is none."""
        return parse_moment(self.given_time)


encode_observation = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Observation)


def decode_observation(text: bytes) -> Observation:
    """Decode a line, whose unknown members are ignored; raises InvalidRecord."""
    return decode_or_invalid(_decoder, text)
