"""The engine of an OpenSearch cluster: it matches, filters, orders, counts and ranks by BM25F.

A service is a document of the index. Its nested `documents` are those that the embedded engine
ranks it by: its endpoints, its other listed resources, or its own text if it has neither. Texts are
stored as terms, whose frequencies are weighted by field, and values of facets by their numbers.

Words are looked up in the lexicon of the snapshot, so that they match what they match embedded.
The best matches are then ranked by meaning as well, by the vectors of the snapshot.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from service.conditions import (
    MAX_COUNTED,
    OFFER_NETWORK,
    PRICE,
    EndpointFilters,
    Filters,
    Given,
    ResourceFilters,
    has_verdict,
)
from service.engines.embedded import run
from service.engines.engine import Answer, F, Search
from service.filtering.table import FacetCounts, Table
from service.opensearch.cluster import NO_SOURCE, Cluster
from service.schema.values import Json
from service.search.groups import Units, is_among_first, units_of
from service.search.postings import FULL_WEIGHT, Integers
from service.search.query import ParsedQuery
from service.search.ranking import DEEP_OFFSET, EXACT_NAMES, Ranking
from service.search.top_k import NO_ORDINALS
from service.snapshot.data import ResourceDocuments
from service.snapshot.snapshot import Snapshot

ORDINAL = "ordinal"
"""The number of a service or of a document in the snapshot."""
DOCUMENTS = "documents"
NUMBER = f"{DOCUMENTS}.{ORDINAL}"
OFFERS = f"{DOCUMENTS}.offers"
MATCHES = "matches"
TERMS = f"{DOCUMENTS}.terms"
LONGEST_TERM = 250  # characters; the whitespace tokenizer cuts those of more than 255
UNLIMITED = 2**31 - 1
BOUNDS: dict[Any, Callable[[Any], Json]] = {
    operator.le: lambda value: {"lte": value},
    operator.ge: lambda value: {"gte": value},
    operator.eq: lambda value: {"gte": int(value), "lte": int(value)},
    has_verdict: lambda value: {"gt": 0} if value else {"lt": 0},
}
EXACT_NAME = 1000
"""The score of a name that is the query: more than any sum."""
ALL: Json = {"match_all": {}}
NONE: Json = {"match_none": {}}
RELEVANCE: Json = {"_score": {"order": "desc"}}
FACET: Json = {
    "size": MAX_COUNTED,
    "shard_size": UNLIMITED,  # every shard counts all values, so that sums are exact
    "order": [{"_count": "desc"}, {"_key": "asc"}],
}


class TableFields(NamedTuple):
    """The columns of a table, which are fields below a path of the index."""

    table: Table
    path: str = ""

    def satisfy(self, given: Iterable[Given]) -> list[Json]:
        """Return the clauses of conditions; values that no row has are none of them."""
        clauses: list[Json] = []
        for (_, _, column), value in given:
            field = self.path + column.name
            if column.holds is None:
                numbers = {*map(self.table.columns[column.name].values.find, value)} - {None}
                clauses.append({"terms": {field: [*numbers]}})
            else:
                clauses.append({"range": {field: BOUNDS[column.holds](value)}})
        return clauses

    def aggregations(self, facets: Iterable[str]) -> Json:
        """Return the aggregations of facets."""
        return {name: {"terms": {"field": self.path + name} | FACET} for name in facets}

    def counts(self, facets: Iterable[str], counted: Json) -> FacetCounts | None:
        """Return the counts of facets in the response to their aggregations."""
        columns, found = self.table.columns, {}
        for name in facets:
            pairs = [(each["key"], each["doc_count"]) for each in counted[name]["buckets"]]
            found[name] = [{"value": columns[name].values[n], "count": count} for n, count in pairs]
        return found or None


class ClusterEngine:
    """Searches the index of one snapshot, and explains no scores.

    A service is a group of documents, ranked by the best.
    """

    def __init__(self, snapshot: Snapshot, cluster: Cluster, index: str) -> None:
        self._cluster, self._index, self._embedded = cluster, index, snapshot.embedded
        self._parser, self._vectors = snapshot.embedded.parser, snapshot.embedded.index.vectors
        self._header, self._config = self._parser.header, self._parser.header.config
        self._services = TableFields(snapshot.filters)
        self._endpoints = TableFields(snapshot.endpoints.filters, f"{DOCUMENTS}.")
        self._offers = TableFields(snapshot.offers, f"{OFFERS}.")
        self._groups = snapshot.endpoints.groups
        self._resources = ResourceDocuments(snapshot.resources, snapshot.endpoints)

    async def search_services(self, search: Search[Filters]) -> Answer:
        """Return one page of services, each ranked by the best of its documents."""
        wanted = self._services.satisfy(search.filters.given())
        answer = await self._search(
            search, self._services, wanted, {f"by_{search.filters.sort}": {}}
        )
        return answer or await self._embedded.search_services(search)

    async def search_endpoints(self, search: Search[EndpointFilters]) -> Answer:
        """Return one page of endpoints; conditions of offers must hold together on one."""
        filters, given = search.filters, search.filters.given()
        of_offer = [pair for pair in given if pair[0].column.of_offer]
        if of_offer:
            of_offer += [pair for pair in given if pair[0].column is PRICE]
        wanted = self._endpoints.satisfy(pair for pair in given if pair not in of_offer)
        wanted.append({"range": {NUMBER: {"lt": self._header.endpoints}}})
        order: Json = {f"{DOCUMENTS}.by_{filters.sort}": {}}
        if of_offer:
            clauses = self._offers.satisfy(of_offer)
            if all(each.column is not OFFER_NETWORK for each, _ in of_offer):
                clauses.append({"term": {f"{OFFERS}.shadowed": 0}})
            offers = {"bool": {"filter": clauses}}
            wanted.append({"nested": {"path": OFFERS, "query": offers}})
            if filters.sort == "price":
                order = {f"{OFFERS}.price": {"nested": {"path": OFFERS, "filter": offers}}}
        answer = await self._search(search, self._endpoints, wanted, order, filters.per_service)
        return answer or await self._embedded.search_endpoints(search)

    async def search_resources(self, search: Search[ResourceFilters]) -> Answer:
        """Return one page of listed resources, whose filters are evaluated on the snapshot."""
        wanted: Json = {"term": {f"{DOCUMENTS}.is_listed": 1}}
        filters = search.filters
        if filters.has_conditions:
            select = partial(self._resources.documents, filters)
            mask = await run(select, self._resources.cost(filters))
            wanted = {"terms": {NUMBER: np.flatnonzero(mask).tolist()}}
        answer = await self._search(search, self._endpoints, [wanted], RELEVANCE)
        return answer or await self._embedded.search_resources(search)

    async def check(self) -> None:
        """Raise EngineUnavailable unless all shards of the index can be searched."""
        async with self._cluster.request():
            await self._cluster.search(self._index, {"size": 0})

    async def _search(
        self,
        search: Search[F],
        fields: TableFields,
        wanted: list[Json],
        order: Json,
        per_service: int = 0,
    ) -> Answer | None:
        """Return one page of the nested documents, or of services by their best ones.

        The first k nested documents are of the k services whose own first documents are first.
        Return None for few matches, to which the embedded engine adds similar rows. Deep in a list
        the matches are counted first, as no page lies beyond them.

        fields: of the services, or of the nested documents
        wanted: clauses that these satisfy
        """
        query, filters, config = self._parser.parse(search.query), search.filters, self._config
        by_group, facets = fields is self._services, getattr(filters, "facets", ())
        if getattr(filters, "sort", "relevance") == "relevance":
            order = RELEVANCE
        # Services beyond those that are reranked keep their places, and each is one hit.
        start = search.offset if by_group and search.offset >= config.reranked else 0
        reranked = 0 if start else config.reranked
        # The cluster refuses large sizes, and there are no more rows than documents.
        depth = search.offset - start + search.limit
        depth = min(max(depth, reranked), self._header.documents)
        clause = self._words(query, match_all=filters.match == "all")
        if by_group:
            size, matches, scope, own = 1, ALL, {"filter": ALL}, RELEVANCE
        else:
            matches = clause = {"bool": {"must": [clause], "filter": wanted}}
            size, scope = min(per_service or depth, depth), {"nested": {"path": DOCUMENTS}}
            own = _sort(order)
        hits = {"size": size, "sort": [own, {NUMBER: "asc"}], **NO_SOURCE}
        words = {"path": DOCUMENTS, "query": clause, "score_mode": "max", "inner_hits": hits}
        exact = await self._named(query, filters) if isinstance(filters, Filters) else NO_ORDINALS
        names = {"terms": {ORDINAL: exact.tolist()}}
        named = {"constant_score": {"filter": names, "boost": EXACT_NAME}}
        should = {"should": [{"nested": words}, named], "minimum_should_match": 1}
        counts = {MATCHES: {"filter": matches, "aggs": fields.aggregations(facets)}}
        body = {
            "query": {"bool": should | {"filter": wanted if by_group else []}},
            "sort": [_sort(order, None if by_group else clause), {ORDINAL: "asc"}],
            "from": start,
            "size": depth,
        }
        is_deep = search.offset >= DEEP_OFFSET
        first = body | {"aggs": {MATCHES: scope | {"aggs": counts}}}
        first |= {"from": 0, "size": 0} if is_deep else {}
        async with self._cluster.request():
            response, listed = await asyncio.gather(
                self._cluster.search(self._index, first), self._count_listed(clause, per_service)
            )
            found = response["aggregations"][MATCHES][MATCHES]
            total, counted = found["doc_count"], fields.counts(facets, found)
            listed = listed if per_service else total
            if is_deep and search.offset < listed:
                response = await self._cluster.search(self._index, body)
            documents = self._rank(query, response, order, reranked, by_group=by_group)
        is_filled = order is RELEVANCE and filters.match == "any" and not filters.has_conditions
        if is_filled and self._vectors is not None and total < config.filled_up_to:
            return None
        if per_service:
            owners = units_of(documents, self._groups)
            documents = documents[is_among_first(owners, per_service)]
        page, best = documents[search.offset - start :][: search.limit], []
        if getattr(filters, "best_endpoints", False):
            best = [each if each < self._header.endpoints else None for each in page.tolist()]
        rows = units_of(page, self._groups if by_group else None)
        if isinstance(filters, ResourceFilters):
            rows = self._resources.of_documents(page)
        fit = None
        if order is RELEVANCE:
            score = self._embedded.index.score(query, page.item(0)) if len(page) else None
            fit = self._embedded.fit_of(search, query, score)
        return Answer(total, rows.tolist(), listed, facets=counted, best_endpoints=best, fit=fit)

    async def _named(self, query: ParsedQuery, filters: Filters) -> Units:
        """Return the services whose name is the query that come first, as without a cluster."""
        if len(query.names) <= EXACT_NAMES:
            return query.names
        table, index, match_all = self._services.table, self._embedded.index, filters.match == "all"

        def find() -> Units:
            mask = table.mask(filters.given())
            ranking = Ranking(index, query, mask, by_group=True, match_all=match_all)
            return units_of(ranking.find_exact(), self._groups)

        return await run(find, table.cost(filters) + self._parser.count_postings(query.expansions))

    def _words(self, query: ParsedQuery, *, match_all: bool) -> Json:
        """Return the clause of the documents that have any word, or all that are required."""
        words: dict[bool, list[Json]] = {True: [], False: []}
        for each in query.expansions:
            terms = [(self._parser.term(n)[:LONGEST_TERM], w / FULL_WEIGHT) for n, w in each.terms]
            own = [{"term": {TERMS: {"value": text, "boost": boost}}} for text, boost in terms]
            words[each.required].append(_any_of(own))
        if match_all:
            return {"bool": {"must": words[True] or [NONE], "should": words[False]}}
        return _any_of([*words[True], *words[False]])

    async def _count_listed(self, clause: Json, per_service: int) -> int:
        """Return how many of the matches are among the first of their service."""
        if not per_service:
            return 0
        every = {"constant_score": {"filter": clause}}  # so that a score is a count of documents
        source = "Math.min(_score.doubleValue(), params.most)"
        least = {"source": source, "params": {"most": per_service}}
        body = {
            "query": {"nested": {"path": DOCUMENTS, "query": every, "score_mode": "sum"}},
            "size": 0,
            "aggs": {MATCHES: {"sum": {"script": least}}},
        }
        response = await self._cluster.search(self._index, body)
        return int(response["aggregations"][MATCHES]["value"])

    def _rank(
        self, query: ParsedQuery, response: Json, order: Json, reranked: int, *, by_group: bool
    ) -> Integers:
        """Return the documents in a response in their order: the best by words by meaning as well.

        A service that is found by its name alone has its first document.
        """
        pairs: list[tuple[float, int]] = []
        for hit in response["hits"]["hits"]:
            key, service = hit["sort"]
            own = [each["sort"] for each in hit["inner_hits"][DOCUMENTS]["hits"]["hits"]]
            if by_group:
                own = [(key, own[0][1] if own else self._groups.documents_of(service)[0])]
            pairs += own
        keys, numbers = np.array(pairs, np.float64).reshape(-1, 2).T
        keys, documents = -keys if order is RELEVANCE else keys, numbers.astype(np.int64)
        first = np.lexsort((documents, units_of(documents, self._groups), keys))
        if order is not RELEVANCE:
            return documents[first]
        best, rest = np.split(documents[first], [reranked])
        keys, scale = keys[first][: len(best)], self._config.impact_scale
        if query.vector is not None and self._vectors is not None:
            similarities = self._vectors.similarities(query.vector, best)
            keys -= similarities * (query.similarity_weight / scale)
        if by_group:
            keys += self._groups.penalties[units_of(best, self._groups)] / scale
        return np.concatenate((best[np.argsort(keys, kind="stable")], rest))


class OpenSearch(Cluster):
    """A cluster that has an index of each snapshot."""

    def connect(self, snapshot: Snapshot) -> ClusterEngine:
        """Return the engine of a snapshot."""
        return ClusterEngine(snapshot, self, f"{self.prefix}-{snapshot.id}")


def _any_of(clauses: list[Json]) -> Json:
    """Return the clause of what satisfies any of these; an empty list would match everything."""
    return {"bool": {"should": [NONE, *clauses], "minimum_should_match": 1}}


def _sort(order: Json, clause: Json | None = None) -> Json:
    """Return the order of documents, or of services by those that satisfy a clause."""
    if order is RELEVANCE:
        return order
    ((field, options),) = order.items()
    if clause is not None:
        options = {"nested": {"path": DOCUMENTS, "filter": clause} | options}
    return {field: options | {"order": "asc", "mode": "min"}}
