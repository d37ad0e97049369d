"""Prices: what a discovered resource asks for, in units of a currency."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from indexer.errors import InvalidRecord
from indexer.text import decode_or_invalid
from indexer.x402.stablecoins import Asset, find_asset
from indexer.x402.testnets import is_test_network
from indexer.x402.untrusted import decoded, line
from service.networks import network_key, network_label
from service.records import Pricing

LONGEST_NAME = 200
MOST_DIGITS = 78  # of the greatest amount that a token contract can hold

_accepts = msgspec.json.Decoder(list[dict[str, Raw]])
_whole = re.compile(r"(-?)([0-9]+)")


class Notice(Struct, frozen=True):
    """Something about a record that an operator should know, though it is indexed."""

    path: str
    reason: str


class Accepted(Struct):
    """What a resource accepts: one entry priced, and the networks of all, as labels.

    `amount` is None where no amount is known in units of a currency. `place` is the number of the
    priced entry among `entries`, whose values are undecoded.
    """

    pricing: Pricing
    amount: Decimal | None
    pay_to: str
    networks: list[str]
    notices: list[Notice]
    place: int
    entries: list[dict[str, Raw]]

    @property
    def priced(self) -> dict[str, Raw]:
        """The entry that the price is of."""
        return self.entries[self.place]


def read_accepts(text: Raw | None) -> Accepted:
    """Price a resource by its first entry on a main network in a known asset, else its first.

    Raises InvalidRecord when there is no price, or none in whole base units that is at least 0.
    """
    entries = _decode(text)
    offers = [_Offer(entry) for entry in entries]
    place = next((n for n, offer in enumerate(offers) if offer.is_real), 0)
    offer = offers[place]
    path = f"$.accepts[{place}]"
    units = _base_units(offer, path)
    label = network_label(offer.network)
    notices = []
    amount, currency = "", ""
    if offer.asset is None:
        on = f"on {label}" if label else "without a network"
        reason = f"is no stablecoin that is known {on}: the endpoint is listed without a price"
        notices.append(Notice(f"{path}.asset", reason))
    else:
        amount, currency = _in_units(units, offer.asset.decimals), offer.asset.currency
    networks: dict[str, str] = {}
    for name in (each.network for each in offers if each.network):
        networks.setdefault(network_key(name), network_label(name))
    return Accepted(
        pricing=_pricing(offer.scheme, amount, currency, label),
        amount=Decimal(amount) if amount else None,
        pay_to=offer.pay_to,
        networks=list(networks.values()),
        notices=notices,
        place=place,
        entries=entries,
    )


class _Offer:
    """One entry of `accepts`, whose price is judged only when it is the one that counts."""

    def __init__(self, entry: dict[str, Raw]) -> None:
        values = {key: decoded(entry.get(key)) for key in ("network", "asset", "scheme", "payTo")}
        named = {key: line(value, LONGEST_NAME) for key, value in values.items()}
        self.entry = entry
        self.network = named["network"]
        self.scheme = named["scheme"] or "exact"
        self.pay_to = named["payTo"]
        self.asset: Asset | None = find_asset(self.network, named["asset"])

    @property
    def is_real(self) -> bool:
        """Whether it asks for real money that we know."""
        return self.asset is not None and not is_test_network(self.network)


def _decode(text: Raw | None) -> list[dict[str, Raw]]:
    entries = [] if text is None else decode_or_invalid(_accepts, text, "$.accepts")
    if not entries:
        raise InvalidRecord("$.accepts", "there is no price: nothing says what is accepted")
    return entries


def _base_units(offer: _Offer, path: str) -> str:
    """The digits of the price; version 2 calls it `amount`, version 1 `maxAmountRequired`."""
    given: Any = None
    key = "amount"
    for key in ("amount", "maxAmountRequired"):
        given = decoded(offer.entry.get(key))
        if given not in (None, ""):
            break
    if given in (None, ""):
        raise InvalidRecord(
            path, "there is no price: neither `amount` nor `maxAmountRequired` is given"
        )
    is_number = isinstance(given, (str, int)) and not isinstance(given, bool)
    found = _whole.fullmatch(str(given)) if is_number else None
    if found is None:
        raise InvalidRecord(f"{path}.{key}", "is no price: it must be a whole number of base units")
    digits = found[2].lstrip("0") or "0"
    if found[1] and digits != "0":
        raise InvalidRecord(f"{path}.{key}", "is no price: it is negative")
    if len(digits) > MOST_DIGITS:
        raise InvalidRecord(f"{path}.{key}", f"is no price: it has more than {MOST_DIGITS} digits")
    return digits


def _in_units(digits: str, decimals: int) -> str:
    padded = digits.rjust(decimals + 1, "0")
    fraction = padded[-decimals:].rstrip("0")
    return f"{padded[:-decimals]}.{fraction}" if fraction else padded[:-decimals]


def _pricing(scheme: str, amount: str, currency: str, network: str) -> Pricing:
    """What is asked for: of the scheme `upto` the amount is the most that can be taken."""
    bounded = scheme.casefold() == "upto"
    return Pricing(
        amount="" if bounded else amount,
        currency=currency,
        network=network or UNSET,
        scheme=scheme,
        max_amount=amount if bounded and amount else UNSET,
    )
