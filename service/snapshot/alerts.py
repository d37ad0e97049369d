"""Alerts: endpoints of a changed service that pay another address, or whose price moved tenfold."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from service.prices import Price, is_upto
from service.schema.records import Pricing
from service.schema.snapshots import PayeeChange, PriceJump
from service.schema.values import NULL

MULTIPLE = 10
"""The factor of a price that is singled out, up or down."""

EndpointKey = tuple[str, str, bytes]


class Alerts(NamedTuple):
    """The alerts of one service."""

    payees: list[PayeeChange]
    prices: list[PriceJump]


class _ComparedEndpoint(Struct, rename="camel"):
    """An endpoint, with members of any JSON type where catalogue records may hold anything."""

    url: str
    method: str
    pricing: Pricing
    pay_to: Raw = NULL
    tool: Raw = NULL

    @property
    def key(self) -> EndpointKey:
        """The identity of the endpoint: tools of one URL differ by their names."""
        return self.url, self.method, bytes(self.tool)

    @property
    def payee(self) -> str | None:
        """The address that is paid, None where the record names none."""
        text = bytes(self.pay_to)
        return (_string.decode(text) or None) if text.startswith(b'"') else None

    @property
    def price(self) -> Price:
        """The amount, or the ceiling of the scheme `upto`."""
        pricing = self.pricing
        ceiling = (pricing.max_amount or "") if is_upto(pricing) else ""
        return Price(ceiling or pricing.amount, pricing.currency)


class _ComparedService(Struct):
    endpoints: list[_ComparedEndpoint] = []


_string = msgspec.json.Decoder(str)
_service = msgspec.json.Decoder(_ComparedService)


def find_alerts(old: bytes | memoryview, new: bytes | memoryview) -> Alerts:
    """Compare the endpoints that two versions of a stored service share."""
    alerts = Alerts([], [])
    for before, after in _pairs(old, new):
        payees = before.payee, after.payee
        if _fold(payees[0]) != _fold(payees[1]):
            alerts.payees.append(PayeeChange(after.url, after.method, *payees))
        if _is_jump(before.price, after.price):
            currency, amounts = after.price.currency, (before.price.amount, after.price.amount)
            alerts.prices.append(PriceJump(after.url, after.method, currency, *amounts))
    return alerts


def _pairs(
    old: bytes | memoryview, new: bytes | memoryview
) -> Iterator[tuple[_ComparedEndpoint, ...]]:
    """Yield the endpoints of both; of several alike the first with the first, and so on."""
    known: dict[EndpointKey, deque[_ComparedEndpoint]] = {}
    for each in _service.decode(old).endpoints:
        known.setdefault(each.key, deque()).append(each)
    for each in _service.decode(new).endpoints:
        if alike := known.get(each.key):
            yield alike.popleft(), each


def _fold(payee: str | None) -> str | None:
    """Return an address in the form that is compared: hexadecimal ones in lower case."""
    return payee.lower() if payee and payee[:2] in {"0x", "0X"} else payee


def _is_jump(before: Price, after: Price) -> bool:
    """Return whether an amount of one currency moved by MULTIPLE or more, or from or to nothing."""
    if before.currency.casefold() != after.currency.casefold():
        return False
    try:
        low, high = sorted((Decimal(before.amount), Decimal(after.amount)))
    except ArithmeticError:  # no amount
        return False
    return low != high and high >= low * MULTIPLE
