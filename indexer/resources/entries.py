"""Entries of payment: ways to pay for a request, as `accepts` or any document states them.

A member of several objects is taken from the first that has a valid one, in any of its spellings.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from msgspec import UNSET, Struct

from indexer.errors import InvalidRecord
from indexer.intake.findings import Notice
from indexer.resources.assets import (
    KNOWN_STABLECOINS,
    Asset,
    Stablecoins,
    is_test_network,
    is_usd,
)
from indexer.resources.facts import Places, fold
from indexer.untrusted import text
from service.networks import network_label
from service.prices import CEILINGS
from service.schema.records import MAX_DECIMALS, PaymentOffer, Pricing

ACCEPTS = "accepts"
"""The statement of x402 itself, among the kinds of documents that state entries."""
X402, MPP = "x402", "mpp"
EXACT, DYNAMIC, CHARGE, USD = "exact", "dynamic", "charge", "USD"
AMOUNT_KEYS = ("amount", "maxAmountRequired")  # of version 2 and of version 1
REQUEST = "request"
UNIT = "unit of use"
"""The unit of another intent than a charge, where a document names none."""
MAX_OFFERS = 32  # of documents, for one resource
MAX_NAME = 200  # characters
MAX_DESCRIPTION = 500
MAX_AMOUNT = 60
MAX_DIGITS = 78  # of 2^256 - 1, the greatest amount of a token contract
INFINITY = Decimal("Infinity")
UNKNOWN_ASSET = "with an unknown asset"
UNPRICED = "without a price"
WITHOUT_ACCEPTS = "without accepts"
PRICE_NOT_LISTED = "price not listed"
MINOR_UNITS = {
    **dict.fromkeys(("USD", "EUR", "GBP", "CHF", "CAD", "AUD", "SGD", "HKD", "NZD", "SEK"), 2),
    **dict.fromkeys(("NOK", "DKK", "PLN", "CZK", "BRL", "MXN", "INR", "CNY", "ZAR", "AED"), 2),
    **dict.fromkeys(("JPY", "KRW", "CLP", "VND"), 0),
}
"""Decimals of national currencies, by ISO 4217."""

CEILING_NAMES = {fold(name): name for name in CEILINGS}
"""Schemes whose amount is a ceiling, by their names as they are compared."""

_integer = re.compile(r"(-?)([0-9]+)")
_decimal = re.compile(
    r"(\$?)\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:\s+([A-Za-z][A-Za-z0-9.]{1,9})|([A-Z]{3,6}))?"
)


class Entry(Struct, frozen=True, array_like=True, kw_only=True, gc=False):
    """A way to pay, whatever document states it; texts are empty where nothing is stated.

    stated_by: ACCEPTS, or the kind of the document
    scheme: of x402; method and intent: of MPP
    network, asset, pay_to: as they are stated
    currency, decimals: of the asset, if its decimals are known
    amount, min_amount, max_amount: a fixed price or its bounds in units of `currency`; each pays
        for one `unit`, where there is one, and else for a request
    base_amount: in base units, where the decimals are not known
    is_usd: whether the currency is a known stablecoin of the US dollar on a main network
    fault: the member whose amount is not valid, and why
    start, stop: of an entry of `accepts`, as bytes within the text of its resource
    """

    stated_by: str = ACCEPTS
    protocol: str = X402
    scheme: str = ""
    method: str = ""
    intent: str = ""
    network: str = ""
    asset: str = ""
    pay_to: str = ""
    currency: str = ""
    decimals: int | None = None
    amount: str = ""
    min_amount: str = ""
    max_amount: str = ""
    base_amount: str = ""
    unit: str = ""
    description: str = ""
    is_usd: bool = False
    fault: tuple[str, str] = ("", "")
    start: int = 0
    stop: int = 0

    @property
    def price(self) -> str:
        """The most that a request costs in units of the currency, or an empty string."""
        return "" if self.unit else self.amount or self.max_amount or self.min_amount

    def to_offer(self) -> PaymentOffer:
        """Return the entry of a document as it is served."""
        names = PaymentOffer.__struct_fields__
        return PaymentOffer(**{name: getattr(self, name) for name in names})


def read_entry(
    places: Places,
    path: str,
    tokens: Stablecoins = KNOWN_STABLECOINS,
    *,
    stated_by: str = ACCEPTS,
    protocol: str = X402,
    in_units: bool = False,
) -> Entry:
    """Read an entry of payment at a JSON path from objects, the most specific first.

    in_units: whether `amount` is in units of the currency and not in base units

    The scheme of x402 says whether an amount is fixed or a ceiling; amounts of MPP are those of its
    intent. Raises InvalidRecord for an amount that is none; an entry of `accepts` has a fault then.
    """
    is_mpp, is_document = protocol == MPP, stated_by != ACCEPTS
    network, asset, stated = (
        places.line(each, MAX_NAME) for each in ("network", "asset", "currency")
    )
    scheme, method, intent = (
        places.line(each, MAX_NAME) if (each == "scheme") != is_mpp else ""
        for each in ("scheme", "rail", "intent")
    )
    scheme = CEILING_NAMES.get(fold(scheme), scheme)
    if is_mpp:
        asset = stated or asset
    token = find_token(tokens, network or method, asset, places if is_document else None)
    amount = _read_amount(places, token, in_units=in_units, is_strict=is_document)
    symbol = asset if asset.isalpha() else ""
    if amount.is_in_units and not (is_document or token or symbol or not asset):
        amount = _Amount()  # dollars are no price in a token that may be anything
    if amount.fault and is_document:
        raise InvalidRecord(f"{path}.{amount.name}", f"is not a price: {amount.fault}")
    currency, is_dollar = (token.currency, token.is_usd) if token else ("", False)
    if amount.is_in_units:
        stated_token = tokens.find(network, stated)
        named = stated_token.currency if stated_token else stated
        currency = named or amount.symbol or symbol or currency or USD
        is_dollar = is_usd(currency)
    prices = (amount.value, amount.least, amount.most)
    if scheme.casefold() in CEILINGS:
        prices = ("", amount.least, amount.value or amount.most)
    return Entry(
        stated_by=stated_by,
        protocol=protocol,
        scheme=scheme,
        method=method,
        intent=intent,
        network=network,
        asset=asset,
        pay_to=places.line("payee", MAX_NAME),
        currency=currency if token or any(prices) else "",
        decimals=token.decimals if token and token.decimals >= 0 else None,
        amount=prices[0],
        min_amount="" if prices[0] else prices[1],
        max_amount="" if prices[0] else prices[2],
        base_amount="" if any(prices) else amount.digits,
        unit=read_unit(places, intent) if is_document else "",
        description=places.find("amount text", _read_text) or "" if is_document else "",
        is_usd=is_dollar and not is_test_network(network),
        fault=(amount.name, amount.fault) if amount.fault else ("", ""),
    )


def _read_text(value: Any) -> str:
    return text(value, MAX_DESCRIPTION)


class _Amount(Struct):
    """The amounts that places state: in units of the currency, or as digits of base units."""

    value: str = ""
    least: str = ""
    most: str = ""
    digits: str = ""
    symbol: str = ""
    is_in_units: bool = False
    name: str = ""
    fault: str = ""


def _read_amount(
    places: Places, token: Asset | None, *, in_units: bool, is_strict: bool
) -> _Amount:
    """Read the first amount; of base units without known decimals there are digits alone.

    is_strict: whether a price and its bounds that are no amounts are faults
    """
    found = _Amount()
    for fact, name, value in places.stated("amount", "base amount", "price"):
        if isinstance(value, dict):
            continue
        found.name = name
        found.is_in_units = fact == "price" or (fact == "amount" and in_units)
        try:
            if found.is_in_units:
                found.value, found.symbol = read_amount(value)
            else:
                found.digits = base_units(value)
        except ValueError as error:
            if fact == "price" and not is_strict:
                found.is_in_units = False
                continue
            found.fault = str(error)
        break
    if found.digits and token is not None and token.decimals >= 0:
        found.value = shift_point(found.digits, token.decimals)
    _read_bounds(found, places, is_strict=is_strict)
    return found


def _read_bounds(found: _Amount, places: Places, *, is_strict: bool) -> None:
    """Read the least and the most amount, in units of the currency."""
    for bound in ("least", "most"):
        for _, name, value in places.stated(bound):
            try:
                setattr(found, bound, read_amount(value)[0])
                found.is_in_units = True
            except ValueError as error:
                if is_strict:
                    found.name, found.fault = name, str(error)
            break


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


def shift_point(digits: str, decimals: int) -> str:
    """Return base units in units of the currency."""
    if not decimals:
        return digits
    padded = digits.rjust(decimals + 1, "0")
    fraction = padded[-decimals:].rstrip("0")
    return f"{padded[:-decimals]}.{fraction}" if fraction else padded[:-decimals]


def read_amount(value: Any) -> tuple[str, str]:
    """Return a decimal in units of a currency, and the name of that if it stands beside.

    Raises ValueError with the reason.
    """
    if isinstance(value, Decimal):
        value = f"{value:f}" if abs(value.adjusted()) < MAX_AMOUNT else ""
    elif isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    match = _decimal.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or len(match[2]) > MAX_AMOUNT:
        raise ValueError("it must be a decimal such as 0.01 in units of the currency")
    whole, _, fraction = match[2].partition(".")
    symbol = match[3] or match[4] or (USD if match[1] else "")
    return shift_point((whole + fraction).lstrip("0") or "0", len(fraction)), symbol


def find_token(
    tokens: Stablecoins, network: str, name: str, places: Places | None = None
) -> Asset | None:
    """Return a currency by its ISO code or the address of its token on a network, or None.

    places: of a document, which may state the decimals
    """
    found, code = tokens.find(network, name), name.upper()
    if places is None:
        return found
    if found is None and code in MINOR_UNITS:
        found = Asset(code, MINOR_UNITS[code], is_usd=code == USD)
    decimals = [each for _, _, each in places.stated("decimals") if _is_decimals(each)]
    if not decimals:
        return found
    symbol = "" if name.startswith("0x") else name
    return Asset(
        found.currency if found else symbol, decimals[0], found is not None and found.is_usd
    )


def _is_decimals(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_DECIMALS


def read_unit(places: Places, intent: str) -> str:
    """Return the unit that an amount of an intent pays for, an empty string for a request."""
    unit = places.line("unit", MAX_NAME)
    if not unit:
        return "" if intent in {"", CHARGE} else UNIT
    return "" if unit.casefold() == REQUEST else unit


def read_accepts(entries: Sequence[dict[str, Any]], tokens: Stablecoins) -> list[Entry]:
    """Read the entries of `accepts`; the configuration of servers has the asset within `price`."""
    read = []
    for number, entry in enumerate(entries):
        priced = entry.get("price")
        asset = entry.get("asset")
        places = Places(entry, *(each for each in (priced, asset) if isinstance(each, dict)))
        read.append(read_entry(places, f"$.accepts[{number}]", tokens))
    return read


def choose(entries: Sequence[Entry], max_price: Decimal = INFINITY) -> int:
    """Return the number of the entry that is the price of a resource, 0 of none.

    The first in a known asset on a main network, else the first; an entry with an amount comes
    before an entry without, and an entry above `max_price` after its equals.
    """

    def rank(number: int) -> tuple[bool, ...]:
        each = entries[number]
        is_real = each.currency != "" and not is_test_network(each.network)
        is_dear = each.price != "" and Decimal(each.price) > max_price
        has_amount = bool(each.price or each.base_amount)
        return each.fault[1] != "", not has_amount, not is_real, is_dear

    return min(range(len(entries)), key=rank) if len(entries) > 1 else 0


def rank_offer(offer: Entry) -> tuple[bool, int]:
    """Return the rank of an offer of a document: with a fixed price, bounds, a unit, or none.

    Offers on test networks come last.
    """
    is_test = is_test_network(offer.network)
    if offer.unit:
        return is_test, 2
    return is_test, 0 if offer.amount else 1 if offer.price else 3


def make_price(entry: Entry) -> Pricing:
    """Return the price of an entry; that of another unit than a request is no price of one.

    Nor is that of a document on a test network.
    """
    scheme = entry.method or entry.scheme
    if entry.stated_by != ACCEPTS and not scheme:
        scheme = entry.protocol if entry.protocol != X402 else EXACT if entry.amount else DYNAMIC
    network = network_label(entry.network) or UNSET
    if entry.stated_by != ACCEPTS and is_test_network(entry.network):
        return Pricing(amount="", currency="", network=network, scheme=scheme)
    if entry.unit:
        return Pricing(
            amount="",
            currency=entry.currency,
            network=network,
            scheme=scheme,
            unit_type=entry.unit,
            unit_amount=entry.amount or entry.max_amount or UNSET,
        )
    return Pricing(
        amount=entry.amount,
        currency=entry.currency if entry.price else "",
        network=network,
        scheme=scheme or EXACT,
        min_amount=entry.min_amount or UNSET,
        max_amount=entry.max_amount or UNSET,
    )


def explain_price(entry: Entry | None, path: str) -> Notice | None:
    """Return why an entry at a JSON path has no price, None for an entry that has one."""
    if entry is None:
        reason = "asks for a payment, and the document states no price"
        return Notice(PRICE_NOT_LISTED, path, reason)
    if entry.stated_by != ACCEPTS:
        if is_test_network(entry.network):
            return Notice(PRICE_NOT_LISTED, path, "is on test networks alone")
        if entry.base_amount and entry.decimals is not None:
            reason = "is in base units, which differ among the methods of the payment"
            return Notice(PRICE_NOT_LISTED, path, reason)
        if entry.base_amount:
            reason = f"is not a currency whose decimals are known: {entry.asset or 'there is none'}"
            return Notice(UNKNOWN_ASSET, path, reason)
        return None
    if not entry.currency:
        label = network_label(entry.network)
        where = f"on {label}" if label else "without a network"
        reason = f"is not a known stablecoin {where}: the endpoint is listed without a price"
        return Notice(UNKNOWN_ASSET, f"{path}.asset", reason)
    if not entry.price:
        reason = "there is no price: neither `amount` nor `maxAmountRequired` is given"
        return Notice(UNPRICED, path, reason)
    return None


def merge_offers(stated: Iterable[Sequence[Entry]]) -> list[Entry]:
    """Return the offers of several documents; those of one kind and rail come from the first."""
    merged: dict[tuple[str, ...], list[Entry]] = {}
    for offers in stated:
        groups: dict[tuple[str, ...], list[Entry]] = defaultdict(list)
        for each in offers:
            groups[_rail(each)].append(each)
        merged = groups | merged
    return [each for offers in merged.values() for each in offers][:MAX_OFFERS]


def _rail(offer: Entry) -> tuple[str, ...]:
    currency = USD if is_usd(offer.currency) else offer.currency or offer.asset.casefold()
    kind = offer.stated_by, offer.protocol, offer.method, offer.intent
    return (*kind, network_label(offer.network), currency, offer.unit)
