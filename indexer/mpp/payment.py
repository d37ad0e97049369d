"""Payments of endpoints: an offer for each method, in base units of a currency."""

from __future__ import annotations

from itertools import islice
from typing import Any, TypeGuard

from indexer.documents.amounts import amount_or_invalid, find_currency, read_unit
from indexer.errors import InvalidRecord
from indexer.options import Kind
from indexer.resources.assets import Asset, Stablecoins
from indexer.resources.entries import (
    MAX_DESCRIPTION,
    MAX_NAME,
    MAX_OFFERS,
    MPP,
    base_units,
    shift_point,
)
from indexer.untrusted import items, line, mapping, text
from service.schema.offers import MAX_DECIMALS, PaymentOffer

ADDRESS = "0x"


def is_paid(payment: Any, path: str) -> TypeGuard[dict[str, Any]]:
    """Whether the payment at a JSON path states an amount, or that it is dynamic.

    Raises InvalidRecord for another value than an object or null.
    """
    if payment is None:
        return False
    if not isinstance(payment, dict):
        raise InvalidRecord(path, "Expected `object | null`")
    return payment.get("amount") not in (None, "") or payment.get("dynamic") is True


def read_offers(
    payment: dict[str, Any], methods: Any, path: str, stablecoins: Stablecoins
) -> list[PaymentOffer]:
    """Return an offer for each method of a payment at a JSON path; raises InvalidRecord.

    methods: of the service, for a payment without methods

    Base units mean nothing where the methods have different decimals: no offer has an amount then.
    The amount of a dynamic payment is a lower bound.
    """
    own = payment.get("methods")
    names = _names(payment.get("method")) or _names(own) or _names(methods) or [""]
    currencies = {
        name: _currency(name, payment, (mapping(own, name), mapping(methods, name)), stablecoins)
        for name in names
    }
    stated = None if payment.get("amount") == "" else payment.get("amount")
    digits = amount_or_invalid(base_units, stated, f"{path}.amount")
    decimals = {each.decimals for _, each in currencies.values()}
    units = ""
    if digits and len(decimals) == 1 and min(decimals) >= 0:
        units = shift_point(digits, min(decimals))
    words = (text(payment.get(key), MAX_DESCRIPTION) for key in ("amountHint", "description"))
    description = next(filter(None, words), "")
    intent, is_dynamic = line(payment.get("intent"), MAX_NAME), payment.get("dynamic") is True
    return [
        PaymentOffer(
            protocol=MPP,
            stated_by=Kind.MPP,
            method=name,
            intent=intent,
            amount="" if is_dynamic else units,
            min_amount=units if is_dynamic else "",
            base_amount="" if units else digits,
            currency=currency.currency,
            asset=asset,
            unit=read_unit(payment.get("unitType"), intent) if digits else "",
            decimals=currency.decimals if currency.decimals >= 0 else None,
            pay_to=line(payment.get("recipient"), MAX_NAME),
            description=description,
        )
        for name, (asset, currency) in currencies.items()
    ]


def _names(value: Any) -> list[str]:
    """Return the names of methods: one, a list, or the keys of an object."""
    given = [value] if isinstance(value, str) else value if isinstance(value, (list, dict)) else []
    names = (line(each, MAX_NAME) for each in islice(given, MAX_OFFERS))
    return list(dict.fromkeys(filter(None, names)))


def _currency(
    method: str, payment: dict[str, Any], stated: tuple[dict[str, Any], ...], known: Stablecoins
) -> tuple[str, Asset]:
    """Return the name and the unit of the currency of a method; unknown decimals are negative.

    stated: the method as the payment and as the service describe it
    """
    assets = [asset for each in stated for asset in items(each, "assets", MAX_OFFERS)]
    places = (*stated[:1], payment, *stated[1:])
    named = [each.get("currency") for each in places] + (assets if len(assets) == 1 else [])
    name = next(filter(None, (line(each, MAX_NAME) for each in named)), "")
    found = find_currency(known, method, name)
    objects = [*stated, *(each for each in assets if isinstance(each, dict)), payment]
    decimals = next(filter(_is_decimals, (each.get("decimals") for each in objects)), None)
    if decimals is None:
        decimals = found.decimals if found else -1
    if found:
        return name, Asset(found.currency, decimals, found.is_usd)
    return name, Asset("" if name.startswith(ADDRESS) else name, decimals, is_usd=False)


def _is_decimals(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_DECIMALS
