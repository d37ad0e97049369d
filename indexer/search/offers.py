"""Writing the files of `service.search.offers`."""

from __future__ import annotations

from array import array
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from indexer.search.filters import FacetWriter
from service.networks import network_label
from service.search.offers import COLUMNS, NONE, OFFER_FACETS, OFFER_KEYS
from service.storage.string_table import write_string_table


class Offer(Struct, frozen=True):
    """A way to pay; texts as given, empty where unknown.

    amount: in units of the currency
    start, stop: where its entry of `accepts` stands in the stored resources, or NONE
    """

    network: str
    scheme: str
    pay_to: str
    asset: str = ""
    amount: str = ""
    is_usd: bool = False
    start: int = NONE
    stop: int = NONE


class StringNumbers:
    """Numbers of strings in the order in which they came first; NONE for the empty string."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __getitem__(self, string: str) -> int:
        return self._numbers.setdefault(string, len(self._numbers)) if string else NONE

    @property
    def values(self) -> list[str]:
        """The strings, by number."""
        return list(self._numbers)

    def write(self, path: Path) -> npt.NDArray[np.int32]:
        """Write the strings as a `StringTable`; returns the number there of each number here.

        The last item is NONE, which is its index.
        """
        numbers = {string.encode(): number for string, number in self._numbers.items()}
        strings = sorted(numbers)
        write_string_table(path, strings)
        sorted_numbers = np.full(len(strings) + 1, NONE, np.int32)
        sorted_numbers[[numbers[string] for string in strings]] = np.arange(len(strings))
        return sorted_numbers


class OfferWriter:
    """Collects offers, each with the ordinal of its endpoint, or NONE."""

    def __init__(self) -> None:
        self._strings = StringNumbers()
        self._columns = {name: array("i") for name in OFFER_KEYS}
        self._prices, self._usd_prices = array("d"), array("d")
        self._starts, self._stops = array("q"), array("q")

    def __len__(self) -> int:
        return len(self._prices)

    def add(self, offer: Offer) -> None:
        """Add the next offer."""
        values = (offer.network, offer.scheme, offer.asset, offer.pay_to)
        for (name, key), value in zip(OFFER_KEYS.items(), values, strict=True):
            self._columns[name].append(self._strings[key(value)])
        price = float(offer.amount) if offer.amount else nan
        self._prices.append(price)
        self._usd_prices.append(price if offer.is_usd else nan)
        self._starts.append(offer.start)
        self._stops.append(offer.stop)

    def write(
        self, folder: Path, entries: int, owners: npt.NDArray[np.int32], endpoints: int
    ) -> None:
        """Write the offers, and facets of the endpoints.

        The first `entries` offers are entries of `accepts`. `owners` are the ordinals of the
        endpoints of all offers, or NONE.
        """
        folder.mkdir()
        for name in OFFER_FACETS:
            self._facet(name, owners).write(folder, endpoints)
        sorted_numbers = self._strings.write(folder / "strings")
        prices = np.asarray(self._prices)
        order = np.lexsort((prices, owners))
        columns: dict[str, npt.NDArray[Any]] = {"prices": prices}
        for name, numbers in self._columns.items():
            columns[COLUMNS[name]] = sorted_numbers[np.asarray(numbers, np.int32)]
        columns["usd_prices"] = np.asarray(self._usd_prices)
        columns["owners"] = owners.astype(np.int32)
        columns["starts"] = np.asarray(self._starts, np.int64)
        columns["stops"] = np.asarray(self._stops, np.int64)
        for name, column in columns.items():
            np.save(folder / f"{name}.npy", column[order])
        np.save(folder / "entries.npy", np.argsort(order)[:entries].astype(np.int32))

    def _facet(self, name: str, owners: npt.NDArray[np.int32]) -> FacetWriter:
        """Return a facet of the values that the offers of each endpoint have."""
        facet = FacetWriter(name, OFFER_KEYS[name])
        numbers = np.asarray(self._columns[name], np.int64)
        known = (owners >= 0) & (numbers >= 0)
        labels = [network_label(value) for value in self._strings.values]
        pairs = np.unique(owners[known].astype(np.int64) << 32 | numbers[known])
        for owner, number in zip(
            (pairs >> 32).tolist(), (pairs & 0xFFFFFFFF).tolist(), strict=True
        ):
            facet.add(owner, [labels[number]])
        return facet
