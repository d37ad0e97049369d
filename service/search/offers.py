"""Offers: the ways to pay for endpoints, and filters that must hold together on one of them.

They are ordered by endpoint, those without one first, then by price, unknown prices last.
`strings` is a `StringTable` of normalised values. `networks.npy`, `schemes.npy`, `assets.npy` and
`pay_to.npy` are int32[offers], the number of the value of each offer or NONE. `prices.npy` and
`usd_prices.npy` are float64[offers], in units of the currency and in US dollars, NaN where unknown.
`owners.npy`, int32[offers], is the ordinal of the endpoint, or NONE. `starts.npy` and `stops.npy`,
int64[offers], are where the entry of `accepts` stands in the stored resources, or NONE for an offer
that no feed made. `entries.npy`, int32[entries], is the offer of each entry of `accepts` of the
resources in their order. Facets of the endpoints stand beside them, as in `service.search.filters`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from service.networks import network_key
from service.search.filters import Facet
from service.search.postings import Integers, Mask
from service.storage.memory_map import open_array
from service.storage.string_table import StringTable

NONE = -1

# The functions that map the spellings of a value to one key, by the names of parameters.
OFFER_KEYS: dict[str, Callable[[str], str]] = {
    "network": network_key,
    "scheme": str.casefold,
    "asset": str.casefold,
    "payTo": str.casefold,
}
OFFER_FACETS = ("network", "scheme")
"""The names of the facets over endpoints, whose files stand beside the offers."""
COLUMNS = {"network": "networks", "scheme": "schemes", "asset": "assets", "payTo": "pay_to"}


class Offers:
    """The offers of a snapshot."""

    def __init__(self, folder: Path) -> None:
        self._strings = StringTable(folder / "strings")
        self._columns = {name: open_array(folder / f"{file}.npy") for name, file in COLUMNS.items()}
        self._usd_prices: npt.NDArray[np.float64] = open_array(folder / "usd_prices.npy")
        self._entries = open_array(folder / "entries.npy")
        self.facets = {name: Facet(folder, name, OFFER_KEYS[name]) for name in OFFER_FACETS}
        self._prices = open_array(folder / "prices.npy")
        self._owners = open_array(folder / "owners.npy")
        self._unowned = int(np.searchsorted(self._owners, 0))
        self._starts = open_array(folder / "starts.npy")
        self._stops = open_array(folder / "stops.npy")

    def mask(self, conditions: Mapping[str, Sequence[str]]) -> Mask:
        """Return which offers have, for each of these names, one of the values."""
        mask = np.ones(len(self._owners), np.bool_)
        for name, values in conditions.items():
            numbers = [self._number(OFFER_KEYS[name](value)) for value in values]
            column = self._columns[name]
            mask &= column == numbers[0] if len(numbers) == 1 else np.isin(column, numbers)
        return mask

    def cheapest(
        self, conditions: Mapping[str, Sequence[str]], endpoints: int
    ) -> tuple[Mask, npt.NDArray[np.float64], Integers]:
        """Return which endpoints have an offer that satisfies the conditions, and the cheapest one.

        Its price is NaN where none is known, and its number NONE where an endpoint has none.
        """
        offers = np.flatnonzero(self.mask(conditions))
        offers = offers[np.searchsorted(offers, self._unowned) :]
        owners = self._owners.take(offers)
        is_first = np.diff(owners, prepend=NONE) != 0
        owners, offers = owners[is_first], offers[is_first]
        numbers = np.full(endpoints, NONE, np.int64)
        numbers[owners] = offers
        prices = np.full(endpoints, np.nan)
        prices[owners] = self._prices.take(offers)
        return numbers >= 0, prices, numbers

    def entry_mask(self, conditions: Mapping[str, Sequence[str]]) -> Mask:
        """Return which entries of `accepts` have one of the values for each name."""
        return self.mask(conditions).take(self._entries)

    def entries_up_to(self, usd_price: float) -> Mask:
        """Return which entries of `accepts` cost at most this in US dollars."""
        cheap: Mask = self._usd_prices.take(self._entries) <= usd_price
        return cheap

    def price(self, offer: int) -> float:
        """Return the price of an offer, NaN where none is known."""
        return float(self._prices[offer])

    def span(self, offer: int) -> tuple[int, int] | None:
        """Return where the entry of `accepts` stands in the stored resources, if there is one."""
        start = int(self._starts[offer])
        return None if start < 0 else (start, int(self._stops[offer]))

    def _number(self, value: str) -> int:
        """Return the number of a string, or one that no offer has."""
        number = self._strings.find(value)
        return number if number >= 0 else NONE - 1
