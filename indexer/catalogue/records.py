"""Records of catalogues: validated, as they came but for a price summary that is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from decimal import ROUND_HALF_DOWN, Context, Decimal
from functools import lru_cache
from itertools import compress

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from indexer.catalogue.derived_ids import can_be_id
from indexer.endpoints import decode_endpoints
from indexer.errors import InvalidRecord
from indexer.intake.rules import fold_address
from indexer.resources.assets import mainnet_prices
from indexer.text import check_depth, check_digits, decode_or_invalid
from indexer.untrusted import raw_items, raw_members
from service.prices import is_of_unit
from service.schema.records import CatalogueRecord, Endpoint, EndpointQuality, PriceSummary, Pricing
from service.urls import as_clients_read, find_url

CENT = Decimal("0.01")
MICRO = Decimal("0.000001")
OURS = "ratecard"
"""The member of responses that has facts of this catalogue, which no source may state."""
EXACT = frozenset(("exact", "", UNSET))
"""Schemes of fixed prices; a price that names none is exact."""

MAX_SERVICE = 2**20  # bytes, as a source states it
MAX_AMENDED = 2 * MAX_SERVICE
"""The bytes of a record with its id, summary and usage, and what an overlay adds."""

_exact = Context(prec=250)  # digits; amounts have at most 100
_decimal = lru_cache(maxsize=1 << 14)(Decimal)


class Record(Struct, gc=False):
    """A valid record, with the values that decide its id and its place in the listing.

    text: compact JSON
    payers: the most that an endpoint states for the last 30 days
    summary: the JSON of the derived `priceSummary`; empty for a record that has its own
    is_plain: whether the URLs of its endpoints need no look at the policy: public and over https
    highest: the greatest amount of a price
    payees: the addresses that its endpoints name in `payTo`
    """

    text: bytes
    id: str | None
    domain: str
    name: str
    enriched: bool
    is_new: bool
    payers: int
    endpoints: int
    summary: bytes
    is_plain: bool
    highest: float
    payees: list[str]


class Identifiers(Struct):
    """The fields that identify a record, valid or not."""

    id: Raw | UnsetType = UNSET
    domain: Raw | UnsetType = UNSET
    resource: Raw | UnsetType = UNSET


_identifiers = msgspec.json.Decoder(Identifiers)
_decoder = msgspec.json.Decoder(CatalogueRecord)


def read_record(text: bytes, max_bytes: int = MAX_SERVICE) -> Record:
    """Validate a record, and derive its `priceSummary` when it has none; raises InvalidRecord."""
    record = decode_or_invalid(_decoder, text)
    check_depth(text)
    check_digits(text)
    compact = _compact(text)
    if len(compact) > max_bytes:
        raise InvalidRecord("$", f"has {len(compact):,} bytes; a service has at most {max_bytes:,}")
    summary = b""
    if record.price_summary is UNSET:
        summary = msgspec.json.encode(summarise_prices(record.endpoints))
    return Record(
        text=_add_summary(compact, summary),
        id=None if record.id is UNSET else record.id,
        domain=_domain(record),
        name=record.name,
        enriched=record.enriched is True,
        is_new=record.is_new is True,
        payers=max((_payers(endpoint.quality) for endpoint in record.endpoints), default=0),
        endpoints=len(record.endpoints),
        summary=summary,
        is_plain=all(_is_plain(endpoint.url) for endpoint in record.endpoints),
        highest=max(
            (float(amount) for each in record.endpoints for amount in _amounts(each.pricing)),
            default=0.0,
        ),
        payees=_payees(compact) if b'"payTo"' in compact else [],
    )


def disbelieve(record: Record, max_price: Decimal) -> list[int]:
    """Take the prices above `max_price` out of a derived summary.

    Returns the numbers of the endpoints with such a price.
    """
    if record.highest <= max_price:
        return []
    text = record.text
    endpoints = _decoder.decode(text).endpoints
    believed = [all(each <= max_price for each in _amounts(one.pricing)) for one in endpoints]
    if record.summary:
        compact = text.removesuffix(_added(record.summary)) + b"}"
        summary = summarise_prices(compress(endpoints, believed))
        record.text = _add_summary(compact, msgspec.json.encode(summary))
    return [number for number, is_believed in enumerate(believed) if not is_believed]


def given_id(text: bytes) -> Raw | None:
    """Return the id of a record, valid or not, as compact JSON, or else its domain or resource.

    Returns None where there is none or it cannot be decoded.
    """
    try:
        record = _identifiers.decode(text)
        values = (record.id, record.domain, record.resource)
        given = next((value for value in values if value is not UNSET), None)
        if given is None:
            return None
        msgspec.json.decode(given)  # a Raw value is not checked when it is skipped
        return Raw(msgspec.json.format(bytes(given), indent=-1))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


def summarise_prices(endpoints: Iterable[Endpoint]) -> PriceSummary | None:
    """Return the range and the average of the prices of a service, or None without any.

    Prices count in the currency of most endpoints, and on test networks only without others. The
    average is over fixed prices of the scheme `exact`; without any the cost varies.
    """
    prices = mainnet_prices(endpoint.pricing for endpoint in endpoints)
    bounded = [(pricing, amounts) for pricing in prices if (amounts := _amounts(pricing))]
    if not bounded:
        if all(pricing.scheme in EXACT for pricing in prices):
            return None
        return PriceSummary(  # another scheme names a price, be it an open-ended one
            min_amount="",
            max_amount="",
            avg_cost_per_transaction="",
            avg_cost_basis="varies",
            currency="",
        )
    currency = Counter(pricing.currency for pricing, _ in bounded).most_common(1)[0][0]
    comparable = [(pricing, own) for pricing, own in bounded if pricing.currency == currency]
    amounts = [amount for _, amounts in comparable for amount in amounts]
    fixed = [
        amounts[0] for pricing, amounts in comparable if pricing.scheme in EXACT and pricing.amount
    ]
    return PriceSummary(
        min_amount=_format(min(amounts)),
        max_amount=_format(max(amounts)),
        avg_cost_per_transaction=_format(_average(fixed)) if fixed else "",
        avg_cost_basis="exact" if fixed else "varies",
        currency=currency,
    )


def _payers(quality: EndpointQuality | UnsetType | None) -> int:
    if isinstance(quality, EndpointQuality) and quality.l30_days_unique_payers is not UNSET:
        return int(quality.l30_days_unique_payers)
    return 0


def _payees(text: bytes) -> list[str]:
    return sorted({fold_address(each.payee) for each in decode_endpoints(text)} - {""})


def _is_plain(url: str) -> bool:
    parsed = find_url(as_clients_read(url))
    if parsed is None:  # the URL of a catalogue record may be any text
        return True
    return parsed.scheme == "https" and not parsed.is_private and not parsed.has_credentials


def _add_summary(compact: bytes, summary: bytes) -> bytes:
    return compact[:-1] + _added(summary) if summary else compact


def _added(summary: bytes) -> bytes:
    return b',"priceSummary":%b}' % summary


def _compact(text: bytes) -> bytes:
    """Return a valid record without white space, and without OURS in it or in its endpoints."""
    compact = msgspec.json.format(text, indent=-1)
    if OURS.encode() not in compact and b"\\u" not in compact:  # a name may have escapes
        return compact
    record = raw_members(compact)
    given = raw_items(record["endpoints"])
    endpoints = [raw_members(endpoint) for endpoint in given]
    if OURS not in record and not any(OURS in endpoint for endpoint in endpoints):
        return compact
    record.pop(OURS, None)
    for endpoint in endpoints:
        endpoint.pop(OURS, None)
    record["endpoints"] = Raw(msgspec.json.encode(endpoints))
    return msgspec.json.encode(record)


def _domain(record: CatalogueRecord) -> str:
    if record.id is not UNSET:
        return record.domain or ""
    if not record.domain:
        raise InvalidRecord("$.id", "there is no id, nor a domain to derive it from")
    if not can_be_id(record.domain):
        raise InvalidRecord("$.domain", "there is no id, and none can be derived from this domain")
    return record.domain


def _amounts(pricing: Pricing) -> list[Decimal]:
    """Return the amounts of a price of a request, the fixed one first."""
    if is_of_unit(pricing.unit_type):
        return []
    given = (pricing.amount, pricing.min_amount, pricing.max_amount)
    return [_decimal(amount) for amount in given if amount]


def _average(amounts: list[Decimal]) -> Decimal:
    """Return the mean, rounded as the public catalogue does: to cents from 1 on, else to 10^-6."""
    total = Decimal(0)
    for amount in amounts:
        total = _exact.add(total, amount)
    average = _exact.divide(total, Decimal(len(amounts)))
    return average.quantize(CENT if average >= 1 else MICRO, ROUND_HALF_DOWN, _exact)


def _format(amount: Decimal) -> str:
    """Return an amount without exponent and trailing zeros."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
