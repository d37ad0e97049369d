"""The price of a request in words."""

from __future__ import annotations

from service.records import Pricing

NO_PRICE = "no fixed price"


def describe_price(pricing: Pricing) -> str:
    """Return the price of a request, which is a ceiling in the scheme `upto`."""
    ceiling = pricing.max_amount or pricing.amount
    if ceiling and is_upto(pricing):
        return f"at most {ceiling}"
    if pricing.amount:
        return pricing.amount
    return f"{pricing.min_amount or '0'} – {pricing.max_amount}" if pricing.max_amount else NO_PRICE


def is_upto(pricing: Pricing) -> bool:
    """Return whether the amount is a ceiling."""
    return (pricing.scheme or "").casefold() == "upto"
