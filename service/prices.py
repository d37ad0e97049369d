"""Prices as people read them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from service.schema.records import PaymentOffer, PriceSummary, Pricing
from service.schema.responses import AcceptsEntry

EXACT = "exact"
"""The scheme of fixed prices, also where a price names no scheme."""
CEILINGS = frozenset(("upto", "batch-settlement"))
"""Schemes whose amount is the most that a request costs."""
NOT_FIXED = "no fixed price"
NOT_LISTED = "price not listed"


class Price(NamedTuple):
    """A price in words; the currency is empty where there is no amount."""

    amount: str
    currency: str

    def __str__(self) -> str:
        return f"{self.amount} {self.currency}".strip()


def endpoint_price(pricing: Pricing) -> Price:
    """Return the price of a request (of CEILINGS the ceiling), or else the price of a unit.

    An unknown scheme of x402 is named, as its amount may be no fixed price. Without any amount:
    NOT_LISTED for the scheme `exact`, otherwise NOT_FIXED.
    """
    ceiling = pricing.max_amount or pricing.amount
    if is_ceiling(pricing) and ceiling:
        return Price(f"at most {ceiling}", pricing.currency)
    given = pricing.unit_amount
    per_unit = given if isinstance(given, str) and given else pricing.amount
    if is_of_unit(pricing.unit_type) and per_unit:
        return Price(per_unit, f"{pricing.currency} per {pricing.unit_type}".strip())
    if pricing.amount and not is_fixed(pricing):
        return Price(pricing.amount, f"{pricing.currency} by {pricing.scheme}".strip())
    if amount := pricing.amount or _range(pricing.min_amount, pricing.max_amount):
        return Price(amount, pricing.currency)
    is_exact = (pricing.scheme or EXACT).casefold() == EXACT
    return Price(NOT_LISTED if is_exact else NOT_FIXED, "")


def describe_offer(offer: PaymentOffer) -> str:
    """Return a way to pay in words: protocol, price, and the kind of the document."""
    name = " ".join(filter(None, (offer.protocol, offer.method, offer.intent)))
    price = offer.amount or _range(offer.min_amount, offer.max_amount)
    if price:
        price = f"{price} {offer.currency}".strip()
    elif offer.base_amount:
        price = f"{offer.base_amount} base units of {offer.asset or 'an unknown token'}"
    unit = f" per {offer.unit}" if offer.unit and price else ""
    return f"{name}: {price or NOT_FIXED}{unit} ({offer.stated_by})"


def service_price(summary: PriceSummary | UnsetType | None, *, at_most: bool = False) -> Price:
    """Return the range of the prices of a service, or their ceiling if all are of `upto`."""
    if summary is UNSET or summary is None:
        return Price(NOT_LISTED, "")
    low = "" if at_most else summary.min_amount
    return price_range(low, summary.max_amount, summary.currency)


def price_range(low: str, high: str, currency: str) -> Price:
    """Return a range whose bounds may be empty."""
    amount = _range(low, high)
    return Price(amount, currency) if amount else Price(NOT_FIXED, "")


def format_decimal(price: float) -> str:
    """Format a price without exponent, so that it can be parsed again to the same number."""
    return np.format_float_positional(price, trim="-")


def offer_pricing(
    pricing: Pricing, entry: AcceptsEntry | UnsetType, price: tuple[float, str] | None
) -> Pricing:
    """Return the pricing of an endpoint with the terms of one of its offers.

    entry: the offer as its feed has it, UNSET where no feed has it
    price: what the offer costs and in which currency, None if it is the price of the record
    """
    names = () if entry is UNSET else ("scheme", "network")
    texts = {name: text for name in names if isinstance(text := getattr(entry, name), str)}
    pricing = replace(pricing, **texts)
    if price is None:
        return pricing
    amount, currency = format_decimal(price[0]), price[1] or pricing.currency
    return replace(pricing, amount=amount, currency=currency, min_amount="", max_amount="")


def is_of_unit(unit: object) -> bool:
    """Return whether a unit, of any JSON type, is another one than the request."""
    return isinstance(unit, str) and unit.strip().casefold() not in ("", "request")


def is_ceiling(pricing: Pricing) -> bool:
    """Return whether the amount is the most that a request costs."""
    return (pricing.scheme or "").casefold() in CEILINGS


def is_fixed(pricing: Pricing) -> bool:
    """Return whether the amount is what a request costs.

    So it is by the scheme `exact` of x402, and by the methods of MPP, which name no network.
    """
    scheme = (pricing.scheme or EXACT).casefold()
    return scheme == EXACT or (scheme not in CEILINGS and not pricing.network)


def _range(low: str | UnsetType, high: str | UnsetType) -> str:
    if low and high and low != high:
        return f"{low}–{high}"
    if high and not low:
        return f"at most {high}"
    return f"from {low}" if low and not high else low or ""
