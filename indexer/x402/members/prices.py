"""Prices of discovered resources, in units of a currency."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from indexer.assets.stablecoins import KNOWN_STABLECOINS, Asset, Stablecoins
from indexer.assets.testnets import is_test_network
from indexer.errors import InvalidRecord
from indexer.intake.findings import Notice
from indexer.text import decode_or_invalid
from indexer.untrusted import line, raw_members
from service.networks import network_key, network_label
from service.schema.records import Pricing

MAX_NAME = 200  # characters
MAX_DIGITS = 78  # of 2^256 - 1, the greatest amount of a token contract
INFINITY = Decimal("Infinity")
AMOUNT_KEYS = ("amount", "maxAmountRequired")  # of version 2 and of version 1
UNKNOWN_ASSET = "with an unknown asset"
UNPRICED = "without a price"
WITHOUT_ACCEPTS = "without accepts"

_accepts = msgspec.json.Decoder(list[dict[str, Raw]])
_integer = re.compile(r"(-?)([0-9]+)")


class Offer(Struct, frozen=True):
    """One entry of `accepts`; texts are empty where they are missing or no short line.

    token: the stablecoin that is asked for, if it is a known one
    amount_key: of the amount, None if there is none
    amount: in units of the currency; empty if it is not valid or the asset is unknown
    fault: the reason why the amount is not valid
    """

    network: str
    scheme: str
    asset: str
    pay_to: str
    token: Asset | None
    amount_key: str | None
    amount: str
    fault: str

    @property
    def is_real(self) -> bool:
        """Whether it is for a known asset on a main network."""
        return not is_test_network(self.network) and self.token is not None


class Accepted(Struct):
    """The payments that a resource accepts.

    pricing: of the entry that was chosen as the price
    amount: in units of the currency, None if there is none or the asset is unknown
    networks: labels of the networks of all entries
    entries, offers: all entries, as they came and as read
    index: of the chosen entry
    contradicts: whether documents, or a document and a feed, state prices that cannot both hold
    """

    pricing: Pricing
    amount: Decimal | None
    networks: list[str]
    notices: list[Notice]
    entries: list[dict[str, Any]]
    offers: list[Offer]
    index: int
    contradicts: bool = False

    @property
    def chosen(self) -> dict[str, Any]:
        """The entry that was chosen as the price, or an empty one."""
        return self.entries[self.index] if self.entries else {}

    @property
    def pay_to(self) -> str:
        """The address that the chosen entry pays to, or an empty one."""
        return self.offers[self.index].pay_to if self.offers else ""


def read_accepts(
    accepts: Any,
    text: bytes,
    stablecoins: Stablecoins = KNOWN_STABLECOINS,
    max_price: Decimal = INFINITY,
) -> Accepted:
    """Price a resource by its first entry in a known asset on a main network, else by its first.

    An entry with an amount comes before one without, and one above `max_price` after its equals.
    Raises InvalidRecord if `accepts` is no list of objects, as its JSON in the text of the resource
    shows, or if the amount of the chosen entry is no whole number of base units from 0.
    """
    entries = [] if accepts is None else accepts
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        decode_or_invalid(_accepts, raw_members(text)["accepts"], "$.accepts")
    offers = [_read_offer(entry, stablecoins) for entry in entries]
    index = min(
        range(len(entries)),
        key=lambda n: (
            offers[n].fault != "",
            offers[n].amount_key is None,
            not offers[n].is_real,
            offers[n].amount != "" and Decimal(offers[n].amount) > max_price,
        ),
        default=0,
    )
    networks: dict[str, str] = {}
    for name in (each.network for each in offers if each.network):
        networks.setdefault(*_key_and_label(name))
    if entries:
        pricing, notices = _price(offers[index], f"$.accepts[{index}]")
    else:
        pricing = Pricing(amount="", currency="")
        reason = "there is no price: `accepts` has no entry, so the resource is only searchable"
        notices = [Notice(WITHOUT_ACCEPTS, "$.accepts", reason)]
    amount = pricing.amount or pricing.max_amount
    return Accepted(
        pricing=pricing,
        amount=Decimal(amount) if amount else None,
        networks=list(networks.values()),
        notices=notices,
        entries=entries,
        offers=offers,
        index=index,
    )


def are_of_version_1(entries: Iterable[dict[str, Any]]) -> bool:
    """Whether all entries of `accepts` have the shape of version 1 of the protocol."""
    return all("maxAmountRequired" in each and "amount" not in each for each in entries)


@lru_cache(maxsize=1024)
def _key_and_label(network: str) -> tuple[str, str]:
    return network_key(network), network_label(network)


def _read_offer(entry: dict[str, Any], stablecoins: Stablecoins) -> Offer:
    network, scheme, asset, pay_to = (
        line(entry.get(key), MAX_NAME) for key in ("network", "scheme", "asset", "payTo")
    )
    token = stablecoins.find(network, asset)
    key = next((key for key in AMOUNT_KEYS if entry.get(key) not in (None, "")), None)
    amount, fault = "", ""
    if key is not None:
        try:
            digits = base_units(entry[key])
            amount = in_units(digits, token.decimals) if token else ""
        except ValueError as error:
            fault = str(error)
    return Offer(network, scheme, asset, pay_to, token, key, amount, fault)


def _price(offer: Offer, path: str) -> tuple[Pricing, list[Notice]]:
    """Return the price of an entry, and a notice where it has none; raises InvalidRecord.

    The amount is a maximum for the scheme `upto`.
    """
    if offer.fault:
        raise InvalidRecord(f"{path}.{offer.amount_key}", f"is not a price: {offer.fault}")
    (_, label), scheme = _key_and_label(offer.network), offer.scheme or "exact"
    amount, currency = offer.amount, ""
    notices: list[Notice] = []
    if offer.amount_key is None:
        reason = "there is no price: neither `amount` nor `maxAmountRequired` is given"
        notices.append(Notice(UNPRICED, path, reason))
    elif offer.token is not None:
        currency = offer.token.currency
    if offer.token is None:
        where = f"on {label}" if label else "without a network"
        reason = f"is not a known stablecoin {where}: the endpoint is listed without a price"
        notices.append(Notice(UNKNOWN_ASSET, f"{path}.asset", reason))
    is_maximum = scheme.casefold() == "upto"
    pricing = Pricing(
        amount="" if is_maximum else amount,
        currency=currency,
        network=label or UNSET,
        scheme=scheme,
        max_amount=amount if is_maximum and amount else UNSET,
    )
    return pricing, notices


def base_units(value: Any) -> str:
    """Return the digits of an amount; raises ValueError with the reason if it is not valid."""
    is_number = isinstance(value, (str, int)) and not isinstance(value, bool)
    match = _integer.fullmatch(str(value)) if is_number else None
    if match is None:
        raise ValueError("it must be a whole number of base units")
    digits = match[2].lstrip("0") or "0"
    if match[1] and digits != "0":
        raise ValueError("it is negative")
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"it has more than {MAX_DIGITS} digits")
    return digits


def in_units(digits: str, decimals: int) -> str:
    """Shift the decimal point of base units."""
    if not decimals:
        return digits
    padded = digits.rjust(decimals + 1, "0")
    fraction = padded[-decimals:].rstrip("0")
    return f"{padded[:-decimals]}.{fraction}" if fraction else padded[:-decimals]
