"""The price of an operation: that of the best of the ways to pay for it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from indexer.openapi.payment import PaymentOffer
from indexer.x402.prices import Notice
from service.schema.records import Pricing

PRICE_NOT_LISTED = "price not listed"


def price(offers: Sequence[PaymentOffer], path: str) -> tuple[Pricing, list[Notice]]:
    """Return the price by the first offer that fixes one, else by the first with bounds.

    The notices say what is not known of the price of the operation at a JSON path.
    """
    if not offers:
        reason = "asks for a payment, and the document states no price"
        notice = Notice(PRICE_NOT_LISTED, path, reason)
        return Pricing(amount="", currency=""), [notice]
    best = min(offers, key=_rank)
    notices = [Notice(best.fault[0], path, best.fault[1])] if best.fault else []
    pricing = Pricing(
        amount=best.amount,
        currency=best.currency,
        scheme=best.scheme,
        min_amount=best.min_amount or UNSET,
        max_amount=best.max_amount or UNSET,
    )
    return pricing, notices


def _rank(offer: PaymentOffer) -> int:
    return 0 if offer.amount else 1 if offer.max_amount or offer.min_amount else 2
