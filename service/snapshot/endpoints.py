"""Endpoints of all services: searched, filtered, and listed as they are stored.

The documents are the endpoints in listing order, then the listed resources that are no endpoint of
their service. `first.npy`, int64[services + 1], is the first endpoint of each service;
`services.npy`, int32[documents], the service of each document; `resources.npy`, int32[documents],
its listed resource, or NONE; `documents.npy`, int32[resources], the document of each resource.
`bounds.npy`, int64[endpoints, 2], is where an endpoint starts and stops in the stored services, or
(NONE - n, 0) for the n-th text of the `RecordStore` `rewritten`. `facts` is a `RecordStore` of what
is added about each service. `prices.npy` (float64, NaN where unknown) and `enriched.npy` (bool) are
by endpoint, `price.npy` and `popularity.npy`, uint32, the endpoints in these orders. `urls` is a
`HashTable` of the endpoints by URL, as their records spell it. `postings` holds a `Searcher` and
`vectors` its `EndpointVectors`, if texts are encoded; facets are as in `service.filtering.filters`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from math import isnan, nan
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from service.errors import SnapshotUnsupported
from service.filtering.filters import CHUNK, Facet, FacetCounts, folded
from service.filtering.offers import NONE, OFFER_FACETS, Conditions, Offers, OfferTerms
from service.records import Explanation
from service.search.collapsing import Groups
from service.search.postings import Integers, Mask, block_count
from service.search.query import QueryParser
from service.search.searcher import Plan, Searcher
from service.search.semantic.hybrid import Semantics
from service.search.semantic.vectors import EndpointVectors
from service.search.top_k import TopK, pack
from service.storage.hash_table import HashTable, text_hash
from service.storage.memory_map import open_array
from service.storage.record_store import IdTable, RecordStore

ADDED_MEMBERS = ("service", "match")
"""Members that responses add to an endpoint: its own ones of these names are left out."""

FACET_KEYS: dict[str, Callable[[str], str]] = {
    "method": folded,
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
    satisfies them, or with the price of the endpoint without such conditions. `max_usd_price` is
    compared with the offers that have a price in US dollars. Of each service at most `per_service`
    endpoints are listed; 0 lists all.
    """

    offers: dict[str, list[str]] = {}
    facets: dict[str, list[str]] = {}
    services: list[str] = []
    enriched: bool | None = None
    max_price: float | None = None
    max_usd_price: float | None = None
    sort: EndpointSort = "relevance"
    per_service: int = 3
    counted: tuple[str, ...] = ()
    explain: bool = False

    @property
    def has_conditions(self) -> bool:
        """Whether any endpoint might be left out."""
        bounds = (self.enriched, self.max_price, self.max_usd_price)
        given = (bound is not None for bound in bounds)
        return any((self.offers, self.facets, self.services, *given))


class EndpointHits(Struct, frozen=True):
    """One page of endpoints in order.

    `total` counts all matches, `listed` those that `per_service` leaves, over which pages run.
    `offers` are the cheapest offers that satisfy the filters, NONE without filters of offers;
    `explanations` those of the endpoints of the page, on request.
    """

    total: int
    listed: int
    ordinals: Sequence[int]
    offers: Sequence[int]
    facets: FacetCounts | None
    explanations: list[Explanation] | None = None


class Selection(NamedTuple):
    """The endpoints that satisfy filters, None for all, and the offers that do, None if unused."""

    mask: Mask | None
    offers: Mask | None

    def mask_of(self, endpoints: int) -> Mask:
        """Return the selected endpoints as a mask."""
        return np.ones(endpoints, np.bool_) if self.mask is None else self.mask


