"""Filters of documents: which ones a request allows, in which order, and counts of their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from service.conditions import (
    Conditions,
    EndpointFilters,
    Filters,
    Given,
    TextColumn,
    conditions_of,
)
from service.filtering.facets import Facet, FacetCounts, open_facet
from service.search.postings import Integers, Mask
from service.search.top_k import NO_ORDINALS
from service.storage.container import Arrays

CHUNK = 8192
"""Documents whose matches are listed at a time: a page seldom needs more."""
ORDER = "by_"
"""The prefix of the arrays of documents in the orders that need no query."""


class FilterIndex:
    """The facets, prices, flags and orders of the documents of one kind.

    arrays: arrays of a filter layout
    kind: the conditions of these documents
    """

    def __init__(self, arrays: Arrays, kind: type[Conditions]) -> None:
        self.facets: dict[str, Facet] = {
            name: open_facet(arrays, name, column.key)
            for _, name, column in conditions_of(kind)
            if isinstance(column, TextColumn) and column.is_stored
        }
        self.prices: npt.NDArray[np.float64] = arrays["prices"]
        self._arrays = arrays
        self._orders: dict[str, npt.NDArray[Any] | None] = {"relevance": None} | {
            name.removeprefix(ORDER): array
            for name, array in arrays.items()
            if name.startswith(ORDER)
        }

    def __len__(self) -> int:
        return len(self.prices)

    def mask(self, given: Iterable[Given], *others: Mask) -> Mask | None:
        """Return which documents satisfy conditions and are in other masks, None for all.

        The mask is read-only.
        """
        masks = [
            self.facets[name].mask(value)
            if isinstance(column, TextColumn)
            else column.holds(self._arrays[column.array], value)
            for (_, name, column), value in given
        ]
        masks += others
        return reduce(np.logical_and, masks) if masks else None

    def page(self, matches: Mask | None, sort: str, limit: int, offset: int = 0) -> Integers:
        """Return one page of the matches in an order, or of all documents when None.

        `relevance` is listing order here, where no query ranks the matches.
        """
        order = self._orders[sort]
        if matches is None:
            span = range(len(self))[offset : offset + limit]
            if order is None:
                return np.arange(span.start, span.stop)
            return order[span.start : span.stop].astype(np.int64)
        return page_of(in_order(matches, order), limit, offset)

    def cost(self, filters: Filters | EndpointFilters) -> int:
        """Return how many numbers are looked at to satisfy conditions and to count facets."""
        columns = len(filters.given()) + len(filters.facets)
        return len(self.prices) * columns + sum(self.facets[name].items for name in filters.facets)

    def count(self, names: Iterable[str], matches: Mask | None) -> FacetCounts:
        """Return the most frequent values of facets among the matches, or all documents if None."""
        return {name: self.facets[name].count(matches) for name in names}


def page_of(chunks: Iterable[Integers], limit: int, offset: int) -> Integers:
    """Return one page of the ordinals in chunks, of which no more than needed are taken."""
    page, missing = [NO_ORDINALS], limit
    for ordinals in chunks:
        part = ordinals[offset : offset + missing]
        offset = max(offset - len(ordinals), 0)
        missing -= len(part)
        page.append(part.astype(np.int64))
        if not missing:
            break
    return np.concatenate(page)


def in_order(matches: Mask, order: npt.NDArray[np.uint32] | None = None) -> Iterator[Integers]:
    """Yield the matches in chunks, in listing order unless there is another one."""
    for start in range(0, len(matches), CHUNK):
        if order is None:
            yield np.flatnonzero(matches[start : start + CHUNK]) + start
        else:
            ordinals = order[start : start + CHUNK]
            yield ordinals[matches[ordinals]].astype(np.int64)
