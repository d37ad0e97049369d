"""Writing the table of offers, which `service.filtering.offers` reads."""

from __future__ import annotations

from array import array
from math import nan
from pathlib import Path

import numpy as np
import numpy.typing as npt

from indexer.derive.columns import EMPTY, RecordColumns, of_strings
from indexer.index.filters import TextRows
from indexer.resources.assets import is_test_network, is_usd
from indexer.resources.entries import Entry
from service.arrays.container import Arrays, write_arrays
from service.conditions import CURRENCY, OFFER_COLUMNS, OFFER_NETWORK, OFFER_SCHEME, Column
from service.filtering.offers import NONE
from service.filtering.table import Values, text_column


class OfferWriter:
    """Collects offers: first the entries of `accepts` of all resources in their order."""

    def __init__(self) -> None:
        self._columns = [TextRows(column) for column in (*OFFER_COLUMNS.values(), CURRENCY)]
        self._prices, self._usd_prices = array("d"), array("d")
        self._places, self._resources = array("q"), array("i")
        self._priced = np.empty(0, np.int32)

    def add(self, entry: Entry, resource: int, position: int) -> None:
        """Add the next entry of `accepts`, of a resource that is stored at a position."""
        for column in self._columns:
            column.add(entry)
        price = float(entry.price) if entry.price else nan
        self._prices.append(price)
        self._usd_prices.append(price if entry.is_usd else nan)
        self._places.extend((position + entry.start, position + entry.stop))
        self._resources.append(resource)

    def add_prices(self, columns: RecordColumns, is_unlisted: npt.NDArray[np.bool_]) -> None:
        """Add an offer for each endpoint that no feed lists, after all entries.

        An endpoint without price, network, scheme and payee gets none.
        """
        endpoints, strings = columns.endpoints, columns.strings
        is_offer = ~np.isnan(endpoints["price"])
        for name in ("network", "scheme", "pay_to"):
            is_offer |= endpoints[name] != EMPTY
        owners = np.flatnonzero(is_offer & is_unlisted)
        endpoints, no_text = endpoints[owners], np.full(len(owners), EMPTY)
        for rows in self._columns:
            (name,) = rows.column.source
            is_known = name in (endpoints.dtype.names or ())
            rows.extend(endpoints[name] if is_known else no_text, strings)
        is_dollar = of_strings(is_usd, endpoints["currency"], strings) == 1
        is_dollar &= of_strings(is_test_network, endpoints["network"], strings) == 0
        prices = np.ascontiguousarray(endpoints["price"])
        self._prices.frombytes(prices.tobytes())
        self._usd_prices.frombytes(np.where(is_dollar, prices, nan).tobytes())
        self._places += array("q", [NONE, NONE]) * len(owners)
        self._priced = owners.astype(np.int32)

    def write(self, path: Path, owners: npt.NDArray[np.int32], endpoints: int) -> Arrays:
        """Write the offers; returns the columns of endpoints of the values of their offers.

        Nothing may be called afterwards.

        owners: int32[resources], the ordinals of their endpoints, or NONE
        """
        prices, resources = np.asarray(self._prices), np.array(self._resources, np.int32)
        owners = np.concatenate((owners[resources], self._priced))
        resources = np.append(resources, np.full(len(self._priced), NONE, np.int32))
        order = np.lexsort((prices, owners))
        owners, places = owners[order], np.asarray(self._places).reshape(-1, 2)[order]
        arrays: Arrays = {
            "price": prices[order],
            "usd_price": np.asarray(self._usd_prices)[order],
            "endpoint": owners,
            "resource": resources[order],
            "start": places[:, 0],
            "stop": places[:, 1],
        }
        for rows in self._columns:
            arrays |= rows.arrays(order)
        arrays["by_price"] = np.argsort(arrays["price"], kind="stable").astype(np.uint32)
        arrays["shadowed"] = shadowed = _shadowed(arrays, owners, endpoints)
        write_arrays(path, arrays)
        vars(self).clear()  # the writer lives as long as the build
        columns = _of_endpoints(OFFER_NETWORK, arrays, owners, endpoints)
        return columns | _of_endpoints(
            OFFER_SCHEME, arrays, np.where(shadowed, NONE, owners), endpoints
        )


def _of_endpoints(
    column: Column, arrays: Arrays, owners: npt.NDArray[np.int32], endpoints: int
) -> Arrays:
    """Return the column of the values that the offers of each endpoint have."""
    values = Values(arrays, column)
    numbers = arrays[f"{column.name}.numbers"]
    known = np.flatnonzero((owners != NONE) & (numbers < len(values)))
    pairs = np.unique(owners[known].astype(np.int64) << 32 | numbers[known])
    sizes = np.bincount(pairs >> 32, minlength=endpoints)
    return text_column(column, [*values], pairs & 0xFFFFFFFF, sizes)


def _shadowed(
    arrays: Arrays, owners: npt.NDArray[np.int32], endpoints: int
) -> npt.NDArray[np.bool_]:
    """Return which offers are on a test network where the endpoint has one on a main network.

    Nobody is paid real money there.
    """
    values = Values(arrays, OFFER_NETWORK)
    is_test = np.array([*map(is_test_network, values), False])
    is_test = is_test[arrays["network.numbers"]]
    has_main = np.zeros(endpoints + 1, np.bool_)
    has_main[owners[~is_test]] = True
    has_main[NONE] = False
    shadowed: npt.NDArray[np.bool_] = is_test & has_main[owners]
    return shadowed
