"""Tables of columns: a row for each service, endpoint, offer or listed resource.

A condition scans a column. The arrays of a column of texts, NAME:
NAME.texts, NAME.offsets: `Texts` of its values in their most frequent spelling, the most frequent
    first
NAME.order: the numbers of the values in the order of their keys
NAME.numbers: the numbers of the values of all rows, row after row
NAME.sizes: how many values each row has; without it one, or none: the number of values
Numbers and flags are an array NAME; by_NAME has the rows in an order that needs no query.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from service.arrays.container import Arrays, items_of, narrow
from service.arrays.texts import IdTable, Texts
from service.conditions import MAX_COUNTED, Column, Conditions, Given, Normaliser
from service.search.postings import Integers, Mask
from service.search.top_k import NO_ORDINALS, top_k

CHUNK = 8192
"""Rows whose matches are listed at a time: a page seldom needs more."""

ValueCounts: TypeAlias = list[dict[str, str | int]]
FacetCounts: TypeAlias = dict[str, ValueCounts]
RowNumbers: TypeAlias = Integers | slice
ALL = slice(None)


class Values:
    """The values of a column by their numbers, found by their keys."""

    def __init__(self, arrays: Arrays, column: Column) -> None:
        self._texts, self._key = Texts(arrays, column.name), column.key
        self._order = items_of(arrays[f"{column.name}.order"])

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, number: int) -> str:
        return self._texts.text(number).decode()

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))

    def find(self, value: str) -> int | None:
        """Return the number of a value in any spelling, or None."""
        key, order = self._key(value), self._order
        place = bisect_left(order, key, key=lambda number: self._key(self[number]))
        is_found = place < len(order) and self._key(self[order[place]]) == key
        return order[place] if is_found else None


class TextColumn:
    """A column of texts.

    numbers, sizes: as a file has them
    """

    def __init__(
        self,
        values: Values | IdTable,
        key: Normaliser,
        numbers: npt.NDArray[np.integer],
        sizes: npt.NDArray[np.unsignedinteger] | None = None,
    ) -> None:
        self.values, self.key, self._numbers, self._sizes = values, key, numbers, sizes
        self._bounds = (
            None if sizes is None else np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
        )

    def mask(
        self, values: Collection[str], *, takes_all: bool = False, rows: RowNumbers = ALL
    ) -> Mask:
        """Return which rows have any of these values, or all.

        rows: those that are asked for, where each row has one value
        """
        found = {self.values.find(value) for value in values}
        numbers = [number for number in found if number is not None]
        column = self._numbers[rows]
        mask: Mask = column == numbers[0] if len(numbers) == 1 else np.isin(column, numbers)
        if self._bounds is None:
            return mask & (len(found) == 1) if takes_all else mask
        sums = np.zeros(len(mask) + 1, np.int32)
        np.cumsum(mask, out=sums[1:])
        in_rows: Mask = np.diff(sums.take(self._bounds)) >= (len(found) if takes_all else 1)
        return in_rows

    def count(self, matches: Mask | None) -> ValueCounts:
        """Return the MAX_COUNTED most frequent values among the matches, ties by number."""
        numbers = self._numbers
        if matches is not None:
            numbers = numbers[matches if self._sizes is None else matches.repeat(self._sizes)]
        counts = np.bincount(numbers)[: len(self.values)]
        used = counts.nonzero()[0]
        used = top_k(used, counts[used], MAX_COUNTED)
        pairs = zip(used.tolist(), counts[used].tolist(), strict=True)
        return [{"value": self.values[number], "count": count} for number, count in pairs]

    def of_row(self, row: int) -> list[int]:
        """Return the numbers of the values of a row."""
        start, stop = (row, row + 1) if self._bounds is None else self._bounds[row : row + 2]
        return [n for n in self._numbers[start:stop].tolist() if n < len(self.values)]


def text_column(
    column: Column,
    spellings: Sequence[str],
    items: npt.NDArray[np.integer],
    sizes: npt.NDArray[np.integer],
) -> Arrays:
    """Return the arrays of a column of texts.

    items: the numbers in `spellings` of the texts of all rows
    sizes: how many each row has
    """
    keys = [*map(column.key, spellings)]
    uses = np.bincount(items, minlength=len(spellings)).tolist()
    best: dict[str, tuple[int, str]] = {}
    totals: Counter[str] = Counter()
    for key, spelling, count in zip(keys, spellings, uses, strict=True):
        if count:
            best[key] = min(best.get(key, (0, "")), (-count, spelling))
            totals[key] += count
    shown = sorted(best, key=lambda key: (-totals[key], best[key][1]))
    ranks = {key: rank for rank, key in enumerate(shown)}
    numbers = np.array([ranks.get(key, 0) for key in keys], np.int64)[items]
    texts = [best[key][1].encode() for key in shown]
    name, arrays = column.name, {}
    arrays[f"{name}.texts"] = np.frombuffer(b",".join(texts), np.uint8)
    arrays[f"{name}.offsets"] = narrow(np.cumsum([0, *(len(text) + 1 for text in texts)]))
    arrays[f"{name}.order"] = np.array([ranks[key] for key in sorted(shown)], np.int32)
    if sizes.max(initial=0) > 1:
        return arrays | {f"{name}.numbers": narrow(numbers), f"{name}.sizes": narrow(sizes)}
    rows = np.full(len(sizes), len(shown))
    rows[sizes > 0] = numbers
    return arrays | {f"{name}.numbers": narrow(rows)}


class Table:
    """The rows of one kind.

    columns: those of texts, by name
    """

    def __init__(self, arrays: Arrays, rows: int, declared: Iterable[Column]) -> None:
        self.arrays, self._rows = arrays, rows
        self.columns = {
            column.name: TextColumn(
                Values(arrays, column),
                column.key,
                arrays[f"{column.name}.numbers"],
                arrays.get(f"{column.name}.sizes"),
            )
            for column in declared
            if f"{column.name}.numbers" in arrays
        }

    def __len__(self) -> int:
        return self._rows

    def mask(self, given: Iterable[Given]) -> Mask | None:
        """Return which rows satisfy conditions, None for all; read-only."""
        masks = [self._satisfying(each.column, value, ALL) for each, value in given]
        return reduce(np.logical_and, masks) if masks else None

    def among(self, mask: Mask, given: Iterable[Given], rows: RowNumbers = ALL) -> Mask:
        """Return which rows of a mask satisfy conditions.

        rows: those of the mask, where each row has one value
        """
        masks = [self._satisfying(each.column, value, rows) for each, value in given]
        return reduce(np.logical_and, masks, mask)

    def page(self, matches: Mask | None, sort: str, limit: int, offset: int = 0) -> Integers:
        """Return one page of the matches in an order, or of all rows when None.

        `relevance` is listing order here, where no query ranks the matches.
        """
        order = None if sort == "relevance" else self.arrays[f"by_{sort}"]
        if matches is None:
            rows = np.arange(offset, min(offset + limit, self._rows))
            return rows if order is None else order[offset : offset + limit].astype(np.int64)
        page = NO_ORDINALS
        for start in range(0, self._rows, CHUNK):
            if order is None:
                rows = matches[start : start + CHUNK].nonzero()[0] + start
            else:
                rows = order[start : start + CHUNK]
                rows = rows[matches[rows]].astype(np.int64)
            page = np.concatenate((page, rows[offset:]))
            offset = max(offset - len(rows), 0)
            if len(page) >= limit:
                break
        return page[:limit]

    def count(self, names: Iterable[str], matches: Mask | None) -> FacetCounts:
        """Return the most frequent values of facets among the matches, or all rows if None."""
        return {name: self.columns[name].count(matches) for name in names}

    def cost(self, filters: Conditions) -> int:
        """Return how many numbers and bytes are looked at to satisfy conditions, and to count."""
        names = [each.column.name for each, _ in filters.given()]
        arrays = [
            self.arrays.get(f"{name}.numbers", self.arrays.get(name, ()))
            for name in (*names, *getattr(filters, "facets", ()))
        ]
        return sum(self._rows + len(array) for array in arrays)

    def _satisfying(self, column: Column, value: Any, rows: RowNumbers) -> Mask:
        if column.holds is not None:
            mask: Mask = column.holds(self.arrays[column.name][rows], value)
            return mask
        if column.is_part:
            lines, starts = self.arrays[column.name], self.arrays[f"{column.name}.starts"]
            return containing(lines, starts, column.key(value))
        values = (value,) if isinstance(value, str) else value
        return self.columns[column.name].mask(values, takes_all=column.takes_all, rows=rows)


def containing(lines: npt.NDArray[np.uint8], starts: Integers, part: str) -> Mask:
    """Return which lines have a part, in time that is linear in their bytes."""
    wanted = re.escape(part.encode("utf-8", "surrogatepass"))
    places = np.fromiter((each.start() for each in re.finditer(wanted, lines.data)), np.int64)
    mask = np.zeros(len(starts), np.bool_)
    if "\n" not in part:
        mask[np.searchsorted(starts, places, side="right") - 1] = True
    return mask
