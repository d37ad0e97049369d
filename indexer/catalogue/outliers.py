"""Outliers: prices that are orders of magnitude from what their category usually costs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from statistics import median

import msgspec
from msgspec import Struct

from indexer.x402.testnets import mainnet_prices

MAGNITUDES = 3
"""Powers of ten from the usual price of a category from which on a price is suspicious."""
FEWEST = 10
"""Services with a price that a category needs for a price to be usual."""


class Price(Struct, rename="camel"):
    """What a request costs at least and at most."""

    amount: str
    currency: str
    network: str = ""
    min_amount: str = ""
    max_amount: str = ""


class Priced(Struct):
    """An endpoint's price."""

    pricing: Price


class Offered(Struct):
    """What is compared of a service."""

    id: str
    endpoints: list[Priced]
    category: str = ""


class Outlier(Struct):
    """A price, in units of the currency, and what is usual in the category, as a median."""

    id: str
    category: str
    currency: str
    price: float
    usual: float

    def __str__(self) -> str:
        where = self.category or "services without a category"
        return (
            f"{self.id}: {self.price:g} {self.currency}, where {self.usual:g} is usual in {where}"
        )


class Range(Struct, gc=False):
    """A service's least and greatest price in one currency."""

    id: str
    category: str
    least: float
    most: float


_decoder = msgspec.json.Decoder(Offered)


def find_outliers(services: Iterable[bytes]) -> list[Outlier]:
    """The services with a suspicious price, the farthest from the usual first.

    Prices of nothing are not compared, nor those in a currency with few others in the category.
    """
    groups: dict[tuple[str, str], list[Range]] = defaultdict(list)
    for service in map(_decoder.decode, services):
        for currency, prices in _prices(service).items():
            group = groups[service.category.casefold(), currency]
            group.append(Range(service.id, service.category, min(prices), max(prices)))
    outliers = [
        outlier
        for (_, currency), ranges in groups.items()
        for outlier in _outliers(currency, ranges)
    ]
    return sorted(outliers, key=lambda each: (-_magnitudes(each.price, each.usual), each.id))


def _outliers(currency: str, ranges: list[Range]) -> Iterator[Outlier]:
    if len(ranges) < FEWEST:
        return
    usual = median(math.sqrt(each.least * each.most) for each in ranges)
    for each in ranges:
        price = max(each.least, each.most, key=lambda price: _magnitudes(price, usual))
        if _magnitudes(price, usual) >= MAGNITUDES:
            yield Outlier(each.id, each.category, currency, price, float(f"{usual:.3g}"))


def _prices(service: Offered) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for price in mainnet_prices(endpoint.pricing for endpoint in service.endpoints):
        for amount in (price.amount, price.min_amount, price.max_amount):
            if amount and (value := float(amount)) > 0:
                found[price.currency].append(value)
    return found


def _magnitudes(price: float, usual: float) -> float:
    return abs(math.log10(price / usual))
