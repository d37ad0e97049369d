"""A query to the services that match it, best first."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, cast

import msgspec
import numpy as np
import numpy.typing as npt

from service.errors import REBUILD, SnapshotUnsupported
from service.search.analysis import name_key, query_words
from service.search.config import SEARCH_CONFIG
from service.search.intersection import common_ordinals, sums_at
from service.search.postings import PostingLists, Summary
from service.search.query_expansion import Expansion, QueryExpander, name_hash, open_lexicon
from service.search.top_k import (
    IMPACT_BITS,
    NONE,
    Accumulator,
    ImpactList,
    Integers,
    Keep,
    Ranked,
    best,
)
from service.storage.hash_table import HashTable, open_hash_table
from service.storage.memory_map import items_of, open_array


class Hits(NamedTuple):
    """How many services match in all, and the ordinals of those on the page, best first."""

    total: int
    ordinals: Integers


class Searcher:
    """The searchable side of a snapshot. Safe to use from several threads at once."""

    def __init__(
        self,
        summary: Summary,
        lists: PostingLists,
        lexicon: QueryExpander,
        names: HashTable,
        name_hashes: npt.NDArray[np.uint64],
    ):
        self.summary = summary
        self._lists = lists
        self._lexicon = lexicon
        self._names = names
        self._hash_of_name = items_of(name_hashes)
        self._accumulator = Accumulator(summary.documents)

    def search(
        self, query: str, limit: int, offset: int = 0, keep: Keep = None, match_all: bool = False
    ) -> Hits:
        """One page of the ranking, and the exact total.

        `match_all` asks for every word of the query instead of any. Services whose name is the
        query come first.
        """
        plan = self._plan(query, keep)
        end = offset + limit + len(plan.named)
        if match_all:
            common = _kept(self._common(plan), keep)
            ranked = Ranked(len(common), best(common, sums_at(plan.lists, common), end))
        else:
            ranked = self._accumulator.rank(plan.lists, end, keep)
        if len(plan.named):
            ranked = _named_first(ranked, plan, self._common(plan) if match_all else None)
        return Hits(ranked.total, ranked.ordinals[offset : offset + limit])

    def matches(
        self, query: str, keep: Keep = None, match_all: bool = False
    ) -> npt.NDArray[np.bool_]:
        """Whether each service matches: what the total of `search` counts."""
        plan = self._plan(query, keep)
        matching = np.zeros(self.summary.documents, dtype=np.bool_)
        if match_all:
            matching[self._common(plan)] = True
        else:
            for each in plan.lists:
                matching[each.postings >> IMPACT_BITS] = True
        matching[plan.named] = True
        return matching if keep is None else matching & keep

    def _plan(self, query: str, keep: Keep) -> _Plan:
        words = query_words(query)
        if not words:
            return _NOTHING
        meanings = self._lexicon.meanings_of(words)
        lists = [self._lists.of_word(meaning.terms) for meaning in meanings if meaning.terms]
        return _Plan(meanings, lists, _kept(self._named(query), keep))

    def _common(self, plan: _Plan) -> Integers:
        """The ordinals that have every word of a query."""
        required = [meaning.terms for meaning in plan.meanings if meaning.required]
        if not all(required):
            return NONE
        return common_ordinals([self._lists.of_word(terms) for terms in required])

    def _named(self, query: str) -> Integers:
        hashed = name_hash(name_key(query))
        named = [
            ordinal
            for ordinal in self._names.of((hashed,))
            if self._hash_of_name[ordinal] == hashed
        ]
        return np.array(named, dtype=np.int64) if named else NONE


class _Plan(NamedTuple):
    """What the words of a query stand for, the lists of those that do, and exact names."""

    meanings: list[Expansion]
    lists: list[ImpactList]
    named: Integers


_NOTHING = _Plan([], [], NONE)


def open_searcher(folder: Path) -> Searcher:
    """Map what `compile_postings` wrote; raises SnapshotUnsupported for that of another version."""
    summary = msgspec.json.decode((folder / "postings.json").read_bytes(), type=Summary)
    written = (summary.engine.layout, summary.engine.analysis)
    if written != (SEARCH_CONFIG.layout, SEARCH_CONFIG.analysis):
        raise SnapshotUnsupported(
            f"{folder} was compiled with layout and analysis {written}, this version reads "
            f"{(SEARCH_CONFIG.layout, SEARCH_CONFIG.analysis)}; {REBUILD}"
        )
    lists = PostingLists(folder)
    return Searcher(
        summary,
        lists,
        open_lexicon(folder, lists.document_frequencies(), summary.documents, summary.engine),
        open_hash_table(folder / "names"),
        cast("npt.NDArray[np.uint64]", open_array(folder / "name_hashes.npy")),
    )


def _kept(ordinals: Integers, keep: Keep) -> Integers:
    return ordinals if keep is None else ordinals[keep[ordinals]]


def _named_first(ranked: Ranked, plan: _Plan, common: Integers | None) -> Ranked:
    """Exact names moved to the front, the best first; those that nothing else found are counted."""
    sums = sums_at(plan.lists, plan.named)
    found = sums > 0 if common is None else np.isin(plan.named, common)
    others = ranked.ordinals[~np.isin(ranked.ordinals, plan.named)]
    first = best(plan.named, sums, len(plan.named))
    return Ranked(ranked.total + int(np.count_nonzero(~found)), np.concatenate((first, others)))
