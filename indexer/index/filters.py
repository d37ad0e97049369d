"""Writing the tables of services and of endpoints that `service.filtering.table` reads."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from indexer.derive.columns import RecordColumns, of_strings
from indexer.derive.ragged import AnyIntegers, Ragged
from indexer.index.popularity import Popularity
from service.arrays.container import Arrays, write_arrays
from service.conditions import (
    Column,
    Conditions,
    EndpointConditions,
    ServiceConditions,
    conditions_of,
)
from service.filtering.offers import NONE
from service.filtering.table import text_column


def write_services(path: Path, columns: RecordColumns, popularity: Popularity) -> None:
    """Write the table of services."""
    services, runs = columns.services, columns.service_runs
    names = [name.casefold() for name in runs["name"].strings()]
    values: Arrays = _values_of(popularity) | {"price": services["cheapest"]}
    arrays = _columns(ServiceConditions, services, runs, columns.strings, values)
    arrays["by_name"] = np.array(sorted(range(len(names)), key=names.__getitem__), np.uint32)
    arrays["by_popularity"] = popularity.order
    write_arrays(path, arrays)


def write_endpoints(
    path: Path, columns: RecordColumns, popularity: Popularity, of_listings: Arrays
) -> None:
    """Write the table of endpoints; `of_listings` are its columns that records lack."""
    enriched = np.repeat(columns.services["enriched"], columns.services["endpoints"])
    values = _values_of(popularity) | of_listings | {"enriched": enriched}
    endpoints, runs = columns.endpoints, columns.endpoint_runs
    arrays = _columns(EndpointConditions, endpoints, runs, columns.strings, values)
    arrays["by_popularity"] = popularity.order
    write_arrays(path, arrays | of_listings)


def _values_of(popularity: Popularity) -> Arrays:
    return {"payers": popularity.stored_payers, "alive": popularity.alive}


def _columns(
    kind: type[Conditions],
    rows: npt.NDArray[np.void],
    runs: Mapping[str, Ragged],
    strings: Ragged,
    values: Arrays,
) -> Arrays:
    """Return the columns that conditions are compared with, and the order of prices.

    rows: numbers and flags by name, as `values` has others
    runs: the numbers of the texts of each row in `strings`
    """
    arrays: Arrays = {}
    for _, _, column in conditions_of(kind):
        if column.holds is not None and not column.of_offer:
            name = column.name
            arrays[name] = values[name] if name in values else rows[name]
        elif column.name in runs:
            sizes, items = runs[column.name]
            is_used = np.zeros(len(strings.sizes), np.bool_)
            is_used[items] = True
            spellings = strings.take(np.flatnonzero(is_used)).strings()
            arrays |= text_column(column, spellings, (np.cumsum(is_used) - 1)[items], sizes)
    arrays["by_price"] = np.argsort(arrays["price"], kind="stable").astype(np.uint32)
    return arrays


class TextRows:
    """Collects the texts of a column, row by row."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self._read = attrgetter(column.source[0])
        self._numbers: dict[str, int] = {}
        self._items, self._sizes = array("i"), array("I")

    def add(self, row: Any) -> None:
        """Add the text or the texts of an object that has the source of the column."""
        texts, before = self._read(row), len(self._items)
        numbers = map(self._number, [texts] if isinstance(texts, str) else texts)
        self._items.extend(number for number in numbers if number != NONE)
        self._sizes.append(len(self._items) - before)

    def extend(self, numbers: AnyIntegers, strings: Ragged) -> None:
        """Add rows of one text each, by their numbers in a table of strings."""
        own = of_strings(self._number, numbers, strings)
        self._items.frombytes(own[own != NONE].astype(np.int32).tobytes())
        self._sizes.frombytes((own != NONE).astype(np.uint32).tobytes())

    def arrays(self, order: AnyIntegers | None = None) -> Arrays:
        """Return the arrays of the column, of the rows in an order."""
        rows = Ragged(np.array(self._sizes, np.uint32), np.array(self._items, np.int32))
        sizes, items = rows if order is None else rows.take(order)
        split = self.column.split
        spellings = [text if split is None else "".join(split(text)) for text in self._numbers]
        return text_column(self.column, spellings, items, sizes)

    def _number(self, text: str) -> int:
        """Return the number of a text, NONE for one without a key."""
        if text not in self._numbers and not self.column.key(text):
            return NONE
        return self._numbers.setdefault(text, len(self._numbers))
