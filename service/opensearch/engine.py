"""The engine of an OpenSearch cluster: it matches, filters, orders, counts and ranks by BM25F.

Words are looked up in the lexicon of the snapshot, so that they match what they match embedded.
The best matches are then ranked by meaning as well, by the vectors of the snapshot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from service.conditions import EndpointFilters, Filters, ResourceFilters
from service.engines.engine import Answer, Search
from service.opensearch.clauses import (
    DOCUMENTS,
    NUMBER,
    OFFERS,
    ORDINAL,
    any_of,
    any_value,
    conditions,
    endpoint_conditions,
    facet_aggregations,
    facet_counts,
    index_name,
    nested,
    of_words,
)
from service.opensearch.cluster import Cluster
from service.schema.responses import Explanation, WordScore
from service.schema.values import Json
from service.search.groups import is_among_first, units_of
from service.search.postings import Integers, Mask
from service.search.query import ParsedQuery
from service.search.ranking import EXACT_NAMES
from service.search.top_k import NO_ORDINALS
from service.snapshot.data import ResourceDocuments
from service.snapshot.snapshot import Snapshot

EXACT_NAME = 1000
"""The score of a name that is the query: more than any sum."""
MATCHES = "matches"
NO_SOURCE = {"_source": False, "stored_fields": "_none_"}
RELEVANCE: Json = {"_score": {"order": "desc"}}


class ClusterEngine:
    """Searches the index of one snapshot. A service is a group of documents, ranked by the best."""

    def __init__(self, snapshot: Snapshot, cluster: Cluster, index: str) -> None:
        self._cluster, self._index = cluster, index
        self._parser, self._vectors = snapshot.embedded.parser, snapshot.embedded.vectors
        self._header, self._config = self._parser.header, self._parser.header.config
        self._services, self._endpoints = snapshot.filters, snapshot.endpoints.filters
        self._groups, self._offers = snapshot.endpoints.groups, snapshot.offers
        self._resources = ResourceDocuments(snapshot.resources, snapshot.endpoints)

    async def search_services(self, search: Search[Filters]) -> Answer:
        """Return one page of services, each ranked by the best of its documents."""
        filters, query = search.filters, self._parser.parse(search.query)
        order = RELEVANCE if filters.sort == "relevance" else {f"by_{filters.sort}": {}}
        words = self._words(query, match=filters.match)
        should = [nested(DOCUMENTS, words, score_mode="max", inner_hits=_inner_hits(1))]
        if names := query.names[:EXACT_NAMES].tolist():
            is_named = {"filter": any_value(ORDINAL, names), "boost": EXACT_NAME}
            should.append({"constant_score": is_named})
        body = {
            "query": any_of(should, conditions(filters.given(), self._services)),
            "sort": [_sort(order), {ORDINAL: "asc"}],
            "size": self._depth(search),
            "track_total_hits": True,
            "aggs": facet_aggregations(self._services.columns, filters.facets),
        }
        async with self._cluster.request():
            response = await self._search(body)
            total, counted = response["hits"]["total"]["value"], response.get("aggregations", {})
            documents, scores = self._documents(response)
            similar, end = 0, self._header.endpoints
            if order is RELEVANCE:
                is_filled = not filters.has_conditions and filters.match == "any"
                missing = (self._config.filled_up_to - total) * is_filled
                documents, similar = self._rank(query, documents, scores, missing, by_group=True)
            page = documents[search.offset :][: search.limit]
            is_best = filters.best_endpoints or filters.explain
            return Answer(
                total + similar,
                units_of(page, self._groups).tolist(),
                total + similar,
                similar,
                facet_counts(self._services.columns, filters.facets, counted) or None,
                [each if each < end else None for each in page.tolist() if is_best],
                await self._explain(query, page, by_group=True) if filters.explain else None,
            )

    async def search_endpoints(self, search: Search[EndpointFilters]) -> Answer:
        """Return one page of endpoints."""
        filters = search.filters
        wanted, of_offer = endpoint_conditions(filters, self._endpoints, self._offers)
        wanted.append({"range": {NUMBER: {"lt": self._header.endpoints}}})
        order: Json = {f"{DOCUMENTS}.by_{filters.sort}": {}}
        if filters.sort == "relevance":
            order = RELEVANCE
        elif filters.sort == "price" and of_offer:
            of_these = {"path": OFFERS, "filter": {"bool": {"filter": of_offer}}}
            order = {f"{OFFERS}.price": {"nested": of_these}}
        is_filled = not filters.has_conditions and filters.match == "any"
        mask = np.arange(self._header.documents) < self._header.endpoints if is_filled else None
        return await self._search_documents(search, filters, wanted, order, mask)

    async def search_resources(self, search: Search[ResourceFilters]) -> Answer:
        """Return one page of listed resources, whose filters are evaluated on the snapshot."""
        mask = self._resources.documents(search.filters)
        wanted = [{"term": {f"{DOCUMENTS}.is_listed": 1}}]
        is_filled = not search.filters.has_conditions
        if not is_filled:
            wanted = [any_value(NUMBER, np.flatnonzero(mask).tolist())]
        every = EndpointFilters(per_service=0)
        answer = await self._search_documents(
            search, every, wanted, RELEVANCE, mask if is_filled else None
        )
        documents = np.array(answer.ordinals, np.int64)
        return replace(answer, ordinals=self._resources.of_documents(documents).tolist())

    async def count(self, search: Search[Filters]) -> int:
        """Return the exact count of the services that match."""
        return (await self.search_services(search)).matches

    async def check(self) -> None:
        """Raise EngineUnavailable unless all shards of the index can be searched."""
        async with self._cluster.request():
            await self._search({"size": 0})

    async def _search(self, body: Json) -> Json:
        return await self._cluster.search(self._index, body | NO_SOURCE)

    def _words(self, query: ParsedQuery, wanted: Sequence[Json] = (), match: str = "any") -> Json:
        """Return the clause of the documents that match and satisfy conditions."""
        words = of_words(query, self._parser.term, self._config, match_all=match == "all")
        return {"bool": {"must": [words], "filter": wanted}}

    async def _search_documents(
        self,
        search: Search[Any],
        filters: EndpointFilters,
        wanted: Sequence[Json],
        order: Json,
        mask: Mask | None,
    ) -> Answer:
        """Return one page of documents; similar ones are of the mask, and none without one.

        The first k documents are of the k services whose own first documents are first.
        """
        query, per_service = self._parser.parse(search.query), filters.per_service
        clause = self._words(query, wanted, filters.match)
        facets = self._endpoints.columns
        counts = facet_aggregations(facets, filters.facets, f"{DOCUMENTS}.")
        matches = {MATCHES: {"filter": clause, "aggs": counts}}
        least = self._config.filled_up_to  # all matches are known where similar rows are added
        inner = _inner_hits(max(per_service, least) if per_service else self._depth(search), order)
        body = {
            "query": nested(DOCUMENTS, clause, score_mode="max", inner_hits=inner),
            "sort": [_sort(order, clause), {ORDINAL: "asc"}],
            "size": self._depth(search),
            "aggs": {MATCHES: {"nested": {"path": DOCUMENTS}, "aggs": matches}},
        }
        async with self._cluster.request():
            response, listed = await asyncio.gather(
                self._search(body), self._count_listed(clause, per_service)
            )
            counted = response["aggregations"][MATCHES][MATCHES]
            documents, values = self._documents(response)
            keys = -values if order is RELEVANCE else values
            first = np.lexsort((documents, units_of(documents, self._groups), keys))
            documents, total, similar = documents[first], counted["doc_count"], 0
            if order is RELEVANCE:
                missing = 0 if mask is None else self._config.filled_up_to - total
                documents, similar = self._rank(query, documents, values[first], missing, mask)
            if per_service:
                is_whole = len(documents) == total + similar
                owners = units_of(documents, self._groups)
                documents = documents[is_among_first(owners, per_service)]
                listed = len(documents) if is_whole else listed
            page = documents[search.offset :][: search.limit]
            return Answer(
                total + similar,
                page.tolist(),
                listed if per_service else total + similar,
                similar,
                facet_counts(facets, filters.facets, counted) or None,
                explanations=await self._explain(query, page) if filters.explain else None,
            )

    async def _count_listed(self, clause: Json, per_service: int) -> int:
        """Return how many of the matches are among the first of their service."""
        if not per_service:
            return 0
        every = {"constant_score": {"filter": clause}}  # so that a score is a count of documents
        least = {"source": f"Math.min(_score.doubleValue(), {per_service})"}
        body = {
            "query": nested(DOCUMENTS, every, score_mode="sum"),
            "size": 0,
            "aggs": {MATCHES: {"sum": {"script": least}}},
        }
        return int((await self._search(body))["aggregations"][MATCHES]["value"])

    def _depth(self, search: Search[Any]) -> int:
        """Return how many of the first rows a page needs: those that are ranked again are whole."""
        return max(search.offset + search.limit, self._config.reranked)

    def _documents(self, response: Json) -> tuple[Integers, Any]:
        """Return the documents in a response, and the scores or values that order them.

        A service that is found by its name alone has its first document.
        """
        first_of, pairs = self._groups.documents_of, []
        for hit in response["hits"]["hits"]:
            own = hit["inner_hits"][DOCUMENTS]["hits"]["hits"]
            pairs += [each["sort"] for each in own] or [(0, first_of(hit["sort"][-1])[0])]
        values, documents = np.array(pairs, np.float64).reshape(-1, 2).T
        if documents.max(initial=-1) >= self._header.documents:
            raise ValueError("the response has documents that are not in the snapshot")
        return documents.astype(np.int64), values

    def _rank(
        self,
        query: ParsedQuery,
        documents: Integers,
        scores: Any,
        missing: int,
        mask: Mask | None = None,
        *,
        by_group: bool = False,
    ) -> tuple[Integers, int]:
        """Return documents in the order of words and meaning, and how many similar ones are added.

        Up to `missing` of the nearest ones that a mask allows are added.
        """
        depth, added = self._config.reranked, NO_ORDINALS
        if missing > 0 and query.vector is not None and self._vectors is not None:
            config, groups = self._config, self._groups if by_group else None
            per_group = 1 if by_group else config.filled_per_group
            nearest = self._vectors.nearest(
                query.vector, config.filled_up_to, per_group, config.least_similarity, mask
            )
            is_match = np.isin(units_of(nearest, groups), units_of(documents, groups))
            added = nearest[~is_match][:missing]
        best = np.concatenate((documents[:depth], added))
        _, similar, penalties, is_exact = self._weigh(query, best, by_group=by_group)
        keys = penalties - similar
        keys[: len(best) - len(added)] -= scores[:depth]
        order = np.lexsort((keys, ~is_exact))
        return np.concatenate((best[order], documents[depth:])), len(added)

    def _weigh(
        self, query: ParsedQuery, documents: Integers, *, by_group: bool
    ) -> tuple[Any, Any, Any, Mask]:
        """Return the cosines of documents, what they add, what size takes, whose name is exact."""
        cosines, penalties = np.zeros((2, len(documents)))
        is_exact = np.zeros(len(documents), np.bool_)
        scale, services = self._config.impact_scale, units_of(documents, self._groups)
        if query.vector is not None and self._vectors is not None:
            cosines = self._vectors.similarities(query.vector, documents).astype(np.float64)
        if by_group:
            penalties = self._groups.penalties.take(services) / scale
            is_exact = np.isin(services, query.names[:EXACT_NAMES])
        return cosines, cosines * query.similarity_weight / scale, penalties, is_exact

    async def _explain(
        self, query: ParsedQuery, documents: Integers, *, by_group: bool = False
    ) -> list[Explanation]:
        """Return the parts of the scores of documents: each term is searched for alone."""
        terms = [(each, term) for each in query.expansions for term in each.terms]
        wanted, size = [any_value(NUMBER, documents.tolist())], len(documents)
        inner, searches = _inner_hits(max(size, 1)), []
        for each, term in terms:
            own = query._replace(expansions=[each._replace(terms=[term])])
            clause = nested(DOCUMENTS, self._words(own, wanted), inner_hits=inner)
            searches.append(self._search({"query": clause, "size": size}))
        found = [self._documents(each) for each in await asyncio.gather(*searches)]
        scores = [dict(zip(*map(np.ndarray.tolist, each), strict=True)) for each in found]
        parts, explanations = self._weigh(query, documents, by_group=by_group), []
        for place, document in enumerate(documents.tolist()):
            cosine, similar, penalty, is_exact = (part[place].item() for part in parts)
            similarity = None if query.vector is None else round(cosine, 4)
            words = [
                WordScore(each.word, self._parser.term(number), own[document])
                for (each, (number, _)), own in zip(terms, scores, strict=True)
                if document in own
            ]
            score = sum(word.score for word in words) + similar - penalty
            explanations.append(Explanation(score, words, similarity, similar, penalty, is_exact))
        return explanations


class OpenSearch:
    """Connects snapshots with a cluster that has an index of each."""

    def __init__(self, arguments: Json, timeout: float, prefix: str) -> None:
        self._cluster, self._prefix = Cluster(arguments, timeout), prefix

    def connect(self, snapshot: Snapshot) -> ClusterEngine:
        """Return the engine of a snapshot."""
        return ClusterEngine(snapshot, self._cluster, index_name(self._prefix, snapshot.id))

    async def close(self) -> None:
        """Close the connections."""
        await self._cluster.close()


def _sort(order: Json, clause: Json | None = None) -> Json:
    """Return the order of documents, or of services by those that satisfy a clause."""
    if order is RELEVANCE:
        return order
    ((field, options),) = order.items()
    if clause is not None:
        options = {"nested": {"path": DOCUMENTS, "filter": clause} | options}
    return {field: options | {"order": "asc", "mode": "min"}}


def _inner_hits(size: int, order: Json = RELEVANCE) -> Json:
    return {"size": size, "sort": [_sort(order), {NUMBER: "asc"}], **NO_SOURCE}
