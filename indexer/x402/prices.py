"""Prices of discovered resources, in units of a currency."""

from __future__ import annotations

import re
from decimal import Decimal

import msgspec
from msgspec import UNSET, Raw, Struct

from indexer.errors import InvalidRecord
from indexer.text import decode_or_invalid
from indexer.x402.stablecoins import Asset, find_asset
from indexer.x402.testnets import is_test_network
from indexer.x402.untrusted import decode, line
from service.networks import network_key, network_label
from service.records import Pricing

MAX_NAME = 200  # characters
MAX_DIGITS = 78  # of 2^256 - 1, the greatest amount of a token contract
AMOUNT_KEYS = ("amount", "maxAmountRequired")  # of version 2 and of version 1

_accepts = msgspec.json.Decoder(list[dict[str, Raw]])
_integer = re.compile(r"(-?)([0-9]+)")


class Notice(Struct, frozen=True):
    """A remark for the operator on a record that is indexed nevertheless."""

    path: str
    reason: str


class Accepted(Struct):
    """The payments that a resource accepts.

    pricing: of the entry that was chosen as the price
    amount: in units of the currency, None if the asset is unknown
    networks: labels of the networks of all entries
    entries, index: all entries, undecoded, and the index of the chosen one
    """

    pricing: Pricing
    amount: Decimal | None
    pay_to: str
    networks: list[str]
    notices: list[Notice]
    entries: list[dict[str, Raw]]
    index: int

    @property
    def chosen(self) -> dict[str, Raw]:
        """The entry that was chosen as the price."""
        return self.entries[self.index]


class _Offer(Struct):
    """One entry of `accepts` without its amount."""

    network: str
    asset: Asset | None
    scheme: str
    pay_to: str

    @property
    def is_real(self) -> bool:
        """Whether it is for a known asset on a main network."""
        return self.asset is not None and not is_test_network(self.network)


def read_accepts(text: Raw | None) -> Accepted:
    """Price a resource by its first entry in a known asset on a main network, else by its first.

    Raises InvalidRecord unless the chosen entry has an amount of whole base units, at least 0.
    """
    entries = [] if text is None else decode_or_invalid(_accepts, text, "$.accepts")
    if not entries:
        raise InvalidRecord("$.accepts", "there is no price: `accepts` has no entry")
    offers = [_read_offer(entry) for entry in entries]
    index = next((n for n, offer in enumerate(offers) if offer.is_real), 0)
    offer, path = offers[index], f"$.accepts[{index}]"
    digits = _base_units(entries[index], path)
    label = network_label(offer.network)
    amount, currency, notices = "", "", []
    if offer.asset is None:
        where = f"on {label}" if label else "without a network"
        reason = f"is not a known stablecoin {where}: the endpoint is listed without a price"
        notices.append(Notice(f"{path}.asset", reason))
    else:
        amount, currency = _in_units(digits, offer.asset.decimals), offer.asset.currency
    networks: dict[str, str] = {}
    for name in (each.network for each in offers if each.network):
        networks.setdefault(network_key(name), network_label(name))
    return Accepted(
        pricing=_pricing(offer.scheme, amount, currency, label),
        amount=Decimal(amount) if amount else None,
        pay_to=offer.pay_to,
        networks=list(networks.values()),
        notices=notices,
        entries=entries,
        index=index,
    )


def _read_offer(entry: dict[str, Raw]) -> _Offer:
    network, asset, scheme, pay_to = (
        line(decode(entry.get(key)), MAX_NAME) for key in ("network", "asset", "scheme", "payTo")
    )
    return _Offer(network, find_asset(network, asset), scheme or "exact", pay_to)


def _base_units(entry: dict[str, Raw], path: str) -> str:
    """Return the digits of the amount of an entry."""
    amounts = {key: decode(entry.get(key)) for key in AMOUNT_KEYS}
    key = next((key for key in AMOUNT_KEYS if amounts[key] not in (None, "")), None)
    if key is None:
        raise InvalidRecord(
            path, "there is no price: neither `amount` nor `maxAmountRequired` is given"
        )
    path, value = f"{path}.{key}", amounts[key]
    is_number = isinstance(value, (str, int)) and not isinstance(value, bool)
    match = _integer.fullmatch(str(value)) if is_number else None
    if match is None:
        raise InvalidRecord(path, "is not a price: it must be a whole number of base units")
    digits = match[2].lstrip("0") or "0"
    if match[1] and digits != "0":
        raise InvalidRecord(path, "is not a price: it is negative")
    if len(digits) > MAX_DIGITS:
        raise InvalidRecord(path, f"is not a price: it has more than {MAX_DIGITS} digits")
    return digits


def _in_units(digits: str, decimals: int) -> str:
    """Shift the decimal point of base units."""
    padded = digits.rjust(decimals + 1, "0")
    fraction = padded[-decimals:].rstrip("0")
    return f"{padded[:-decimals]}.{fraction}" if fraction else padded[:-decimals]


def _pricing(scheme: str, amount: str, currency: str, network: str) -> Pricing:
    """Return a fixed amount, or for the scheme `upto` a maximum."""
    is_maximum = scheme.casefold() == "upto"
    return Pricing(
        amount="" if is_maximum else amount,
        currency=currency,
        network=network or UNSET,
        scheme=scheme,
        max_amount=amount if is_maximum and amount else UNSET,
    )
