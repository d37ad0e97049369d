"""The engine: searches and lists of services, endpoints and listed resources of one snapshot."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from service.conditions import NO_FILTERS, EndpointFilters, Filters, ResourceFilters
from service.filtering.endpoint_filters import Selection
from service.filtering.facets import FacetCounts
from service.schema.profiles import Profile
from service.schema.responses import Explanation
from service.schema.values import Json
from service.search.groups import GROWTH, MARGIN, Ranked, list_groups
from service.search.postings import Integers, Mask, block_count
from service.search.query import ParsedQuery
from service.search.ranking import Ranking
from service.search.searcher import SPARSE_COST, Scorer
from service.search.top_k import NO_ORDINALS, pack, unpack
from service.snapshot.data import Hits, SnapshotData
from service.snapshot.profiles import name_fields
from service.snapshot.resources import ResourcePage

T = TypeVar("T")


class EndpointHits(Struct, frozen=True):
    """One page of endpoints in order.

    listed: the number of matches that `per_service` leaves, over which pages run
    offers: of each endpoint the cheapest that satisfies the filters, NONE without such filters
    data: of the snapshot, whose files stay mapped as long as the page is in use
    explanations: of the endpoints of the page, on request
    """

    total: int
    listed: int
    ordinals: Sequence[int]
    offers: Sequence[int]
    data: SnapshotData
    facets: FacetCounts | None
    explanations: list[Explanation] | None = None

    @property
    def texts(self) -> list[bytes]:
        """The endpoints of the page as JSON, which are served as they are."""
        item = self.data.endpoints.item
        return [b"".join(item(*each)) for each in zip(self.ordinals, self.offers, strict=True)]

    @property
    def endpoints(self) -> list[Json]:
        """The endpoints of the page, decoded."""
        return [json.loads(text) for text in self.texts]


class Postings(Protocol):
    """The postings of one snapshot, embedded or in a cluster.

    Every method raises EngineUnavailable where an answer would be late or not whole.
    """

    def scorer(
        self, query: ParsedQuery, mask: Mask | None, *, by_group: bool, match_all: bool = False
    ) -> Scorer:
        """Return the matches of a query among the units of a mask."""

    def cost(
        self,
        query: ParsedQuery,
        k: int,
        *,
        by_group: bool,
        is_filtered: bool = False,
        match_all: bool = False,
    ) -> int:
        """Return how long a search for the k best takes here, in numbers that it looks at."""

    async def run(self, search: Coroutine[Any, Any, T], cost: int) -> T:
        """Run a search of this cost."""

    async def check(self) -> None:
        """Raise EngineUnavailable unless searches can be answered."""


class Engine(Struct, frozen=True):
    """Searches one snapshot."""

    data: SnapshotData
    postings: Postings

    async def search(
        self, query: str, limit: int = 24, offset: int = 0, filters: Filters = NO_FILTERS
    ) -> Hits:
        """Return one page of the services that match a plain-text query and the filters.

        The best match is first, unless the filters ask for another order.
        """
        parsed = self.data.parser.parse(query)
        cost = self.data.filters.cost(filters)
        k = offset + limit if filters.sort == "relevance" else 0
        cost += self.postings.cost(
            parsed,
            k,
            by_group=True,
            is_filtered=bool(filters.given()),
            match_all=filters.match == "all",
        )
        return await self.postings.run(self.search_services(parsed, limit, offset, filters), cost)

    async def search_endpoints(
        self, query: str | None, limit: int, offset: int, filters: EndpointFilters
    ) -> EndpointHits:
        """Return one page of the endpoints that match a plain-text query and the filters.

        Without a query these are all that satisfy the filters, in listing order unless sorted.
        """
        parsed = None if query is None else self.data.parser.parse(query)
        cost = self._cost(parsed, filters, offset + limit)
        if parsed is None:
            search = self.list_endpoints(limit, offset, filters)
        else:
            search = self.rank_endpoints(parsed, limit, offset, filters)
        return await self.postings.run(search, cost)

    async def search_resources(
        self, query: str | None, limit: int, offset: int, filters: ResourceFilters
    ) -> ResourcePage:
        """Return one page of the listed resources that match a plain-text query and the filters.

        Without a query they are in the order of the listing.
        """
        data = self.data
        cost, parsed = data.resources.cost(filters), None
        if query is not None:
            parsed = data.parser.parse(query)
            # Few documents are resources: most champions are endpoints.
            cost += self.postings.cost(parsed, offset + limit, by_group=False, is_filtered=True)
        search = self._search_resources(parsed, limit, offset, filters)
        return await self.postings.run(search, cost)

    async def check(self) -> None:
        """Raise EngineUnavailable unless searches can be answered."""
        await self.postings.check()

    async def search_services(
        self, query: ParsedQuery, limit: int, offset: int, filters: Filters
    ) -> Hits:
        """Return what `search` does, in this thread."""
        data = self.data
        mask = data.filters.mask(filters.given())
        ranking = self._rank(query, mask, by_group=True, match_all=filters.match == "all")
        if filters.sort == "relevance":
            total, documents = await ranking.page(limit, offset)
            facets = None
            if filters.facets:
                matches = unpack(await ranking.matches(), data.header.groups)
                facets = data.filters.count(filters.facets, matches)
            services = documents if data.groups is None else data.groups.of_document.take(documents)
            hits = Hits(total, services.tolist(), data, facets)
        else:
            matches = unpack(await ranking.matches(), data.header.groups)
            hits = data.list_services(limit, offset, filters, matches)
            documents = NO_ORDINALS
            if filters.explain or filters.best_endpoints:
                documents = await ranking.best_documents(hits.ordinals)
        if filters.best_endpoints:
            stop = data.header.endpoints
            best = [document if document < stop else None for document in documents.tolist()]
            hits = replace(hits, best_endpoints=best)
        if filters.explain:
            hits = replace(hits, explanations=await self._explain(ranking, documents))
        return hits

    async def _explain(self, ranking: Ranking, documents: Integers) -> list[Explanation]:
        """Return the parts of the scores of services, with the endpoint of each."""
        endpoints = self.data.header.endpoints
        return [
            replace(
                each,
                endpoint=self.data.endpoints.url_of(document) if document < endpoints else None,
            )
            for each, document in zip(
                await self._explain_documents(ranking, documents), documents.tolist(), strict=True
            )
        ]

    async def _explain_documents(self, ranking: Ranking, documents: Integers) -> list[Explanation]:
        """Return the parts of the scores of documents, with the fields of the operator's words."""
        explanations = await ranking.explain(documents, self.data.parser.term)
        return [
            name_fields(each, self._profiles_of(document))
            for each, document in zip(explanations, documents.tolist(), strict=True)
        ]

    def _profiles_of(self, document: int) -> dict[str, Profile | None]:
        """Return the profiles that a document is searched by, by field."""
        groups, profiles = self.data.groups, self.data.profiles
        service = document if groups is None else int(groups.of_document[document])
        if document < self.data.header.endpoints:
            return {
                "profile": profiles.endpoints.read(document),
                "service_profile": profiles.services.read(service),
            }
        is_own = self.data.endpoints.resource_of(document) is None if groups else True
        return {"profile" if is_own else "service_profile": profiles.services.read(service)}

    async def rank_endpoints(
        self, query: ParsedQuery, limit: int, offset: int, filters: EndpointFilters
    ) -> EndpointHits:
        """Return what `search_endpoints` does for a query, in this thread."""
        endpoints = self.data.endpoints
        selected = endpoints.filters.select(filters)
        ranking = self._rank_endpoints(query, selected, match_all=filters.match == "all")
        per_service = filters.per_service
        if filters.sort != "relevance":
            matches = await self._matching_endpoints(ranking)
            hits = await self._page_of(matches, selected, limit, offset, filters)
        else:
            if per_service:
                total, listed, page = await ranking.listing(
                    endpoints.groups, per_service, limit, offset
                )
            else:
                total, page = await ranking.page(limit, offset)
                listed = total
            counted = await self._matching_endpoints(ranking) if filters.facets else None
            hits = self._endpoint_hits(total, listed, page, filters, counted)
        if filters.explain:
            documents = np.array(hits.ordinals, np.int64)
            explanations = await self._explain_documents(ranking, documents)
            hits = replace(hits, explanations=explanations)
        return hits

    async def list_endpoints(
        self, limit: int, offset: int, filters: EndpointFilters
    ) -> EndpointHits:
        """Return one page of the endpoints that satisfy the filters, in this thread."""
        selected = self.data.endpoints.filters.select(filters)
        mask = selected.mask
        if mask is None:
            mask = np.ones(len(self.data.endpoints), np.bool_)
        return await self._page_of(mask, selected, limit, offset, filters)

    async def _search_resources(
        self, query: ParsedQuery | None, limit: int, offset: int, filters: ResourceFilters
    ) -> ResourcePage:
        data = self.data
        if query is None:
            return data.resources.list(filters, limit, offset)
        mask: Mask = data.endpoints.mask_of_resources(data.resources.matches(filters))
        if len(mask) != self.data.header.documents:  # of services alone
            return data.resources.page(0, [])
        ranking = self._rank(query, mask, by_group=False, match_all=False)
        total, documents = await ranking.page(limit, offset)
        return data.resources.page(total, data.endpoints.resources_of(documents).tolist())

    def _rank(
        self, query: ParsedQuery, mask: Mask | None, *, by_group: bool, match_all: bool
    ) -> Ranking:
        """Rank services, with `by_group`, or else documents."""
        scorer = self.postings.scorer(query, mask, by_group=by_group, match_all=match_all)
        config, groups = self.data.header.config, self.data.groups if by_group else None
        is_filled = not match_all
        return Ranking(query, scorer, config, mask, groups, by_group=by_group, is_filled=is_filled)

    def _rank_endpoints(
        self, query: ParsedQuery, selected: Selection, *, match_all: bool
    ) -> Ranking:
        """Rank the selected endpoints; other documents never match."""
        header, mask = self.data.header, selected.mask
        others = header.documents - header.endpoints
        if mask is None or not header.endpoints:
            mask = self.data.is_endpoint
        elif others:
            mask = np.concatenate((mask, np.zeros(others, np.bool_)))
        return self._rank(query, mask, by_group=False, match_all=match_all)

    async def _matching_endpoints(self, ranking: Ranking) -> Mask:
        if not self.data.header.endpoints:  # an index of services alone
            return np.zeros(len(self.data.endpoints), np.bool_)
        return unpack(await ranking.matches(), self.data.header.endpoints)

    async def _page_of(
        self, mask: Mask, selected: Selection, limit: int, offset: int, filters: EndpointFilters
    ) -> EndpointHits:
        """Return one page of these endpoints in the order that the filters ask for."""
        endpoints, per_service = self.data.endpoints, filters.per_service
        total = listed = int(np.count_nonzero(mask))

        async def first(k: int) -> Ranked:
            page = endpoints.filters.page(mask, filters.sort, k, 0, selected.offers)
            return Ranked(total, page)

        if per_service:
            bits = pack(mask, block_count(len(endpoints.groups.of_document)))
            listed -= endpoints.groups.count_excess(bits, per_service)
        page = NO_ORDINALS
        if offset < listed and per_service:
            page = await list_groups(first, endpoints.groups, per_service, limit, offset)
        elif offset < listed:
            page = endpoints.filters.page(mask, filters.sort, limit, offset, selected.offers)
        return self._endpoint_hits(total, listed, page, filters, mask)

    def _cost(self, query: ParsedQuery | None, filters: EndpointFilters, stop: int) -> int:
        """Return the cost of a page that ends at `stop`, or of counting if that is 0."""
        endpoints = self.data.endpoints
        cost = endpoints.filters.cost(filters)
        if filters.per_service:
            cost += SPARSE_COST * min(len(endpoints), MARGIN * GROWTH * stop)
        if query is not None:
            k = stop if filters.sort == "relevance" else 0
            # A page may have to pass over all documents of the largest service.
            k += endpoints.groups.largest if k and filters.per_service else 0
            cost += self.postings.cost(
                query,
                k,
                by_group=False,
                is_filtered=bool(filters.given()),
                match_all=filters.match == "all",
            )
        return cost

    def _endpoint_hits(
        self,
        total: int,
        listed: int,
        page: Integers,
        filters: EndpointFilters,
        matches: Mask | None,
    ) -> EndpointHits:
        """Return a page, with the cheapest offers that satisfy the filters."""
        index, ordinals = self.data.endpoints.filters, page.tolist()
        facets = index.count(filters.facets, matches) if filters.facets else None
        offers = index.cheapest_offers(ordinals, filters)
        return EndpointHits(total, listed, ordinals, offers, self.data, facets)
