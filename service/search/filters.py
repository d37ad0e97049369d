"""Narrowing: which of the services that its words find a request wants, and in what order."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Literal

import numpy as np
from msgspec import Struct

from service.search.facets import FACETS, Facet, Mask
from service.storage.memory_map import open_array

CHUNK = 8192

Sort = Literal["relevance", "popularity", "price", "name"]
Counted = dict[str, list[dict[str, str | int]]]


class Filters(Struct, frozen=True):
    """All conditions must hold; of the values of one facet any may.

    `max_price` is compared with the cheapest price of a service, in units of its currency.
    """

    facets: dict[str, list[str]] = {}
    enriched: bool | None = None
    max_price: float | None = None
    match_all: bool = False
    sort: Sort = "relevance"
    counted: tuple[str, ...] = ()


NO_FILTERS = Filters()


class Buffers(threading.local):
    """Masks over all services, one set for each thread."""

    def __init__(self, services: int) -> None:
        self.kept = np.empty(services, np.bool_)
        self.matched = np.empty(services, np.bool_)
        self.one = np.empty(services, np.bool_)


class FilterIndex:
    """Selects and orders the services of one snapshot.

    `cheapest` is float64[n], NaN where nothing has a price, `enriched` bool[n], and each order
    uint32[n], the ordinals first to last.
    """

    def __init__(self, folder: Path, services: int) -> None:
        self._facets = {name: Facet(folder, name) for name in FACETS}
        self._cheapest = open_array(folder / "cheapest.npy")
        self._enriched = open_array(folder / "enriched.npy")
        self._orders = {
            "popularity": open_array(folder / "popularity.npy"),
            "price": open_array(folder / "price.npy"),
            "name": open_array(folder / "name.npy"),
        }
        self.buffers = Buffers(services)

    def keep(self, narrowing: Filters) -> Mask | None:
        """Which services may match (read only, until this thread's next), or None when all may."""
        kept: Mask | None = None
        for condition in self._conditions(narrowing):
            kept = (
                condition
                if kept is None
                else np.logical_and(kept, condition, out=self.buffers.kept)
            )
        return kept

    def page(self, matches: Mask | None, sort: Sort, limit: int, offset: int) -> Sequence[int]:
        """One page of the matches, or of all services when None.

        `relevance` is listing order here, where no words are ranked.
        """
        order = self._orders.get(sort)
        if matches is None:
            services = len(self._enriched)
            run = range(min(offset, services), min(offset + limit, services))
            return run if order is None else order[run.start : run.stop].tolist()
        found: list[int] = []
        for start in range(0, len(matches), CHUNK):
            if order is None:
                some = np.flatnonzero(matches[start : start + CHUNK]) + start
            else:
                some = order[start : start + CHUNK]
                some = some[matches[some]]
            found += some[offset : offset + limit - len(found)].tolist()
            offset = max(offset - len(some), 0)
            if len(found) == limit:
                break
        return found

    def count(self, names: tuple[str, ...], matches: Mask | None) -> Counted:
        """The values of these facets among the matches, each with its count, most first."""
        if matches is None:
            matches = self.buffers.matched
            matches.fill(True)
        return {
            name: [
                {"value": value, "count": count}
                for value, count in self._facets[name].counts(matches)
            ]
            for name in names
        }

    def _conditions(self, narrowing: Filters) -> Iterator[Mask]:
        """The services that satisfy each condition; all but the first share a buffer."""
        buffers = chain([self.buffers.kept], repeat(self.buffers.one))
        for name, values in narrowing.facets.items():
            yield self._facets[name].having(values, next(buffers))
        if narrowing.enriched is not None:
            yield np.equal(self._enriched, narrowing.enriched, out=next(buffers))
        if narrowing.max_price is not None:
            yield np.less_equal(self._cheapest, narrowing.max_price, out=next(buffers))