class Endpoints:
    """The endpoints of a snapshot."""

    def __init__(
        self,
        folder: Path,
        offers: Offers,
        ids: IdTable,
        services: RecordStore,
        listed: RecordStore,
        semantics: Semantics | None,
        *,
        has_postings: bool,
    ) -> None:
        service_of = open_array(folder / "services.npy")
        if semantics is not None:
            encoder, services_vectors, _ = semantics
            vectors = EndpointVectors(
                folder / "vectors", encoder.dimensions, services_vectors, service_of
            )
            semantics = Semantics(encoder, vectors, service_of)
        self.parser = QueryParser(folder / "postings", semantics)
        self._searcher = Searcher(folder / "postings", self.parser) if has_postings else None
        self._resources = open_array(folder / "resources.npy")
        self._documents = open_array(folder / "documents.npy")
        self._offers = offers
        self._ids = ids
        self._texts, self._listed = services, listed
        self._rewritten = RecordStore(folder, "rewritten")
        self._facts = RecordStore(folder, "facts")
        self._first = open_array(folder / "first.npy")
        self.groups = Groups(self._first, service_of)
        self._bounds = open_array(folder / "bounds.npy")
        self._urls = HashTable(folder / "urls")
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
        selected = self.select(filters)
        if query is None:
            return self._in_order(selected.mask_of(len(self)), selected, limit, offset, filters)
        searcher = searcher_of(self._searcher)
        plan = searcher.plan(query, self.document_mask(selected.mask))
        if filters.sort == "relevance":
            hits = self._ranked(plan, limit, offset, filters)
        else:
            mask = plan.matches()[: len(self)]
            hits = self._in_order(mask, selected, limit, offset, filters)
        if filters.explain:
            hits = replace(hits, explanations=searcher.explain(plan, hits.ordinals))
        return hits

    def count_excluded(
        self, query: str | None, filters: EndpointFilters, wider: EndpointFilters
    ) -> int:
        """Return how many endpoints match with the wider filters and do not satisfy the filters."""
        mask = self.select(filters).mask
        if mask is None:
            return 0
        wider_mask = self.select(wider).mask
        if query is not None:
            searcher = searcher_of(self._searcher)
            plan = searcher.plan(query, self.document_mask(wider_mask))
            wider_mask = plan.matches()[: len(self)]
        excluded = ~mask if wider_mask is None else wider_mask & ~mask
        return int(np.count_nonzero(excluded))

    def cheapest_terms(self, ordinal: int, conditions: Conditions) -> OfferTerms | None:
        """Return the terms of the cheapest offer that satisfies conditions, None without one."""
        return self._offers.cheapest_terms(ordinal, self._offers.resolve(conditions))

    def count_ways(self, ordinal: int) -> int:
        """Return the number of networks, schemes and assets that an endpoint is paid with."""
        return self._offers.count_ways(ordinal)

    def nearest_values(self, name: str, value: str) -> list[str] | None:
        """Return values of a facet to try in place of an unknown one, None for a known one."""
        return self._facets[name].nearest(value)

    def terms(self, query: str) -> list[frozenset[str]]:
        """Return the terms that each required word of a query stands for, none if unknown."""
        return self.parser.terms(query)

    def candidates(self, url: str) -> list[int]:
        """Return the ordinals of the endpoints that have a URL, in listing order, and few others.

        Callers compare the URLs.
        """
        return self._urls.candidates((text_hash(url),))

    def of_service(self, service: int) -> range:
        """Return the ordinals of the endpoints of a service, in the order of its record."""
        return range(*self._first[service : service + 2].tolist())

    def service_of(self, ordinal: int) -> int:
        """Return the ordinal of the service of an endpoint."""
        return int(self.groups.of_document[ordinal])

    def resource_of(self, ordinal: int) -> int | None:
        """Return the listed resource of an endpoint, None where no feed lists it."""
        resource = int(self._resources[ordinal])
        return None if resource == NONE else resource

    def price_of(self, ordinal: int, offer: int) -> tuple[float, str] | None:
        """Return the price and the currency of an offer; None if unknown or that of the record."""
        price, currency = self._offers.price(offer) if offer >= 0 else (nan, "")
        return None if isnan(price) or price == self._prices[ordinal] else (price, currency)

    def rank_resources(
        self, query: str, resources: Integers | None, limit: int, offset: int
    ) -> TopK:
        """Return one page of the listed resources that match a query, best match first.

        Only those of `resources` count, or all if it is None.
        """
        mask = self.mask_of_resources(resources)
        top = searcher_of(self._searcher).plan(query, mask).rank(limit, offset)
        return TopK(top.total, self.resources_of(top.ordinals))

    def mask_of_resources(self, resources: Integers | None) -> Mask:
        """Return which documents have any of these listed resources, or of all if None."""
        mask = np.zeros(len(self._resources), np.bool_)
        mask[self._documents if resources is None else self._documents[resources]] = True
        return mask

    def resources_of(self, documents: Integers) -> Integers:
        """Return the listed resources of documents that have one."""
        resources: Integers = self._resources[documents]
        return resources

    def item(self, ordinal: int, offer: int) -> list[bytes | memoryview]:
        """Return the JSON of a listed endpoint in pieces, with its service and its offer."""
        start, stop = self._bounds[ordinal].tolist()
        if start < 0:
            text = self._rewritten.view(NONE - start)[:-1]
        else:
            text = self._texts.bytes_between(start, stop - 1)
        service = self._facts.view(int(self.groups.of_document[ordinal]))
        pieces: list[bytes | memoryview] = [text, b',"service":', service]
        if offer >= 0 and (entry := self._offers.span(offer)):
            pieces += (b',"match":', self._listed.bytes_between(*entry))
        pieces.append(b"}")
        return pieces

    def _ranked(
        self, plan: Plan, limit: int, offset: int, filters: EndpointFilters
    ) -> EndpointHits:
        """Return one page of the matches of a query, best match first."""
        per_service = filters.per_service
        if per_service:
            total, listed, page = plan.collapse(self.groups, per_service, limit, offset)
        else:
            total, page = plan.rank(limit, offset)
            listed = total
        facets = None
        if filters.counted:
            facets = self._count(filters.counted, plan.matches()[: len(self)])
        return self.hits(total, listed, page, filters, facets)

    def _in_order(
        self, mask: Mask, selected: Selection, limit: int, offset: int, filters: EndpointFilters
    ) -> EndpointHits:
        """Return one page of these endpoints in the order that the filters ask for."""
        total = listed = int(np.count_nonzero(mask))

        def first(k: int) -> TopK:
            return TopK(total, self.first_in_order(mask, selected.offers, filters.sort, k))

        per_service = filters.per_service
        if per_service:
            bits = pack(mask, block_count(len(self._resources)))
            listed -= self.groups.count_excess(bits, per_service)
            page = self.groups.page(first, per_service, limit, offset).ordinals
        else:
            page = first(offset + limit).ordinals[offset:]
        return self.hits(total, listed, page, filters, self._count(filters.counted, mask))

    def first_in_order(
        self, mask: Mask, offers: Mask | None, sort: EndpointSort, k: int
    ) -> Integers:
        """Return the first k endpoints; `relevance` is listing order here, no price comes last."""
        if sort == "price" and offers is not None:
            return self._offers.first_by_price(offers, mask, k)
        if sort == "relevance":
            return np.flatnonzero(mask)[:k]
        order, found, count = self._orders[sort], [np.empty(0, np.int64)], 0
        for start in range(0, len(order), CHUNK):
            part = order[start : start + CHUNK]
            found.append(part[mask[part]].astype(np.int64))
            count += len(found[-1])
            if count >= k:
                break
        return np.concatenate(found)[:k]

    def hits(
        self,
        total: int,
        listed: int,
        page: Integers,
        filters: EndpointFilters,
        facets: FacetCounts | None,
    ) -> EndpointHits:
        """Return a page, with the cheapest offers that satisfy the filters."""
        ordinals = page.tolist()
        offers = [NONE] * len(ordinals)
        if filters.offers:
            wanted = self._offers.resolve(filters.offers)
            offers = [self._offers.cheapest(ordinal, wanted) for ordinal in ordinals]
        return EndpointHits(total, listed, ordinals, offers, facets)

    def select(self, filters: EndpointFilters) -> Selection:
        """Return which endpoints satisfy the filters."""
        masks: list[Mask] = []
        offers = None
        if filters.offers or filters.max_usd_price is not None:
            names = set(filters.offers)
            is_facet = len(names) == 1 and names <= set(OFFER_FACETS)
            has_bound = filters.max_price is not None or filters.max_usd_price is not None
            if is_facet and not has_bound and filters.sort != "price":
                ((name, values),) = filters.offers.items()
                masks.append(self._facet_mask(name, values))
            else:
                wanted = self._offers.resolve(filters.offers)
                offers = self._offers.select(wanted, filters.max_price, filters.max_usd_price)
                masks.append(self._offers.endpoints_of(offers))
        elif filters.max_price is not None:
            masks.append(self._prices <= filters.max_price)
        masks += [self._facet_mask(name, values) for name, values in filters.facets.items()]
        if filters.services:
            masks.append(self._of_services(filters.services))
        if filters.enriched is not None:
            masks.append(self._enriched == filters.enriched)
        return Selection(reduce(np.logical_and, masks) if masks else None, offers)

    def _facet_mask(self, name: str, values: Sequence[str]) -> Mask:
        return self._facets[name].mask(values, np.empty(len(self), np.bool_))

    def _of_services(self, ids: Sequence[str]) -> Mask:
        mask = np.zeros(len(self), np.bool_)
        for ordinal in map(self._ids.find, ids):
            if ordinal is not None:
                mask[self._first[ordinal] : self._first[ordinal + 1]] = True
        return mask

    def document_mask(self, mask: Mask | None) -> Mask | None:
        """Extend a mask of endpoints to all documents; the others never match."""
        documents = len(self._resources)
        if documents == len(self):
            return mask
        extended = np.zeros(documents, np.bool_)
        extended[: len(self)] = True if mask is None else mask
        return extended

    def _count(self, names: Sequence[str], matches: Mask) -> FacetCounts | None:
        """Return the most frequent values of these facets among the matches, with their counts."""
        if not names:
            return None
        return {
            name: self._count_services(matches)
            if name == "service"
            else self._facets[name].count(matches)[:MAX_COUNTED]
            for name in names
        }

    def _count_services(self, matches: Mask) -> list[dict[str, str | int]]:
        counts = np.bincount(self.groups.of_document[: len(self)][matches])
        services = np.flatnonzero(counts)
        order = services[np.argsort(-counts[services], kind="stable")][:MAX_COUNTED]
        return self.named("service", [(n, int(counts[n])) for n in order.tolist()])

    def count_of_values(self, name: str) -> int:
        """Return the number of values of a facet."""
        return len(self._facets[name])

    def named(self, name: str, counts: Iterable[tuple[int, int]]) -> list[dict[str, str | int]]:
        """Return the counts of a facet's values, which are given by their numbers, by name."""
        if name == "service":
            return [{"value": self._ids[number], "count": count} for number, count in counts]
        return self._facets[name].named(counts)


def searcher_of(searcher: Searcher | None) -> Searcher:
    """Return the searcher of a snapshot; raises SnapshotUnsupported without postings."""
    if searcher is None:
        raise SnapshotUnsupported(
            "the postings of this snapshot are in OpenSearch: start the service with "
            "`--engine opensearch`, or build it for the embedded engine"
        )
    return searcher
