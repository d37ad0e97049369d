"""Writing the files of `service.filtering.offers`, and the facets of endpoints by their offers."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from math import nan
from pathlib import Path

import numpy as np
import numpy.typing as npt

from indexer.derive.columns import EMPTY, RecordColumns, of_strings
from indexer.derive.ragged import AnyIntegers, Ragged, is_first, ragged_texts, rank_texts
from indexer.resources.assets import is_test_network, is_usd
from indexer.resources.entries import Entry
from indexer.search.filters import FacetValues
from service.conditions import OFFER_KEYS
from service.filtering.offers import NONE
from service.networks import network_label
from service.search.postings import Integers
from service.storage.container import write_arrays, writing_arrays
from service.storage.string_table import string_arrays

# Fields of the columns of endpoints, by the names of the keys of offers.
ENDPOINT_FIELDS = {"network": "network", "scheme": "scheme", "payTo": "pay_to"}


class StringNumbers:
    """Numbers of strings in the order in which they came first; NONE for the empty string."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __getitem__(self, string: str) -> int:
        return self._numbers.setdefault(string, len(self._numbers)) if string else NONE

    @property
    def strings(self) -> list[str]:
        """The strings, by number."""
        return list(self._numbers)

    def write(self, path: Path) -> npt.NDArray[np.int32]:
        """Write the strings as a `StringTable`; returns the number there of each number here.

        The last item is NONE, which is its index.
        """
        strings, ranks = rank_texts([string.encode() for string in self._numbers])
        write_arrays(path, string_arrays("strings", strings))
        return np.append(ranks, NONE).astype(np.int32)


class OfferWriter:
    """Collects offers: first the entries of `accepts` of all resources in their order."""

    def __init__(self) -> None:
        self._strings = StringNumbers()
        self._columns = {name: _Column(self._strings, key) for name, key in OFFER_KEYS.items()}
        self._currencies = _Column(self._strings, str)
        self._prices, self._usd_prices = array("d"), array("d")
        self._starts, self._stops = array("q"), array("q")

    def __len__(self) -> int:
        return len(self._prices)

    def add(self, entry: Entry, position: int) -> None:
        """Add the next entry of `accepts`, of the resource that is stored at a position."""
        columns = self._columns
        columns["network"].add(entry.network)
        columns["scheme"].add(entry.scheme)
        columns["asset"].add(entry.asset)
        columns["payTo"].add(entry.pay_to)
        self._currencies.add(entry.currency)
        price = float(entry.price) if entry.price else nan
        self._prices.append(price)
        self._usd_prices.append(price if entry.is_usd else nan)
        self._starts.append(position + entry.start)
        self._stops.append(position + entry.stop)

    def add_prices(self, columns: RecordColumns, is_unlisted: npt.NDArray[np.bool_]) -> Integers:
        """Add an offer for each endpoint that no feed lists; returns their ordinals, ascending.

        An endpoint without price, network, scheme and payee gets none.
        """
        endpoints, strings = columns.endpoints, columns.strings
        is_offer = ~np.isnan(endpoints["price"])
        for field in ENDPOINT_FIELDS.values():
            is_offer |= endpoints[field] != EMPTY
        owners = np.flatnonzero(is_offer & is_unlisted)
        endpoints = endpoints[owners]
        for name, column in self._columns.items():
            is_known = name in ENDPOINT_FIELDS
            numbers = endpoints[ENDPOINT_FIELDS[name]] if is_known else np.zeros_like(owners)
            column.extend(numbers, strings)
        self._currencies.extend(endpoints["currency"], strings)
        is_dollar = of_strings(is_usd, endpoints["currency"], strings) == 1
        is_dollar &= of_strings(is_test_network, endpoints["network"], strings) == 0
        prices = np.ascontiguousarray(endpoints["price"])
        self._prices.frombytes(prices.tobytes())
        self._usd_prices.frombytes(np.where(is_dollar, prices, nan).tobytes())
        nowhere = array("q", [NONE]) * len(owners)
        self._starts += nowhere
        self._stops += nowhere
        return owners

    def write(
        self, folder: Path, entries: int, owners: npt.NDArray[np.int32], endpoints: int
    ) -> dict[str, FacetValues]:
        """Write the offers; returns the values of facets that endpoints have by them.

        Nothing may be called afterwards.

        entries: how many of the first offers are entries of `accepts`
        owners: int32[offers], the ordinals of their endpoints, or NONE
        """
        folder.mkdir()
        numbers = self._strings.write(folder / "strings.arrays")
        prices, shadowed = np.asarray(self._prices), self._shadowed(owners, endpoints)
        order = np.lexsort((prices, owners))
        bounds = np.searchsorted(owners, np.arange(endpoints + 1), sorter=order)
        by_price = bounds[0] + np.argsort(prices[order[bounds[0] :]], kind="stable")
        with writing_arrays(folder / "offers.arrays") as writer:
            for name, column in (*self._columns.items(), ("currency", self._currencies)):
                writer.write(name, numbers[column.keys[order]])
            writer.write("prices", prices[order])
            writer.write("usd_prices", np.asarray(self._usd_prices)[order])
            writer.write("shadowed", shadowed[order])
            writer.write("endpoints", owners[order])
            writer.write("starts", np.asarray(self._starts)[order])
            writer.write("stops", np.asarray(self._stops)[order])
            writer.write("bounds", bounds)
            writer.write("by_price", by_price.astype(np.uint32))
            writer.write("entries", np.argsort(order)[:entries].astype(np.int32))
        networks, schemes = self._columns["network"], self._columns["scheme"]
        # The labels of two names of a network are one value, as facets compare them by their keys.
        labels = ragged_texts([network_label(name).encode() for name in networks.spellings])
        spellings = ragged_texts([name.encode() for name in schemes.spellings])
        counted = np.where(shadowed, NONE, owners)
        values = {
            "network": FacetValues(networks.of_endpoints(owners, endpoints), labels),
            "scheme": FacetValues(schemes.of_endpoints(counted, endpoints), spellings),
        }
        vars(self).clear()  # the writer lives as long as the build
        return values

    def _shadowed(self, owners: npt.NDArray[np.int32], endpoints: int) -> npt.NDArray[np.bool_]:
        """Return which offers are on a test network where the endpoint has one on a main network.

        Nobody is paid real money there.
        """
        strings = self._strings.strings
        numbers = self._columns["network"].keys
        is_test_number = np.zeros(len(strings) + 1, np.bool_)  # the last is NONE
        for number in np.unique(numbers[numbers != NONE]).tolist():
            is_test_number[number] = is_test_network(strings[number])
        is_test = is_test_number[numbers]
        has_main = np.zeros(endpoints + 1, np.bool_)
        has_main[owners[~is_test]] = True
        has_main[NONE] = False
        shadowed: npt.NDArray[np.bool_] = is_test & has_main[owners]
        return shadowed


