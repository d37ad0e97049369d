"""The ranking of the embedded engine, with the lexical part from a cluster.

`service.search.searcher.Plan` has the same ranking over the files of a snapshot: documents whose
name is the query first, then the best by words, of which the first are ranked by meaning as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from service.errors import EngineUnavailable
from service.filtering.facets import MAX_COUNTED
from service.opensearch.client import Cluster, SearchResponse
from service.opensearch.indexes import ORDINAL, SERVICE
from service.opensearch.queries import (
    BEST_FIRST,
    NOTHING,
    Clause,
    any_of,
    clause_name,
    count_excess,
    count_values,
    documents,
    every_term,
    lexical,
    masked,
    named_terms,
    within,
    without,
)
from service.records import Explanation, WordScore
from service.search.collapsing import GROWTH, MARGIN, Groups, is_among_first
from service.search.postings import Integers, Mask
from service.search.query import ParsedQuery, QueryParser
from service.search.searcher import Collapsed
from service.search.semantic.vectors import Floats
from service.search.top_k import NO_ORDINALS, ORDINAL_MASK, SUM_BITS, TopK

LEAST_CHUNK, LARGEST_CHUNK = 1024, 1 << 14
"""Candidates whose matches are asked for at a time."""
MAX_HITS = 10_000
"""Hits of one answer: to decode them takes some 20 ms of the event loop."""
FAR = 1000
"""Offsets from here on are compared with the number of results before any match is fetched."""
COUNT_ONLY: Clause = {"size": 0}


class _Keys(NamedTuple):
    """The sort keys of the best lexical matches, best first, and the exact number of all."""

    total: int
    keys: Integers


class _Exact(NamedTuple):
    """The documents whose name is the query: their keys, and whether their words match, too."""

    keys: Integers
    is_lexical: Mask

    @property
    def ordinals(self) -> Integers:
        return self.keys & ORDINAL_MASK


class ClusterSearcher:
    """Ranks the documents of one index; `parser` has the lexicon of its snapshot."""

    def __init__(self, cluster: Cluster, index: str, parser: QueryParser) -> None:
        self.parser = parser
        self.documents = parser.header.documents
        self._cluster = cluster
        self._index = index

    def plan(self, query: str, mask: Mask | None, *, match_all: bool = False) -> ClusterPlan:
        """Parse a query. `mask` says which documents may match; it is kept."""
        return ClusterPlan(self, self.parser.parse(query), mask, match_all=match_all)

    async def ask(self, body: Clause) -> SearchResponse:
        """Search the index."""
        return await self._cluster.search(self._index, body)


class ClusterPlan:
    """A query, looked up; what was asked of the cluster is asked once."""

    def __init__(
        self, searcher: ClusterSearcher, parsed: ParsedQuery, mask: Mask | None, *, match_all: bool
    ) -> None:
        exact = parsed.exact if mask is None else parsed.exact[mask[parsed.exact]]
        self._searcher = searcher
        self._parsed = parsed._replace(exact=exact)
        self._mask = mask
        self._conditions = masked(mask)
        self._lexical = lexical(parsed, match_all=match_all)
        self._is_filled = parsed.meaning is not None and not match_all
        self._head = _Keys(-1, NO_ORDINALS)
        self._exact: _Exact | None = None

    async def rank(self, limit: int, offset: int = 0) -> TopK:
        """Return one page of the ranking, and the exact count of all matches."""
        exact, meaning = await self._find_exact(), self._parsed.meaning
        start, depth = offset - len(exact.keys), 0 if meaning is None else meaning.least_rank
        if start > depth:
            total, keys = await self._page(limit, start)
            total += len(exact.keys)
            if not self._may_be_filled(total):
                return TopK(total, keys & ORDINAL_MASK)
        total, keys = await self._best(max(offset + limit, depth))
        total += len(exact.keys)
        if meaning is not None:
            nearest = await self._nearest()
            keys = np.sort(np.concatenate((keys, exact.keys[exact.is_lexical])))
            keys = meaning.rerank(keys, nearest)
            total += len(nearest)
        ordinals = keys & ORDINAL_MASK
        if len(exact.keys):
            others = ordinals[~np.isin(ordinals, exact.ordinals)]
            ordinals = np.concatenate((exact.ordinals, others))
        return TopK(total, ordinals[offset : offset + limit])

    async def collapse(
        self, groups: Groups, per_group: int, limit: int, offset: int = 0
    ) -> Collapsed:
        """Return one page of the ranking with the best `per_group` documents of each group."""
        k = MARGIN * (offset + limit)
        if offset >= FAR:
            total = await self.count()
            count = total - await self.count_excess(per_group)
            if offset >= count:
                return Collapsed(total, count, NO_ORDINALS)
        while True:
            total, ordinals = await self.rank(k)
            listed = ordinals[is_among_first(groups.of_document[ordinals], per_group)]
            if len(listed) >= offset + limit or k >= total:
                break
            k *= GROWTH
        if len(ordinals) == total:
            count = groups.count_listed(np.sort(ordinals), per_group)
        else:
            count = total - await self.count_excess(per_group)
        return Collapsed(total, count, listed[offset : offset + limit])

    async def count(self) -> int:
        """Return the exact count of all matches."""
        total, _ = await self._best(0)
        return total + len(self._parsed.exact) + len(await self._nearest())

    async def count_within(self, mask: Mask) -> int:
        """Return how many matches are in a mask."""
        return (await self._ask_matches(masked(mask), COUNT_ONLY)).total

    async def count_excess(self, per_group: int) -> int:
        """Return how many matches are beyond so many of their service."""
        aggregation = {"size": 0, "aggs": {"large": count_excess(per_group)}}
        response = await self._ask_matches([], aggregation)
        return int(response.aggregations["large"][SERVICE]["value"])

    async def count_values(self, sizes: Mapping[str, int]) -> dict[str, list[tuple[int, int]]]:
        """Return the MAX_COUNTED most frequent values of each field, with their exact counts.

        Most frequent first, ties by value; `sizes` are the numbers of values. A size of 0 stands
        for a field each of whose values is in one shard.
        """
        aggregations = {
            field: count_values(field, MAX_COUNTED, max(size, MAX_COUNTED))
            for field, size in sizes.items()
        }
        return await self._count(aggregations)

    async def all(self, total: int) -> Integers:
        """Return all matches, of which there are so many."""
        page = {"size": min(total, self._searcher.documents), "sort": [{ORDINAL: "asc"}]}
        response = await self._ask_matches([], page if total else COUNT_ONLY)
        return np.array([hit.sort[0] for hit in response.hits.hits], np.int64)

    async def matching(self, candidates: Integers) -> Integers:
        """Return those of some documents that match, in their order."""
        size = min(len(candidates), self._searcher.documents)
        page = {"size": size, "sort": [{ORDINAL: "asc"}]}
        response = await self._ask_matches([documents(candidates)], page)
        matches = np.array([hit.sort[0] for hit in response.hits.hits], np.int64)
        return candidates[np.isin(candidates, matches)]

    async def explain(self, ordinals: Sequence[int]) -> list[Explanation]:
        """Return the parts of the scores of some results."""
        results = np.asarray(ordinals, np.int64)
        named, unit = named_terms(self._parsed), self._searcher.parser.header.config.impact_scale
        scores: dict[int, dict[str, float]] = {}
        if named and len(results):
            clause = within(any_of([*named.values()]), [documents(results)])
            body = {"query": clause, "size": len(results), "sort": [{ORDINAL: "asc"}]}
            response = await self._searcher.ask({"track_scores": True, **body})
            scores = {int(hit.sort[0]): hit.matched_queries for hit in response.hits.hits}
        sums = [sum(scores.get(ordinal, {}).values()) for ordinal in ordinals]
        similarities, added = await self._similarities(results, np.array(sums, np.int64))
        exact = await self._find_exact()
        return [
            Explanation(
                score=(lexical_sum + similar) / unit,
                words=self._words(scores.get(ordinal, {}), unit),
                similarity=None if self._parsed.meaning is None else round(similarity, 4),
                similarity_score=similar / unit,
                is_exact_name=ordinal in exact.ordinals,
            )
            for ordinal, lexical_sum, similarity, similar in zip(
                ordinals, sums, similarities.tolist(), added.tolist(), strict=True
            )
        ]

    def _words(self, scores: Mapping[str, float], unit: int) -> list[WordScore]:
        parser = self._searcher.parser
        return [
            WordScore(each.word, parser.term(term), scores[name] / unit)
            for number, each in enumerate(self._parsed.known)
            for term, _ in each.terms
            if (name := clause_name(number, term)) in scores
        ]

    async def _similarities(self, results: Integers, sums: Integers) -> tuple[Floats, Integers]:
        """Return the cosines of some results, and what these add to their sums."""
        meaning = self._parsed.meaning
        if meaning is None:
            return np.zeros(len(results), np.float32), np.zeros(len(results), np.int64)
        _, keys = await self._best(meaning.depth)
        exact = await self._find_exact()
        keys = np.sort(np.concatenate((keys, exact.keys[exact.is_lexical])))[: meaning.depth]
        is_added = np.isin(results, keys & ORDINAL_MASK) | (sums == 0)
        similarities = meaning.semantics.vectors.similarities(meaning.query, results)
        return similarities, np.where(is_added, meaning.impacts(results), 0)

    def _may_be_filled(self, total: int) -> bool:
        meaning = self._parsed.meaning
        return self._is_filled and meaning is not None and total < meaning.config.filled_up_to

    async def _nearest(self) -> Integers:
        """Return the documents that few matches are filled up with."""
        meaning = self._parsed.meaning
        if meaning is None or not self._is_filled:
            return NO_ORDINALS
        total, keys = await self._best(meaning.config.filled_up_to)
        exact = self._parsed.exact
        matches = np.concatenate((keys & ORDINAL_MASK, exact))
        return meaning.nearest(total + len(exact), matches, self._mask)

    async def _find_exact(self) -> _Exact:
        """Return the sums of the documents whose name is the query, best first."""
        if self._exact is None:
            ordinals = self._parsed.exact
            keys, is_lexical = NO_ORDINALS, np.zeros(0, np.bool_)
            if len(ordinals):
                matches = await self._keys_of(any_of(every_term(self._parsed)), ordinals)
                common = await self._keys_of(self._lexical, ordinals)
                missing = ordinals[~np.isin(ordinals, matches & ORDINAL_MASK)]
                keys = np.sort(np.concatenate((matches, missing)))
                is_lexical = np.isin(keys & ORDINAL_MASK, common & ORDINAL_MASK)
            self._exact = _Exact(keys, is_lexical)
        return self._exact

    async def _keys_of(self, clause: Clause, ordinals: Integers) -> Integers:
        query = within(clause, [documents(ordinals)])
        body = {"query": query, "size": len(ordinals), "sort": BEST_FIRST}
        return _keys_in(await self._searcher.ask(body))

    async def _best(self, k: int) -> _Keys:
        """Return at least the k best lexical matches but those whose name is the query.

        Many are fetched in parts, so that other requests have their turn.
        """
        while self._head.total < 0 or len(self._head.keys) < min(k, self._head.total):
            keys = self._head.keys
            after: Clause = {}
            if len(keys):
                last = int(keys[-1])
                after = {"search_after": [float(-(last >> SUM_BITS)), last & ORDINAL_MASK]}
            total, more = await self._ask_best(min(k - len(keys), MAX_HITS), after)
            if not len(more) and k and total:
                raise EngineUnavailable("OpenSearch has other documents than a moment ago")
            self._head = _Keys(total, np.concatenate((keys, more)))
        return self._head

    async def _page(self, limit: int, start: int) -> _Keys:
        """Return a page of the lexical matches but those whose name is the query."""
        size = max(min(limit, self._searcher.documents - start), 0)
        return await self._ask_best(size, {"from": start} if size else {})

    async def _ask_best(self, size: int, place: Clause) -> _Keys:
        if self._lexical is NOTHING:
            return _Keys(0, NO_ORDINALS)
        query = within(without(self._lexical, self._parsed.exact), self._conditions)
        page = {"size": size, "sort": BEST_FIRST, **place} if size else COUNT_ONLY
        response = await self._searcher.ask({"query": query, **page})
        return _Keys(response.total, _keys_in(response))

    async def _ask_matches(self, conditions: Sequence[Clause], body: Clause) -> SearchResponse:
        """Ask for those of all matches that satisfy conditions, in no order."""
        others = np.concatenate((self._parsed.exact, await self._nearest()))
        clauses = [] if self._lexical is NOTHING else [self._lexical]
        clauses += [documents(others)] if len(others) else []
        within_mask = [any_of(clauses), *self._conditions, *conditions]
        return await self._searcher.ask({"query": {"bool": {"filter": within_mask}}, **body})

    async def _count(self, aggregations: Mapping[str, Clause]) -> dict[str, list[tuple[int, int]]]:
        response = await self._ask_matches([], {"size": 0, "aggs": dict(aggregations)})
        return {
            field: [(int(each["key"]), each["doc_count"]) for each in counted["buckets"]]
            for field, counted in response.aggregations.items()
        }


class OrderedMatches:
    """The matches of a plan in an order of the snapshot.

    Few matches are all fetched and ordered here. Of many, the first candidates in the order are
    asked for, of which a good part matches.

    first: returns the first k documents of a mask in the order, fewer only if there are no more
    mask: the candidates
    total: the number of matches
    """

    def __init__(
        self, plan: ClusterPlan, first: Callable[[Mask, int], Integers], mask: Mask, total: int
    ) -> None:
        self._plan = plan
        self._first = first
        self._mask = mask
        self._candidates = int(np.count_nonzero(mask))
        self._total = total
        self._matches, self._done = NO_ORDINALS, 0
        self._is_known = total > MAX_HITS

    async def page(self, limit: int, offset: int) -> Integers:
        """Return one page of the matches."""
        if offset >= self._total:
            return NO_ORDINALS
        return (await self.first(offset + limit))[offset:]

    async def first(self, k: int) -> Integers:
        """Return the first k matches."""
        if not self._is_known:
            matches = np.zeros(len(self._mask), np.bool_)
            matches[await self._plan.all(self._total)] = True
            self._matches, self._is_known = self._first(matches, self._total), True
        while len(self._matches) < min(k, self._total) and self._done < self._candidates:
            missing = k - len(self._matches)
            likely = 2 * missing * self._candidates // max(self._total, 1)
            chunk = min(max(likely, LEAST_CHUNK), LARGEST_CHUNK)
            candidates = self._first(self._mask, self._done + chunk)[self._done :]
            found = await self._plan.matching(candidates)
            self._matches = np.concatenate((self._matches, found))
            self._done += chunk
        return self._matches[:k]


def _keys_in(response: SearchResponse) -> Integers:
    """Return the sort keys of hits that are sorted by score and ordinal."""
    pairs = np.array([hit.sort for hit in response.hits.hits], np.int64).reshape(-1, 2)
    keys: Integers = pairs[:, 1] - (pairs[:, 0] << SUM_BITS)
    return keys
