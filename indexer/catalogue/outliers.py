"""Outliers: prices that are orders of magnitude from the median of their category."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from statistics import median

import msgspec
from msgspec import Struct

from indexer.x402.testnets import mainnet_prices

MAGNITUDES = 3
"""Flag prices that are 10 to this power above or below the median."""
MIN_SERVICES = 10
"""Priced services of a category below which its median is not used."""


class Price(Struct, rename="camel"):
    """The prices of an endpoint as decimal strings, empty where there is none."""

    amount: str
    currency: str
    network: str = ""
    min_amount: str = ""
    max_amount: str = ""


class PricedEndpoint(Struct):
    """The fields of an endpoint that are compared."""

    pricing: Price


class PricedService(Struct):
    """The fields of a service that are compared."""

    id: str
    endpoints: list[PricedEndpoint]
    category: str = ""


class Outlier(Struct):
    """A suspicious price, and the usual one of the category, in units of the currency."""

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


class PriceRange(Struct, gc=False):
    """The lowest and the highest price of a service in one currency."""

    id: str
    category: str
    lowest: float
    highest: float


_decoder = msgspec.json.Decoder(PricedService)


def find_outliers(services: Iterable[bytes]) -> list[Outlier]:
    """Return the services, as JSON, with a suspicious price, the farthest from the median first.

    Prices are compared within a category and a currency; prices of 0 are not.
    """
    groups: dict[tuple[str, str], list[PriceRange]] = defaultdict(list)
    for service in map(_decoder.decode, services):
        for currency, prices in _prices(service).items():
            group = groups[service.category.casefold(), currency]
            group.append(PriceRange(service.id, service.category, min(prices), max(prices)))
    outliers = [
        outlier
        for (_, currency), ranges in groups.items()
        for outlier in _outliers(currency, ranges)
    ]
    return sorted(
        outliers, key=lambda outlier: (-_magnitudes(outlier.price, outlier.usual), outlier.id)
    )


def _outliers(currency: str, ranges: list[PriceRange]) -> Iterator[Outlier]:
    if len(ranges) < MIN_SERVICES:
        return
    usual = median(math.sqrt(each.lowest * each.highest) for each in ranges)
    for each in ranges:
        price = max(each.lowest, each.highest, key=lambda price: _magnitudes(price, usual))
        if _magnitudes(price, usual) >= MAGNITUDES:
            yield Outlier(each.id, each.category, currency, price, float(f"{usual:.3g}"))


def _prices(service: PricedService) -> dict[str, list[float]]:
    prices: dict[str, list[float]] = defaultdict(list)
    for price in mainnet_prices(endpoint.pricing for endpoint in service.endpoints):
        for amount in (price.amount, price.min_amount, price.max_amount):
            if amount and (value := float(amount)) > 0:
                prices[price.currency].append(value)
    return prices


def _magnitudes(price: float, usual: float) -> float:
    return abs(math.log10(price / usual))
