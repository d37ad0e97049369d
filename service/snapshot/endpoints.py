"""Endpoints of all services: searched, filtered, and listed as they are stored.

The documents are the endpoints in listing order, then the listed resources that are no endpoint of
their service. `first.npy`, int64[services + 1], is the first endpoint of each service;
`services.npy`, int32[documents], the service of each document; `resources.npy`, int32[documents],
its listed resource, or NONE; `documents.npy`, int32[resources], the document of each resource.
`bounds.npy`, int64[endpoints, 2], is where an endpoint starts and stops in the stored services, or
(NONE - n, 0) for the n-th text of the `RecordStore` `rewritten`. `facts` is a `RecordStore` of what
is added about each service. `prices.npy` (float64, NaN where unknown) and `enriched.npy` (bool) are
by endpoint, `price.npy` and `popularity.npy`, uint32, the endpoints in these orders. `postings`
holds a `Searcher`; facets are as in `service.search.filters`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import isnan, nan
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from service.search.collapsing import Groups
from service.search.filters import Facet, FacetCounts
from service.search.offers import NONE, OFFER_FACETS, Offers
from service.search.postings import Integers, Mask
from service.search.searcher import Plan, Searcher
from service.search.top_k import TopK
from service.storage.memory_map import open_array
from service.storage.record_store import IdTable, RecordStore

ADDED_MEMBERS = ("service", "match")
"""Members that responses add to an endpoint: its own ones of these names are left out."""

FACET_KEYS: dict[str, Callable[[str], str]] = {
    "method": str.casefold,
    "category": str.casefold,
    "tag": str.casefold,
}
ENDPOINT_FACETS = (*OFFER_FACETS, *FACET_KEYS, "service")
"""The facets of endpoints; those of offers stand beside the offers."""
MAX_COUNTED = 100
"""Values of a facet that are counted, the most frequent: there are as many services as hosts."""

EndpointSort = Literal["relevance", "price", "popularity"]


class EndpointFilters(Struct, frozen=True):
    """Conditions that an endpoint must all satisfy, the order, and the facets to count.

    `offers` are conditions that must hold together on one way to pay: any of several values of
    `network`, `scheme`, `asset` and `payTo`. `max_price` is compared with the cheapest offer that
    satisfies them, or with the price of the endpoint without such conditions. Of each service at
    most `per_service` endpoints are listed; 0 lists all.
    """

    offers: dict[str, list[str]] = {}
    facets: dict[str, list[str]] = {}
    services: list[str] = []
    enriched: bool | None = None
    max_price: float | None = None
    sort: EndpointSort = "relevance"
    per_service: int = 3
    counted: tuple[str, ...] = ()

    @property
    def has_conditions(self) -> bool:
        """Whether any endpoint might be left out."""
        flags = (self.enriched is not None, self.max_price is not None)
        return any((self.offers, self.facets, self.services, *flags))


class EndpointHits(Struct, frozen=True):
    """One page of endpoints in order.

    `total` counts all matches, `listed` those that remain with so many of each service, over which
    pages run. `offers` are the cheapest offers that satisfy the filters, NONE without filters of
    offers.
    """

    total: int
    listed: int
    ordinals: Sequence[int]
    offers: Sequence[int]
    facets: FacetCounts | None


class _Selection(NamedTuple):
    """The endpoints that satisfy filters: None for all, the prices of all, and their offers."""

    mask: Mask | None
    prices: npt.NDArray[np.float64]
    offers: Integers | None

    def offers_of(self, page: Integers) -> list[int]:
        """Return the offer of each endpoint of a page, or NONE."""
        return [NONE] * len(page) if self.offers is None else self.offers[page].tolist()


class Endpoints:
    """The endpoints of a snapshot."""

    def __init__(
        self, folder: Path, offers: Offers, ids: IdTable, services: RecordStore, listed: RecordStore
    ) -> None:
        self._searcher = Searcher(folder / "postings")
        self._resources = open_array(folder / "resources.npy")
        self._documents = open_array(folder / "documents.npy")
        self._offers = offers
        self._ids = ids
        self._texts, self._listed = services, listed
        self._rewritten = RecordStore(folder, "rewritten")
        self._facts = RecordStore(folder, "facts")
        self._first = open_array(folder / "first.npy")
        self._groups = Groups(self._first, open_array(folder / "services.npy"))
        self._bounds = open_array(folder / "bounds.npy")
        self._prices = open_array(folder / "prices.npy")
        self._enriched = open_array(folder / "enriched.npy")
        self._orders = {
            name: open_array(folder / f"{name}.npy") for name in ("price", "popularity")
        }
        self._facets = offers.facets | {
            name: Facet(folder, name, key) for name, key in FACET_KEYS.items()
        }

    def __len__(self) -> int:
        return len(self._bounds)

    def search(
        self, query: str | None, limit: int, offset: int, filters: EndpointFilters
    ) -> EndpointHits:
        """Return one page of the endpoints that match a plain-text query and the filters.

        Without a query these are all that satisfy the filters, in listing order unless sorted.
        """
        selected = self._select(filters)
        if query is None:
            mask = selected.mask
            matches = np.arange(len(self)) if mask is None else np.flatnonzero(mask)
            return self._in_order(matches, selected, limit, offset, filters)
        plan = self._searcher.plan(query, self._document_mask(selected.mask))
        if filters.sort == "relevance":
            return self._ranked(plan, selected, limit, offset, filters)
        matches = np.flatnonzero(plan.matches())
        return self._in_order(matches, selected, limit, offset, filters)

    def terms(self, query: str) -> list[frozenset[str]]:
        """Return the terms that each required word of a query stands for, none if unknown."""
        return self._searcher.terms(query)

    def of_service(self, service: int) -> range:
        """Return the ordinals of the endpoints of a service, in the order of its record."""
        return range(*self._first[service : service + 2].tolist())

    def service_of(self, ordinal: int) -> int:
        """Return the ordinal of the service of an endpoint."""
        return int(self._groups.of_document[ordinal])

    def price_of(self, ordinal: int, offer: int) -> float | None:
        """Return the price of an offer of an endpoint, None if unknown or that of its record."""
        price = self._offers.price(offer) if offer >= 0 else nan
        return None if isnan(price) or price == self._prices[ordinal] else price

    def rank_resources(
        self, query: str, resources: Integers | None, limit: int, offset: int
    ) -> TopK:
        """Return one page of the listed resources that match a query, best match first.

        Only those of `resources` count, or all if it is None.
        """
        documents = self._documents if resources is None else self._documents[resources]
        mask = np.zeros(len(self._resources), np.bool_)
        mask[documents] = True
        top = self._searcher.plan(query, mask).rank(limit, offset)
        return TopK(top.total, self._resources[top.ordinals])

    def item(self, ordinal: int, offer: int) -> list[bytes | memoryview]:
        """Return the JSON of a listed endpoint in pieces, with its service and its offer."""
        start, stop = self._bounds[ordinal].tolist()
        if start < 0:
            text = self._rewritten.view(NONE - start)[:-1]
        else:
            text = self._texts.bytes_between(start, stop - 1)
        service = self._facts.view(int(self._groups.of_document[ordinal]))
        pieces: list[bytes | memoryview] = [text, b',"service":', service]
        if offer >= 0 and (entry := self._offers.span(offer)):
            pieces += (b',"match":', self._listed.bytes_between(*entry))
        pieces.append(b"}")
        return pieces

    def _ranked(
        self, plan: Plan, selected: _Selection, limit: int, offset: int, filters: EndpointFilters
    ) -> EndpointHits:
        """Return one page of the matches of a query, best match first."""
        most = filters.per_service
        if most:
            total, listed, page = plan.collapse(self._groups, most, limit, offset)
        else:
            total, page = plan.rank(limit, offset)
            listed = total
        facets = self._count(filters.counted, plan.matches()) if filters.counted else None
        return EndpointHits(total, listed, page.tolist(), selected.offers_of(page), facets)

    def _in_order(
        self,
        matches: Integers,
        selected: _Selection,
        limit: int,
        offset: int,
        filters: EndpointFilters,
    ) -> EndpointHits:
        """Return one page of ascending matches in the order that the filters ask for."""
        ordered = self._ordered(matches, filters.sort, selected.prices)
        listed, page, most = len(matches), ordered[offset : offset + limit], filters.per_service
        if most:
            listed = self._groups.count_listed(matches, most)
            first = partial(_first, ordered)
            page = self._groups.page(first, most, limit, offset).ordinals
        facets = None
        if filters.counted:
            facets = self._count(filters.counted, self._mask_of(matches))
        return EndpointHits(len(matches), listed, page.tolist(), selected.offers_of(page), facets)

    def _select(self, filters: EndpointFilters) -> _Selection:
        prices, offers = self._prices, None
        if not filters.has_conditions:
            return _Selection(None, prices, offers)
        masks = []
        if filters.offers:
            mask, prices, offers = self._offers.cheapest(filters.offers, len(self))
            masks.append(mask)
        for name, values in filters.facets.items():
            masks.append(self._facets[name].mask(values, np.empty(len(self), np.bool_)))
        if filters.services:
            masks.append(self._of_services(filters.services))
        if filters.enriched is not None:
            masks.append(self._enriched == filters.enriched)
        if filters.max_price is not None:
            masks.append(prices <= filters.max_price)
        return _Selection(reduce(np.logical_and, masks), prices, offers)

    def _of_services(self, ids: Sequence[str]) -> Mask:
        mask = np.zeros(len(self), np.bool_)
        for ordinal in map(self._ids.find, ids):
            if ordinal is not None:
                mask[self._first[ordinal] : self._first[ordinal + 1]] = True
        return mask

    def _document_mask(self, mask: Mask | None) -> Mask | None:
        """Extend a mask of endpoints to all documents; the others never match."""
        documents = len(self._resources)
        if documents == len(self):
            return mask
        extended = np.zeros(documents, np.bool_)
        extended[: len(self)] = True if mask is None else mask
        return extended

    def _ordered(
        self, matches: Integers, sort: EndpointSort, prices: npt.NDArray[np.float64]
    ) -> Integers:
        """Order ascending matches; `relevance` is listing order here, and no price comes last."""
        if sort == "relevance":
            return matches
        if sort == "price" and prices is not self._prices:
            return matches[np.argsort(prices[matches], kind="stable")]
        order = self._orders[sort]
        ordered: Integers = order[self._mask_of(matches)[order]].astype(np.int64)
        return ordered

    def _mask_of(self, ordinals: Integers) -> Mask:
        mask = np.zeros(len(self), np.bool_)
        mask[ordinals] = True
        return mask

    def _count(self, names: Sequence[str], matches: Mask) -> FacetCounts:
        """Return the most frequent values of these facets among the matches, with their counts."""
        endpoints = matches[: len(self)]
        return {
            name: self._count_services(endpoints)
            if name == "service"
            else self._facets[name].count(endpoints)[:MAX_COUNTED]
            for name in names
        }

    def _count_services(self, matches: Mask) -> list[dict[str, str | int]]:
        counts = np.bincount(self._groups.of_document[: len(self)][matches])
        services = np.flatnonzero(counts)
        order = services[np.argsort(-counts[services], kind="stable")][:MAX_COUNTED]
        return [{"value": self._ids[n], "count": int(counts[n])} for n in order.tolist()]


def _first(ordered: Integers, k: int) -> TopK:
    return TopK(len(ordered), ordered[:k])
