"""A query to the services that match it, best first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from service.records import Explanation, WordScore
from service.search.collapsing import Groups
from service.search.postings import (
    ImpactList,
    Integers,
    Mask,
    PostingLists,
    block_count,
)
from service.search.query import QueryParser
from service.search.query_expansion import Expansion
from service.search.semantic.hybrid import Meaning
from service.search.semantic.vectors import Floats
from service.search.top_k import (
    NO_ORDINALS,
    ORDINAL_MASK,
    Accumulator,
    TopK,
    impacts_at,
    intersect,
    merge,
    pack,
    sums_at,
    top_k,
    top_keys,
)


class Searcher:
    """The compiled index of a snapshot; safe to use from several threads.

    `parser` has the lexicon of the same folder.
    """

    def __init__(self, folder: Path, parser: QueryParser) -> None:
        self._parser = parser
        self._postings = PostingLists(folder)
        self._accumulator = Accumulator(parser.header.documents)

    def plan(self, query: str, mask: Mask | None = None, *, match_all: bool = False) -> Plan:
        """Parse a plain-text query, to be ranked or matched.

        `mask` says which services may match. `match_all` requires every word of the query instead
        of any. Services whose name is the query match in any case, and rank first.
        """
        parsed = self._parser.parse(query)
        exact, known = parsed.exact, parsed.known
        lists = [self._postings.of_word(each.terms) for each in known]
        common = None
        if match_all:
            required = [each for word, each in zip(known, lists, strict=True) if word.required]
            common = intersect(required) if parsed.is_satisfiable else NO_ORDINALS
        if mask is not None:
            exact = exact[mask[exact]]
            common = None if common is None else common[mask[common]]
        return Plan(self._accumulator, known, lists, common, exact, mask, parsed.meaning)

    def explain(self, plan: Plan, ordinals: Sequence[int] | Integers) -> list[Explanation]:
        """Return the parts of the scores of some results of a plan."""
        results, unit = np.asarray(ordinals, np.int64), self._parser.header.config.impact_scale
        words: list[list[WordScore]] = [[] for _ in ordinals]
        for expansion in plan.expansions:
            for term, weight in expansion.terms:
                impacts = impacts_at(self._postings.of_word([(term, weight)]), results).tolist()
                for own, impact in zip(words, impacts, strict=True):
                    if impact:
                        text = self._parser.term(term)
                        own.append(WordScore(expansion.word, text, impact / unit))
        similarities, added = plan.similarities(results)
        return [
            Explanation(
                score=(lexical + similar) / unit,
                words=own,
                similarity=None if plan.meaning is None else round(similarity, 4),
                similarity_score=similar / unit,
                is_exact_name=ordinal in plan.exact,
            )
            for ordinal, own, lexical, similarity, similar in zip(
                ordinals,
                words,
                sums_at(plan.lists, results).tolist(),
                similarities.tolist(),
                added.tolist(),
                strict=True,
            )
        ]


class Collapsed(NamedTuple):
    """The exact counts of matches and of those that are listed, and a page of the latter."""

    total: int
    listed: int
    ordinals: Integers


class Plan(NamedTuple):
    """A query, looked up.

    `expansions` are the words that have terms, `lists` the impact list of each, `common` the
    services that have all required words, or None where any word is enough, and `exact` the
    services whose name is the query. `meaning` is None for a query that is ranked by its words
    alone.
    """

    accumulator: Accumulator
    expansions: list[Expansion]
    lists: list[ImpactList]
    common: Integers | None
    exact: Integers
    mask: Mask | None
    meaning: Meaning | None

    def rank(self, limit: int, offset: int = 0) -> TopK:
        """Return one page of the ranking, and the exact count of all matches."""
        common, exact, k = self.common, self.exact, offset + limit + len(self.exact)
        k = k if self.meaning is None else max(k, self.meaning.least_rank)
        if common is None:
            total, keys = self.accumulator.rank(self.lists, k, self.mask)
        else:
            total, keys = len(common), top_keys(common, sums_at(self.lists, common), k)
        if len(exact):
            exact_sums = sums_at(self.lists, exact)
            counted = exact_sums > 0 if common is None else np.isin(exact, common)
            total += len(exact) - int(np.count_nonzero(counted))
            exact = top_k(exact, exact_sums, len(exact))
        if self.meaning is not None:
            nearest = NO_ORDINALS
            if total < self.meaning.config.filled_up_to:
                nearest = self._nearest(total, np.concatenate((keys & ORDINAL_MASK, exact)))
            keys = self.meaning.rerank(keys, nearest)
            total += len(nearest)
        ordinals = keys & ORDINAL_MASK
        if len(exact):
            ordinals = np.concatenate((exact, ordinals[~np.isin(ordinals, exact)]))
        return TopK(total, ordinals[offset : offset + limit])

    def matches(self) -> Mask:
        """Return which services match, as `rank` counts them."""
        documents = self.accumulator.documents
        if self.common is not None:
            matches = np.zeros(documents, np.bool_)
            matches[self.common] = True
        else:
            bits = self.accumulator.matches(self.lists, self.mask).view(np.uint8)
            matches = np.unpackbits(bits, count=documents, bitorder="little").view(np.bool_)
        matches[self.exact] = True
        if self.meaning is not None:
            total = int(np.count_nonzero(matches))
            if total < self.meaning.config.filled_up_to:
                matches[self._nearest(total, matches.nonzero()[0])] = True
        return matches

    def collapse(self, groups: Groups, per_group: int, limit: int, offset: int = 0) -> Collapsed:
        """Return one page of the ranking with the best `per_group` documents of each group.

        For plans without exact names in which any word is enough.
        """
        if all(each.dense is None for each in self.lists):
            merged = merge(self.lists, self.mask)
            ordinals, sums = merged.ordinals, merged.sums
            if len(merged.zeros):
                ordinals, sums = ordinals[sums > 0], sums[sums > 0]
            nearest = self._nearest(len(ordinals), ordinals)
            rank = partial(self._first_of, ordinals, sums, nearest)
            total, page = groups.page(rank, per_group, limit, offset)
            ordinals = np.sort(np.concatenate((ordinals, nearest)))
            return Collapsed(total, groups.count_listed(ordinals, per_group), page)
        total, page = groups.page(self.rank, per_group, limit, offset)
        if self.meaning is not None and total <= self.meaning.config.filled_up_to:
            bits = pack(self.matches(), block_count(self.accumulator.documents))
        else:
            bits = self.accumulator.matches(self.lists, self.mask)
        return Collapsed(total, total - groups.count_excess(bits, per_group), page)

    def similarities(self, ordinals: Integers) -> tuple[Floats, Integers]:
        """Return the cosines of some results, and what these add to their sums."""
        if self.meaning is None:
            return np.zeros(len(ordinals), np.float32), np.zeros(len(ordinals), np.int64)
        if self.common is None:
            best = self.accumulator.rank(self.lists, self.meaning.depth, self.mask).ordinals
        else:
            best = top_k(self.common, sums_at(self.lists, self.common), self.meaning.depth)
        is_added = np.isin(ordinals, best) | (sums_at(self.lists, ordinals) == 0)
        similarities = self.meaning.semantics.vectors.similarities(self.meaning.query, ordinals)
        return similarities, np.where(is_added, self.meaning.impacts(ordinals), 0)

    def _nearest(self, total: int, matches: Integers) -> Integers:
        """Return the documents that are added to these matches, if they are few."""
        if self.meaning is None or self.common is not None:
            return NO_ORDINALS
        return self.meaning.nearest(total, matches, self.mask)

    def _first_of(self, ordinals: Integers, sums: Integers, nearest: Integers, k: int) -> TopK:
        """Return the first k of all matches: these ordinals, ascending, and the nearest others."""
        total = len(ordinals) + len(nearest)
        if self.meaning is None:
            return TopK(total, top_k(ordinals, sums, min(k, total)))
        keys = top_keys(ordinals, sums, max(k, self.meaning.depth))
        return TopK(total, self.meaning.rerank(keys, nearest)[:k] & ORDINAL_MASK)