class _Column:
    """The values of one parameter of all offers; a spelling is reduced to its key once."""

    def __init__(self, strings: StringNumbers, key: Callable[[str], str]) -> None:
        self._strings, self._key = strings, key
        self.spellings: dict[str, int] = {}
        self._keys = array("i")
        self._numbers = array("i")

    @property
    def keys(self) -> npt.NDArray[np.int32]:
        """The number of the key of each offer, or NONE."""
        keys: npt.NDArray[np.int32] = np.array(self._keys, np.int32)[np.asarray(self._numbers)]
        return keys

    def add(self, value: str) -> None:
        self._numbers.append(self._number(value))

    def extend(self, numbers: AnyIntegers, strings: Ragged) -> None:
        """Add values by their numbers in a table of strings."""
        own = of_strings(self._number, numbers, strings)
        self._numbers.frombytes(own.astype(np.int32).tobytes())

    def of_endpoints(self, owners: npt.NDArray[np.int32], endpoints: int) -> Ragged:
        """Return the spellings that the offers of each endpoint have, of each key the first."""
        keys, numbers = self.keys, np.array(self._numbers, np.int32)
        known = np.flatnonzero((owners >= 0) & (keys >= 0))
        pairs = owners[known].astype(np.int64) << 32 | keys[known]
        order = np.argsort(pairs, kind="stable")
        first = known[order[is_first(pairs[order])]]
        sizes = np.bincount(owners[first], minlength=endpoints).astype(np.uint32)
        return Ragged(sizes, numbers[first])

    def _number(self, value: str) -> int:
        number = self.spellings.get(value)
        if number is None:
            number = self.spellings[value] = len(self.spellings)
            self._keys.append(self._strings[self._key(value)])
        return number
