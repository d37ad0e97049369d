"""Offers: the ways to pay for endpoints, and filters that must hold together on one of them.

Values are compared as numbers in a `StringTable` of normalised values and of currencies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import nan
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from service.conditions import OFFER_KEYS
from service.search.postings import Integers, Mask
from service.storage.container import open_arrays
from service.storage.string_table import StringTable

NONE = -1
UNKNOWN = NONE - 1
"""The number of a string that no record has."""
CHUNK = 8192
"""Offers that are put in order at a time."""

OfferConditions = Mapping[str, Sequence[str]]
"""Values by the names of parameters; an offer satisfies them if it has one value of each."""
Wanted = Mapping[str, Integers]
"""Conditions with the numbers of the values."""


class OfferTerms(NamedTuple):
    """The terms of an offer: NaN and empty texts where unknown, network and scheme as keys."""

    usd_price: float
    price: float
    currency: str
    network: str
    scheme: str


class Offers:
    """The offers of a snapshot, in the order of endpoints (-1 first), then prices (NaN last).

    network, scheme, asset, payTo, currency: the number of the string, or -1
    prices, usd_prices: in units of the currency and in US dollars, or NaN
    shadowed: whether an offer is on a test network and its endpoint has others
    endpoints: the endpoint, or -1
    starts, stops: where the entry of `accepts` is in the texts of resources, or -1
    bounds: the first offer of each endpoint, and the end
    by_price: the offers that have an endpoint, cheapest first
    entries: the offer of each entry of `accepts` of the listed resources
    """

    def __init__(self, folder: Path) -> None:
        self._strings = StringTable(open_arrays(folder / "strings.arrays"), "strings")
        self._arrays = arrays = open_arrays(folder / "offers.arrays")
        self._prices: npt.NDArray[np.float64] = arrays["prices"]
        self._usd_prices: npt.NDArray[np.float64] = arrays["usd_prices"]
        self._shadowed: Mask = arrays["shadowed"]
        self._endpoints: npt.NDArray[np.int32] = arrays["endpoints"]
        self._bounds: npt.NDArray[np.int64] = arrays["bounds"]
        self._entries: npt.NDArray[np.int32] = arrays["entries"]

    def resolve(self, conditions: OfferConditions) -> Wanted:
        """Look up the values of conditions."""
        return {
            name: np.array(
                [self._strings.find(OFFER_KEYS[name](value), UNKNOWN) for value in values]
            )
            for name, values in conditions.items()
        }

    def select(
        self, wanted: Wanted, max_price: float | None, max_usd_price: float | None = None
    ) -> tuple[Mask, Mask]:
        """Return which offers satisfy conditions and a bound, and which endpoints have any of them.

        `max_price` is in units of the currency of each offer, `max_usd_price` in US dollars.

        Offers on test networks count only where an endpoint has no others, unless `network` is
        among the conditions.
        """
        mask = self._satisfying(wanted, slice(None))
        if "network" not in wanted:
            mask &= ~self._shadowed
        if max_price is not None:
            mask &= self._prices <= max_price
        if max_usd_price is not None:
            mask &= self._usd_prices <= max_usd_price
        endpoints = np.zeros(len(self._bounds) - 1, np.bool_)
        first = int(self._bounds[0])
        endpoints[self._endpoints[first:][mask[first:]]] = True
        return mask, endpoints

    def cheapest(self, endpoint: int, wanted: Wanted) -> int:
        """Return the cheapest offer of an endpoint that satisfies the conditions, or NONE."""
        start, stop = self._bounds[endpoint : endpoint + 2].tolist()
        mask = self._satisfying(wanted, slice(start, stop))
        if "network" not in wanted:
            mask &= ~self._shadowed[start:stop]
        return start + int(mask.argmax()) if mask.any() else NONE

    def cheapest_terms(self, endpoint: int, conditions: OfferConditions) -> OfferTerms | None:
        """Return the terms of the offer that satisfies the conditions for the fewest US dollars.

        Where none has a price in US dollars, return the terms of the offer that `cheapest` returns.
        """
        wanted = self.resolve(conditions)
        start, stop = self._bounds[endpoint : endpoint + 2].tolist()
        prices = np.where(
            self._satisfying(wanted, slice(start, stop)), self._usd_prices[start:stop], nan
        )
        if np.isnan(prices).all():
            offer = self.cheapest(endpoint, wanted)
        else:
            offer = start + int(np.nanargmin(prices))
        if offer == NONE:
            return None
        return OfferTerms(
            float(self._usd_prices[offer]),
            *self.price(offer),
            self._string("network", offer),
            self._string("scheme", offer),
        )

    def by_price(self, offers: Mask, endpoints: Mask) -> Iterator[Integers]:
        """Yield the endpoints of a mask in chunks, by the price of their cheapest of these offers.

        An endpoint without any of the offers is left out.
        """
        remaining = endpoints.copy()
        first = np.full(len(endpoints), CHUNK)
        by_price = self._arrays["by_price"]
        for start in range(0, len(by_price), CHUNK):
            part = by_price[start : start + CHUNK]
            owners = self._endpoints[part[offers[part]]]
            owners = owners[remaining[owners]]
            places = np.arange(len(owners))
            np.minimum.at(first, owners, places)
            remaining[owners] = False
            yield owners[first[owners] == places].astype(np.int64)

    def entry_mask(self, conditions: OfferConditions) -> Mask:
        """Return which entries of `accepts` satisfy the conditions."""
        return self._satisfying(self.resolve(conditions), slice(None)).take(self._entries)

    def entries_up_to(self, usd_price: float) -> Mask:
        """Return which entries of `accepts` cost at most this in US dollars."""
        cheap: Mask = self._usd_prices.take(self._entries) <= usd_price
        return cheap

    def price(self, offer: int) -> tuple[float, str]:
        """Return the price of an offer, NaN where none is known, and its currency."""
        return float(self._prices[offer]), self._string("currency", offer)

    def span(self, offer: int) -> tuple[int, int] | None:
        """Return where the entry of `accepts` stands in the stored resources, if there is one."""
        start = int(self._arrays["starts"][offer])
        return None if start < 0 else (start, int(self._arrays["stops"][offer]))

    def _string(self, column: str, offer: int) -> str:
        number = int(self._arrays[column][offer])
        return self._strings[number] if number >= 0 else ""

    def _satisfying(self, wanted: Wanted, span: slice) -> Mask:
        mask = np.ones(len(self._endpoints[span]), np.bool_)
        for name, numbers in wanted.items():
            column = self._arrays[name][span]
            mask &= column == numbers[0] if len(numbers) == 1 else np.isin(column, numbers)
        return mask
