"""Ways to pay for an operation: `x-payment-info` in the dialects of x402scan and of MPP.

Other catalogues of this kind write the first one, with a price among the terms of a protocol where
that is another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from indexer.documents.amounts import amount_or_invalid, find_currency, read_amount, read_unit
from indexer.errors import InvalidRecord
from indexer.options import Kind
from indexer.resources.assets import Stablecoins
from indexer.resources.entries import (
    MAX_DESCRIPTION,
    MAX_NAME,
    MAX_OFFERS,
    MPP,
    USD,
    X402,
    base_units,
    shift_point,
)
from indexer.untrusted import line, mapping, text
from service.schema.offers import PaymentOffer

EXTENSION = "x-payment-info"
PAYMENT_REQUIRED = "402"
PRICE_KEYS = frozenset(("protocols", "price", "pricingMode", "minPrice", "maxPrice"))
MPP_KEYS = frozenset(("intent", "method"))


def is_paid(operation: dict[str, Any]) -> bool:
    """Whether an operation states a payment, or a response that asks for one."""
    has_extension = operation.get(EXTENSION) not in (None, False)
    return has_extension or PAYMENT_REQUIRED in mapping(operation, "responses")


def read_offers(
    operation: dict[str, Any], path: str, stablecoins: Stablecoins
) -> list[PaymentOffer]:
    """Return the ways to pay for an operation at a JSON path; raises InvalidRecord."""
    info = operation.get(EXTENSION)
    if info in (None, False, True):
        return []
    place = f"{path}['{EXTENSION}']"
    if not isinstance(info, dict):
        raise InvalidRecord(place, "Expected `object`")
    prices = dict.fromkeys(_read_price(info, place, stablecoins))
    offers = [*prices, *_read_mpp(info, place, stablecoins)]
    if len(offers) > MAX_OFFERS:
        raise InvalidRecord(place, f"has more than {MAX_OFFERS} ways to pay")
    return offers


def _read_price(
    info: dict[str, Any], path: str, stablecoins: Stablecoins
) -> Iterator[PaymentOffer]:
    """Yield an offer for each protocol, at the shared price unless its terms have another one.

    Older documents have `pricingMode` and the amounts beside it.
    """
    if PRICE_KEYS.isdisjoint(info):
        return
    price = info.get("price")
    if not isinstance(price, dict):
        price = {"amount": price, "min": info.get("minPrice"), "max": info.get("maxPrice")}
    for protocol, terms in _protocols(info.get("protocols")):
        if protocol == MPP and terms.get("amount"):
            yield _read_offer(terms, path, stablecoins)
        else:
            yield _price_offer(protocol, terms, mapping(terms, "price") or price, path)


def _price_offer(
    protocol: str, terms: dict[str, Any], price: dict[str, Any], path: str
) -> PaymentOffer:
    """Return an offer with a price in units of its currency."""
    given = {key: value for key, value in price.items() if value != ""}
    amount, least, most = (
        amount_or_invalid(read_amount, given.get(key), f"{path}.price.{key}")
        for key in ("amount", "min", "max")
    )
    currency = line(price.get("currency"), MAX_NAME) or USD
    return PaymentOffer(
        protocol=protocol,
        stated_by=Kind.OPENAPI,
        method=line(terms.get("method"), MAX_NAME),
        intent=line(terms.get("intent"), MAX_NAME),
        asset=line(terms.get("currency"), MAX_NAME),
        unit=read_unit(terms.get("unitType"), ""),
        amount=amount,
        min_amount="" if amount else least,
        max_amount="" if amount else most,
        currency=currency if amount or least or most else "",
    )


def _protocols(protocols: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the protocols: names, or objects of terms by name; x402 where none is."""
    given = protocols if isinstance(protocols, list) else [protocols]
    found = False
    for each in given[: MAX_OFFERS + 1]:
        members = each if isinstance(each, dict) else {each: {}} if isinstance(each, str) else {}
        for name in islice(members, MAX_OFFERS + 1):
            if protocol := line(name, MAX_NAME).casefold():
                yield protocol, mapping(members, name)
                found = True
    if not found:
        yield X402, {}


def _read_mpp(info: dict[str, Any], path: str, stablecoins: Stablecoins) -> Iterator[PaymentOffer]:
    """Yield the offers of MPP, or the only one, which may stand alone."""
    offers = info.get("offers")
    if offers is None:
        if not MPP_KEYS.isdisjoint(info):
            yield _read_offer(info, path, stablecoins)
        return
    if not isinstance(offers, list):
        raise InvalidRecord(f"{path}.offers", "Expected `array`")
    for number, offer in enumerate(offers[: MAX_OFFERS + 1]):
        place = f"{path}.offers[{number}]"
        if not isinstance(offer, dict):
            raise InvalidRecord(place, "Expected `object`")
        yield _read_offer(offer, place, stablecoins)


def _read_offer(offer: dict[str, Any], path: str, stablecoins: Stablecoins) -> PaymentOffer:
    """Return an offer in base units of its currency; a dynamic offer has no amount.

    Intents other than a charge have the price of a unit of use, and not of a request.
    """
    method, intent, name = (
        line(offer.get(key), MAX_NAME) for key in ("method", "intent", "currency")
    )
    currency = find_currency(stablecoins, method, name)
    digits = amount_or_invalid(base_units, offer.get("amount"), f"{path}.amount")
    amount = shift_point(digits, currency.decimals) if currency and digits else ""
    return PaymentOffer(
        protocol=MPP,
        stated_by=Kind.OPENAPI,
        method=method,
        intent=intent,
        amount=amount,
        currency=currency.currency if currency else "",
        unit=read_unit(offer.get("unitType"), intent) if digits else "",
        asset=name,
        decimals=currency.decimals if currency else None,
        base_amount="" if amount else digits,
        description=text(offer.get("description"), MAX_DESCRIPTION),
    )
