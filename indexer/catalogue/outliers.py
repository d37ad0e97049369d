"""Outliers: prices that are orders of magnitude from the median of their category."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from indexer.columns.record_columns import RecordColumns

MAGNITUDES = 3
"""Flag prices that are 10 to this power above or below the median."""
MIN_SERVICES = 10
"""Priced services of a category below which its median is not used."""

Prices = npt.NDArray[np.float64]


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


def find_outliers(columns: RecordColumns) -> list[Outlier]:
    """Return the services with a suspicious price, the farthest from the median first.

    Prices are compared within a category and a currency; prices of 0 are not.
    """
    ranges = columns.service_runs["prices"]
    services, prices = ranges.owners, ranges.items
    strings = columns.strings.strings()
    keys: dict[str, int] = {}
    folded = [keys.setdefault(string.casefold(), len(keys)) for string in strings]
    own_categories = columns.service_runs["category"].items
    categories = np.asarray(folded)[own_categories][services]
    ids = columns.service_runs["id"].strings()
    outliers = []
    for group in _groups(categories << 32 | prices["currency"]):
        own = prices[group]
        for member, price, usual in _far_from_median(own["lowest"], own["highest"]):
            service = int(services[group[member]])
            category = strings[own_categories[service]]
            currency = strings[own["currency"][member]]
            outliers.append(Outlier(ids[service], category, currency, price, usual))
    return sorted(
        outliers, key=lambda outlier: (-_magnitudes(outlier.price, outlier.usual), outlier.id)
    )


def _groups(keys: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """Return the places of each key that is frequent enough, in the order of the first ones."""
    _, firsts, numbers = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(firsts[numbers], kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order])) + 1
    return [group for group in np.split(order, starts) if len(group) >= MIN_SERVICES]


def _far_from_median(lowest: Prices, highest: Prices) -> Iterator[tuple[int, float, float]]:
    """Yield the members of a group that are far from its median, their price, and the usual one."""
    usual = median(np.sqrt(lowest * highest).tolist())
    for member, ends in enumerate(zip(lowest.tolist(), highest.tolist(), strict=True)):
        price = max(ends, key=lambda price: _magnitudes(price, usual))
        if _magnitudes(price, usual) >= MAGNITUDES:
            yield member, price, float(f"{usual:.3g}")


def _magnitudes(price: float, usual: float) -> float:
    return abs(math.log10(price / usual))
