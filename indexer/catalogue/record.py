"""One record: validated, with what is absent and can be derived added, otherwise as it came."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from decimal import ROUND_HALF_DOWN, Context, Decimal
from functools import lru_cache

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from indexer.catalogue.derived_ids import can_be_id
from indexer.errors import InvalidRecord
from indexer.sources.records import SourceRecord
from indexer.text import decode_or_invalid
from indexer.x402.testnets import count_prices
from service.records import (
    CatalogueRecord,
    Endpoint,
    EndpointQuality,
    PriceSummary,
    Pricing,
)

# A record is decoded again when there is less of the stack left, and by readers who allow less.
MOST_LEVELS = 200
# Enough digits to add exactly whatever amounts a record may hold.
_exact = Context(prec=250)
SMALLEST_CENT = Decimal("0.01")
SMALLEST_MICRO = Decimal("0.000001")

SQUARE = bytes.maketrans(b"{}", b"[]")
OTHERS = bytes(set(range(256)) - set(b'[]{}"'))


class Normalised(Struct):
    """A valid record: its compact JSON, and what its id and its place in the order depend on."""

    text: bytes
    id: str | None
    domain: str
    name: str
    enriched: bool
    calls: int
    endpoints: int
    summary_derived: bool


class Given(Struct):
    """What a record may be known by."""

    id: Raw | UnsetType = UNSET
    domain: Raw | UnsetType = UNSET
    resource: Raw | UnsetType = UNSET


_string = re.compile(b'"[^"]*"')
_decimal = lru_cache(maxsize=1 << 14)(Decimal)  # many endpoints charge the same
_given = msgspec.json.Decoder(Given)
_decoder = msgspec.json.Decoder(CatalogueRecord)


def normalise(source: SourceRecord) -> Normalised:
    """Validate one record and derive its `priceSummary` when it has none; raises InvalidRecord."""
    if source.fault:
        raise InvalidRecord("$", source.fault)
    record = decode_or_invalid(_decoder, source.text)
    if _is_deep(source.text):
        raise InvalidRecord("$", f"is nested too deeply: it has more than {MOST_LEVELS} levels")
    compact = msgspec.json.format(source.text, indent=-1)
    summary_derived = record.price_summary is UNSET
    if summary_derived:
        summary = msgspec.json.encode(summarise(record.endpoints))
        compact = b'%b,"priceSummary":%b}' % (compact[:-1], summary)
    domain = _domain(record)
    return Normalised(
        text=compact,
        id=None if record.id is UNSET else record.id,
        domain=domain,
        name=record.name,
        enriched=record.enriched is True,
        calls=sum(count_calls(endpoint.quality) for endpoint in record.endpoints),
        endpoints=len(record.endpoints),
        summary_derived=summary_derived,
    )


def given_id(text: bytes) -> Raw | None:
    """The id of a record that may be faulty, as given, or else its domain, or its resource.

    It is compact, so that it stays on its line. None where it cannot be read.
    """
    try:
        record = _given.decode(text)
        names = (record.id, record.domain, record.resource)
        given = next((name for name in names if name is not UNSET), None)
        if given is None:
            return None
        msgspec.json.decode(given)  # its text was passed over
        return Raw(msgspec.json.format(bytes(given), indent=-1))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


def summarise(endpoints: Iterable[Endpoint]) -> PriceSummary | None:
    """The range and the average of the prices of a service; None when there are none.

    Only prices in the currency of the most priced endpoints count, since others do not compare,
    and those on test networks only where there are no others.
    The average is over the fixed prices of the scheme `exact`; without one the cost varies.
    """
    prices = count_prices(endpoint.pricing for endpoint in endpoints)
    bounded = [(pricing, amounts) for pricing in prices if (amounts := _amounts(pricing))]
    if not bounded:
        if all(pricing.scheme in {"exact", "", UNSET} for pricing in prices):
            return None
        # A price was named, be it open-ended, as every scheme but `exact` allows.
        return PriceSummary(
            min_amount="",
            max_amount="",
            avg_cost_per_transaction="",
            avg_cost_basis="varies",
            currency="",
        )
    currency = Counter(pricing.currency for pricing, _ in bounded).most_common(1)[0][0]
    comparable = [each for each in bounded if each[0].currency == currency]
    amounts = [amount for _, own in comparable for amount in own]
    fixed = [
        own[0]
        for pricing, own in comparable
        if pricing.scheme in {"exact", UNSET} and pricing.amount
    ]
    return PriceSummary(
        min_amount=_plain(min(amounts)),
        max_amount=_plain(max(amounts)),
        avg_cost_per_transaction=_plain(_average(fixed)) if fixed else "",
        avg_cost_basis="exact" if fixed else "varies",
        currency=currency,
    )


def count_calls(quality: EndpointQuality | UnsetType | None) -> int:
    """Calls in the last 30 days, 0 where nothing says."""
    if isinstance(quality, EndpointQuality) and quality.l30_days_total_calls is not UNSET:
        return int(quality.l30_days_total_calls)
    return 0


def _is_deep(text: bytes) -> bool:
    """Whether well-formed JSON has too many levels; few texts have to be looked through."""
    if text.count(b"[") + text.count(b"{") <= MOST_LEVELS:
        return False
    unescaped = text.replace(rb"\\", b"").replace(rb"\"", b"")
    brackets = _string.sub(b"", unescaped.translate(SQUARE, OTHERS).replace(b'""', b""))
    for _ in range(MOST_LEVELS):
        brackets = brackets.replace(b"[]", b"")
    return brackets != b""


def _domain(record: CatalogueRecord) -> str:
    if record.id is not UNSET:
        return record.domain or ""
    if not record.domain:
        raise InvalidRecord("$.id", "there is no id, nor a domain to derive it from")
    if not can_be_id(record.domain):
        raise InvalidRecord("$.domain", "there is no id, and none can be derived from this domain")
    return record.domain


def _amounts(pricing: Pricing) -> list[Decimal]:
    """What it costs at all, the fixed amount first."""
    given = (pricing.amount, pricing.min_amount, pricing.max_amount)
    return [_decimal(amount) for amount in given if amount]


def _average(amounts: list[Decimal]) -> Decimal:
    """To the cent from one unit up, else to the millionth, as the public catalogue rounds."""
    total = Decimal(0)
    for amount in amounts:
        total = _exact.add(total, amount)
    average = _exact.divide(total, Decimal(len(amounts)))
    smallest = SMALLEST_CENT if average >= 1 else SMALLEST_MICRO
    return average.quantize(smallest, ROUND_HALF_DOWN, _exact)


def _plain(amount: Decimal) -> str:
    """Without exponent or trailing zeros."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
