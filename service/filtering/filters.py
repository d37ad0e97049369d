"""Filters of documents: which ones a request allows, in which order, and counts of their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from service.filtering.facets import Facet, FacetCounts, Normaliser, open_facet
from service.search.postings import Integers, Mask
from service.search.top_k import NO_ORDINALS
from service.storage.container import Arrays

CHUNK = 8192
"""Documents whose matches are listed at a time: a page seldom needs more."""
ORDER = "by_"
"""The prefix of the arrays of documents in the orders that need no query."""

MAX_PAYERS = 2**32 - 1
"""The most payers that are stored."""

Sort = Literal["relevance", "popularity", "price", "name"]


class Filters(Struct, frozen=True):
    """Conditions that a service must all satisfy, the order, and what to add to the page.

    `facets` allows any of several values of a facet. `max_price` is compared with the lowest price
    of a service, in units of its currency, and `min_payers` with its payers. `alive` is the verdict
    of probers. Facets that are `counted`, explanations of the scores, and the endpoint of each
    service that matches best are added.
    """

    facets: dict[str, list[str]] = {}
    enriched: bool | None = None
    max_price: float | None = None
    min_payers: int | None = None
    alive: bool | None = None
    match_all: bool = False
    sort: Sort = "relevance"
    counted: tuple[str, ...] = ()
    explain: bool = False
    best_endpoints: bool = False

    @property
    def has_conditions(self) -> bool:
        """Whether any service might be left out."""
        bounds = (self.enriched, self.max_price, self.min_payers, self.alive)
        return bool(self.facets) or any(bound is not None for bound in bounds)


NO_FILTERS = Filters()


class FilterIndex:
    """The facets, prices, flags and orders of the documents of one kind.

    arrays: arrays of a filter layout
    keys: normaliser of each facet
    """

    def __init__(self, arrays: Arrays, keys: Mapping[str, Normaliser]) -> None:
        self.facets: dict[str, Facet] = {
            name: open_facet(arrays, name, key) for name, key in keys.items()
        }
        self.prices: npt.NDArray[np.float64] = arrays["prices"]
        self._enriched: Mask = arrays["enriched"]
        self._payers: npt.NDArray[np.uint32] = arrays["payers"]
        self.alive: npt.NDArray[np.int8] = arrays["alive"]
        self._orders: dict[str, npt.NDArray[Any] | None] = {"relevance": None} | {
            name.removeprefix(ORDER): array
            for name, array in arrays.items()
            if name.startswith(ORDER)
        }

    def __len__(self) -> int:
        return len(self._enriched)

    def mask(self, filters: Filters, others: Sequence[Mask] = ()) -> Mask | None:
        """Return which documents satisfy the filters, None for all; the mask is read-only.

        others: masks of further conditions
        """
        masks = [self.facets[name].mask(wanted) for name, wanted in filters.facets.items()]
        masks += others
        if filters.enriched is not None:
            masks.append(self._enriched == filters.enriched)
        if filters.max_price is not None:
            masks.append(self.prices <= filters.max_price)
        if filters.min_payers is not None:
            masks.append(self._payers >= min(filters.min_payers, MAX_PAYERS))
        if filters.alive is not None:
            masks.append(verdict_mask(self.alive, is_alive=filters.alive))
        return intersection(masks)

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

    def cost(self, conditions: Iterable[str], counted: Iterable[str]) -> int:
        """Return how many numbers are looked at to satisfy conditions and to count facets."""
        names = [*conditions, *counted]
        return len(self._enriched) * len(names) + sum(self.facets[name].pairs for name in counted)

    def count(self, names: Iterable[str], matches: Mask | None) -> FacetCounts:
        """Return the most frequent values of facets among the matches, or all documents if None."""
        return {name: self.facets[name].count(matches) for name in names}


def verdict_mask(alive: npt.NDArray[np.int8], *, is_alive: bool) -> Mask:
    """Return which verdicts are that documents are alive, or that they are dead."""
    mask: Mask = alive > 0 if is_alive else alive < 0
    return mask


def intersection(masks: Sequence[Mask]) -> Mask | None:
    """Return which documents are in all masks, None without any; the mask is read-only."""
    return reduce(np.logical_and, masks) if masks else None


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
