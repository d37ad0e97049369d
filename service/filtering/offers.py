"""Offers: the ways to pay for endpoints, and filters that must hold together on one of them.

Offers are ordered by endpoint (NONE first), then price (NaN last). `strings` is a `StringTable` of
normalised values and of currencies. `networks.npy`, `schemes.npy`, `assets.npy`, `pay_to.npy` and
`currencies.npy` are int32[offers], the number of the value of each offer or NONE. `prices.npy` and
`usd_prices.npy` are float64[offers], in units of the currency and in US dollars, NaN where unknown.
`shadowed.npy`, bool[offers], tells offers on test networks of endpoints that have other ones.
`owners.npy`, int32[offers], is the ordinal of the endpoint, or NONE; `bounds.npy`,
int64[endpoints + 1], the first offer of each endpoint; `by_price.npy`, uint32, the offers that have
an endpoint, cheapest first. `starts.npy` and `stops.npy`, int64[offers], are where the entry of
`accepts` stands in the stored resources, or NONE for an offer that no feed made. `entries.npy`,
int32[entries], is the offer of each entry of `accepts` of the resources in their order. Facets of
the endpoints stand beside them, as in `service.filtering.facets`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from math import nan
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from service.filtering.facets import OFFER_FACETS, OFFER_KEYS, open_facets
from service.search.postings import Integers, Mask
from service.storage.memory_map import open_array
from service.storage.string_table import StringTable

NONE = -1
CHUNK = 8192
"""Offers that are put in order at a time."""

Conditions = Mapping[str, Sequence[str]]
"""Values by the names of parameters; an offer satisfies them if it has one value of each."""
Wanted = Mapping[str, Integers]
"""Conditions with the numbers of the values."""

COLUMNS = {"network": "networks", "scheme": "schemes", "asset": "assets", "payTo": "pay_to"}


class OfferTerms(NamedTuple):
    """The terms of an offer: NaN and empty texts where unknown, network and scheme as keys."""

    usd_price: float
    price: float
    currency: str
    network: str
    scheme: str


class Offers:
    """The offers of a snapshot."""

    def __init__(self, folder: Path) -> None:
        self.facets = open_facets(folder, {name: OFFER_KEYS[name] for name in OFFER_FACETS})
        self._strings = StringTable(folder / "strings")
        self._columns = {name: open_array(folder / f"{file}.npy") for name, file in COLUMNS.items()}
        self._currencies = open_array(folder / "currencies.npy")
        self._prices: npt.NDArray[np.float64] = open_array(folder / "prices.npy")
        self._usd_prices: npt.NDArray[np.float64] = open_array(folder / "usd_prices.npy")
        self._shadowed: Mask = open_array(folder / "shadowed.npy")
        self._owners = open_array(folder / "owners.npy")
        self._bounds = open_array(folder / "bounds.npy")
        self._by_price = open_array(folder / "by_price.npy")
        self._starts = open_array(folder / "starts.npy")
        self._stops = open_array(folder / "stops.npy")
        self._entries = open_array(folder / "entries.npy")

    def resolve(self, conditions: Conditions) -> Wanted:
        """Look up the values of conditions."""
        return {
            name: np.array([self._number(OFFER_KEYS[name](value)) for value in values])
            for name, values in conditions.items()
        }

    def select(
        self, wanted: Wanted, max_price: float | None, max_usd_price: float | None = None
    ) -> Mask:
        """Return which offers satisfy the conditions and cost at most so much.

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
        return mask

    def endpoints_of(self, offers: Mask) -> Mask:
        """Return which endpoints have any of these offers."""
        endpoints = np.zeros(len(self._bounds) - 1, np.bool_)
        first = int(self._bounds[0])
        endpoints[self._owners[first:][offers[first:]]] = True
        return endpoints

    def cheapest(self, endpoint: int, wanted: Wanted) -> int:
        """Return the cheapest offer of an endpoint that satisfies the conditions, or NONE."""
        start, stop = self._bounds[endpoint : endpoint + 2].tolist()
        mask = self._satisfying(wanted, slice(start, stop))
        if "network" not in wanted:
            mask &= ~self._shadowed[start:stop]
        return start + int(mask.argmax()) if mask.any() else NONE

    def cheapest_terms(self, endpoint: int, conditions: Conditions) -> OfferTerms | None:
        """Return the terms of the offer that satisfies the conditions for the fewest US dollars.

        Where no such offer has a price in US dollars, those of the one that `cheapest` returns.
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

    def count_ways(self, endpoint: int) -> int:
        """Return the number of networks, schemes and assets that an endpoint is paid with.

        Test networks count only where there are no others.
        """
        start, stop = self._bounds[endpoint : endpoint + 2].tolist()
        columns = (self._columns[name][start:stop] for name in ("network", "scheme", "asset"))
        ways = zip(*(column.tolist() for column in columns), strict=True)
        return len(set(compress(ways, ~self._shadowed[start:stop])))

    def by_price(self, offers: Mask, endpoints: Mask) -> Iterator[Integers]:
        """Yield the endpoints of a mask in chunks, by the price of their cheapest of these offers.

        An endpoint without any of the offers is left out.
        """
        remaining = endpoints.copy()
        first = np.full(len(endpoints), CHUNK)
        for start in range(0, len(self._by_price), CHUNK):
            part = self._by_price[start : start + CHUNK]
            owners = self._owners[part[offers[part]]]
            owners = owners[remaining[owners]]
            places = np.arange(len(owners))
            np.minimum.at(first, owners, places)
            remaining[owners] = False
            yield owners[first[owners] == places].astype(np.int64)

    def entry_mask(self, conditions: Conditions) -> Mask:
        """Return which entries of `accepts` satisfy the conditions."""
        return self._satisfying(self.resolve(conditions), slice(None)).take(self._entries)

    def entries_up_to(self, usd_price: float) -> Mask:
        """Return which entries of `accepts` cost at most this in US dollars."""
        cheap: Mask = self._usd_prices.take(self._entries) <= usd_price
        return cheap

    def price(self, offer: int) -> tuple[float, str]:
        """Return the price of an offer, NaN where none is known, and its currency."""
        currency = int(self._currencies[offer])
        return float(self._prices[offer]), self._strings[currency] if currency >= 0 else ""

    def span(self, offer: int) -> tuple[int, int] | None:
        """Return where the entry of `accepts` stands in the stored resources, if there is one."""
        start = int(self._starts[offer])
        return None if start < 0 else (start, int(self._stops[offer]))

    def _string(self, column: str, offer: int) -> str:
        number = int(self._columns[column][offer])
        return self._strings[number] if number >= 0 else ""

    def _satisfying(self, wanted: Wanted, span: slice) -> Mask:
        mask = np.ones(len(self._owners[span]), np.bool_)
        for name, numbers in wanted.items():
            column = self._columns[name][span]
            mask &= column == numbers[0] if len(numbers) == 1 else np.isin(column, numbers)
        return mask

    def _number(self, value: str) -> int:
        """Return the number of a string, or one that no offer has."""
        number = self._strings.find(value)
        return number if number >= 0 else NONE - 1
