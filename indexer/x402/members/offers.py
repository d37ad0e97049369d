"""Offers of documents: their price, how those of several documents are merged, contradictions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import combinations

from msgspec import UNSET

from indexer.assets.stablecoins import is_usd
from indexer.x402.members.prices import Accepted
from service.schema.offers import PaymentOffer
from service.schema.records import Pricing

MAX_OFFERS = 32  # of one operation
MAX_NAME = 100  # characters
MAX_DESCRIPTION = 500
X402, MPP = "x402", "mpp"
EXACT, DYNAMIC, CHARGE = "exact", "dynamic", "charge"
USD = "USD"
UNBOUNDED = Decimal("Infinity")

Rail = tuple[str, str, str, str, str]
Range = tuple[Decimal, Decimal]


def price_of(offers: Sequence[PaymentOffer]) -> tuple[Pricing, PaymentOffer | None]:
    """Return the price by the first offer that fixes one, else by the first with bounds.

    The price of another unit than a request is no price of a request.
    """
    if not offers:
        return Pricing(amount="", currency=""), None
    best = min(offers, key=_rank)
    scheme = best.method or best.protocol
    if best.protocol == X402:
        scheme = EXACT if best.amount else DYNAMIC
    if best.unit:
        pricing = Pricing(
            amount="",
            currency=best.currency,
            scheme=scheme,
            unit_type=best.unit,
            unit_amount=best.amount or best.max_amount or UNSET,
        )
        return pricing, best
    has_price = best.amount or best.min_amount or best.max_amount
    pricing = Pricing(
        amount=best.amount,
        currency=best.currency if has_price else "",
        scheme=scheme,
        min_amount=best.min_amount or UNSET,
        max_amount=best.max_amount or UNSET,
    )
    return pricing, best


def _rank(offer: PaymentOffer) -> int:
    if offer.unit:
        return 2
    return 0 if offer.amount else 1 if offer.min_amount or offer.max_amount else 3


def merge_offers(stated: Iterable[Sequence[PaymentOffer]]) -> list[PaymentOffer]:
    """Return the offers of several documents; those of one rail and kind come from the first."""
    merged: dict[tuple[str, Rail], Sequence[PaymentOffer]] = {}
    for offers in stated:
        groups: dict[tuple[str, Rail], list[PaymentOffer]] = defaultdict(list)
        for each in offers:
            groups[each.stated_by, _rail(each)].append(each)
        merged = groups | merged
    return [each for offers in merged.values() for each in offers][:MAX_OFFERS]


def find_contradiction(accepted: Accepted, offers: Sequence[PaymentOffer]) -> str:
    """Return two prices of one rail that have no amount in common, or an empty string."""
    stated: dict[Rail, dict[str, list[Range]]] = defaultdict(lambda: defaultdict(list))
    for each in offers:
        if bounds := _range(each):
            stated[_rail(each)][each.stated_by].append(bounds)
    for rail, bounds in _accepted_ranges(accepted):
        stated[rail]["accepts"].append(bounds)
    for rail, statements in stated.items():
        for (one, ranges), (other, others) in combinations(statements.items(), 2):
            if not any(a[0] <= b[1] and b[0] <= a[1] for a in ranges for b in others):
                prices = (f"{_show(ranges[0])} of {one}", f"{_show(others[0])} of {other}")
                return f"{' and '.join(prices)} are in {rail[3]}"
    return ""


def _rail(offer: PaymentOffer) -> Rail:
    currency = USD if is_usd(offer.currency) else offer.currency or offer.asset.casefold()
    return offer.protocol, offer.method, offer.intent, currency, offer.unit


def _range(offer: PaymentOffer) -> Range | None:
    if offer.amount:
        return Decimal(offer.amount), Decimal(offer.amount)
    if not offer.min_amount and not offer.max_amount:
        return None
    most = Decimal(offer.max_amount) if offer.max_amount else UNBOUNDED
    return Decimal(offer.min_amount or 0), most


def _accepted_ranges(accepted: Accepted) -> Iterator[tuple[Rail, Range]]:
    """Yield the prices of the entries of `accepts` that ask for a known token."""
    for each in accepted.offers:
        if each.token is not None and each.is_real and each.amount:
            currency = USD if each.token.is_usd else each.token.currency
            amount = Decimal(each.amount)
            least = amount if (each.scheme or EXACT).casefold() == EXACT else Decimal(0)
            yield (X402, "", "", currency, ""), (least, amount)


def _show(bounds: Range) -> str:
    least, most = bounds
    if least == most:
        return f"{least:f}"
    return f"{least:f} to {most:f}" if most != UNBOUNDED else f"at least {least:f}"
