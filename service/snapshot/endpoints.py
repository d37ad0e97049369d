"""Endpoints of all services: searched, and listed as they are stored.

The documents are the endpoints in listing order, then the listed resources that are no endpoint of
their service. `first.npy`, int64[services + 1], is the first endpoint of each service;
`services.npy`, int32[documents], the service of each document; `resources.npy`, int32[documents],
its listed resource, or NONE; `documents.npy`, int32[resources], the document of each resource.
`bounds.npy`, int64[endpoints, 2], is where an endpoint starts and stops in the stored services, or
(NONE - n, 0) for the n-th text of the `RecordStore` `rewritten`. `facts` is a `RecordStore` of what
is added about each service. `urls` is a `HashTable` of the endpoints by URL, as their records spell
it. `postings` holds a `Searcher` and `vectors` its `EndpointVectors`, if texts are encoded; filters
are as in `service.filtering.endpoint_filters`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, nan
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from service.errors import SnapshotUnsupported
from service.filtering.endpoint_filters import EndpointFilterIndex, EndpointFilters, Selection
from service.filtering.facets import FacetCounts, ServiceFacet
from service.filtering.offers import NONE, Offers
from service.records import Explanation
from service.search.collapsing import Groups
from service.search.postings import Integers, Mask, block_count
from service.search.query import QueryParser
from service.search.searcher import Plan, Searcher
from service.search.semantic.hybrid import Semantics
from service.search.semantic.vectors import EndpointVectors
from service.search.top_k import NO_ORDINALS, TopK, pack
from service.storage.hash_table import HashTable, text_hash
from service.storage.memory_map import open_array
from service.storage.record_store import IdTable, RecordStore

ADDED_MEMBERS = ("service", "match")
"""Members that responses add to an endpoint: its own ones of these names are left out."""


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
        self._texts, self._listed = services, listed
        self._rewritten = RecordStore(folder, "rewritten")
        self._facts = RecordStore(folder, "facts")
        self._first = open_array(folder / "first.npy")
        self.groups = Groups(self._first, service_of)
        self._bounds = open_array(folder / "bounds.npy")
        self._urls = HashTable(folder / "urls")
        owners = ServiceFacet(ids, self._first, service_of[: len(self)])
        self.filters = EndpointFilterIndex(folder, offers, owners)

    def __len__(self) -> int:
        return len(self._bounds)

    def search(
        self, query: str | None, limit: int, offset: int, filters: EndpointFilters
    ) -> EndpointHits:
        """Return one page of the endpoints that match a plain-text query and the filters.

        Without a query these are all that satisfy the filters, in listing order unless sorted.
        """
        selected = self.filters.select(filters)
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
        mask = self.filters.select(filters).mask
        if mask is None:
            return 0
        wider_mask = self.filters.select(wider).mask
        if query is not None:
            searcher = searcher_of(self._searcher)
            plan = searcher.plan(query, self.document_mask(wider_mask))
            wider_mask = plan.matches()[: len(self)]
        excluded = ~mask if wider_mask is None else wider_mask & ~mask
        return int(np.count_nonzero(excluded))

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
        return None if isnan(price) or price == self.filters.prices[ordinal] else (price, currency)

    def rank_resources(self, query: str, resources: Mask | None, limit: int, offset: int) -> TopK:
        """Return one page of the listed resources that match a query, best match first.

        Only those of `resources` count, or all if it is None.
        """
        mask = self.mask_of_resources(resources)
        top = searcher_of(self._searcher).plan(query, mask).rank(limit, offset)
        return TopK(top.total, self.resources_of(top.ordinals))

    def mask_of_resources(self, resources: Mask | None) -> Mask:
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
            facets = self.filters.count(filters.counted, plan.matches()[: len(self)])
        return self.hits(total, listed, page, filters, facets)

    def _in_order(
        self, mask: Mask, selected: Selection, limit: int, offset: int, filters: EndpointFilters
    ) -> EndpointHits:
        """Return one page of these endpoints in the order that the filters ask for."""
        total = listed = int(np.count_nonzero(mask))

        def first(k: int, offset: int = 0) -> TopK:
            page = self.filters.page(mask, filters.sort, k, offset, selected.offers)
            return TopK(total, page)

        per_service = filters.per_service
        if per_service:
            bits = pack(mask, block_count(len(self._resources)))
            listed -= self.groups.count_excess(bits, per_service)
        if offset >= listed:
            page = NO_ORDINALS
        elif per_service:
            page = self.groups.page(first, per_service, limit, offset).ordinals
        else:
            page = first(limit, offset).ordinals
        facets = self.filters.count(filters.counted, mask) if filters.counted else None
        return self.hits(total, listed, page, filters, facets)

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
        offers = self.filters.cheapest_offers(ordinals, filters)
        return EndpointHits(total, listed, ordinals, offers, facets)

    def document_mask(self, mask: Mask | None) -> Mask | None:
        """Extend a mask of endpoints to all documents; the others never match."""
        documents = len(self._resources)
        if documents == len(self):
            return mask
        extended = np.zeros(documents, np.bool_)
        extended[: len(self)] = True if mask is None else mask
        return extended


def searcher_of(searcher: Searcher | None) -> Searcher:
    """Return the searcher of a snapshot; raises SnapshotUnsupported without postings."""
    if searcher is None:
        raise SnapshotUnsupported(
            "the postings of this snapshot are in OpenSearch: start the service with "
            "`--engine opensearch`, or build it for the embedded engine"
        )
    return searcher
