"""A query to the services that match it, best first."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from service.errors import REBUILD, SnapshotUnsupported
from service.search.analysis import name_key, query_words
from service.search.collapsing import Groups
from service.search.config import SEARCH_CONFIG
from service.search.postings import Header, ImpactList, Integers, Mask, PostingLists
from service.search.query_expansion import Expansion, QueryExpander
from service.search.top_k import NO_ORDINALS, Accumulator, TopK, intersect, merge, sums_at, top_k
from service.storage.hash_table import HashTable, text_hash
from service.storage.memory_map import items_of, open_array


class Searcher:
    """The compiled index of a snapshot; safe to use from several threads.

    Raises SnapshotUnsupported for an index that another version analysed.
    """

    def __init__(self, folder: Path) -> None:
        self.header = msgspec.json.decode((folder / "header.json").read_bytes(), type=Header)
        analysis = self.header.config.analysis
        if analysis != SEARCH_CONFIG.analysis:
            raise SnapshotUnsupported(
                f"{folder} has terms of analysis {analysis}, this version searches those of "
                f"analysis {SEARCH_CONFIG.analysis}; {REBUILD}"
            )
        documents = self.header.documents
        self._postings = PostingLists(folder)
        self._expander = QueryExpander(
            folder, self._postings.document_frequencies, documents, self.header.config
        )
        self._names = HashTable(folder / "names")
        self._name_hashes = items_of(open_array(folder / "name_hashes.npy"))
        self._accumulator = Accumulator(documents)

    def plan(self, query: str, mask: Mask | None = None, *, match_all: bool = False) -> Plan:
        """Parse a plain-text query, to be ranked or matched.

        `mask` says which services may match. `match_all` requires every word of the query instead
        of any. Services whose name is the query match in any case, and rank first.
        """
        words = query_words(query)
        expansions = self._expander.expand(words)
        lists = [self._postings.of_word(each.terms) for each in expansions if each.terms]
        exact = self._named(query) if words else NO_ORDINALS
        common = _common(expansions, lists) if match_all else None
        if mask is not None:
            exact = exact[mask[exact]]
            common = None if common is None else common[mask[common]]
        return Plan(self._accumulator, lists, common, exact, mask)

    def terms(self, query: str) -> list[frozenset[str]]:
        """Return the terms that each required word of a query stands for, none if unknown."""
        return self._expander.terms(query_words(query))

    def _named(self, query: str) -> Integers:
        name_hash = text_hash(name_key(query))
        candidates = self._names.candidates((name_hash,))
        exact = [ordinal for ordinal in candidates if self._name_hashes[ordinal] == name_hash]
        return np.array(exact, dtype=np.int64) if exact else NO_ORDINALS


class Collapsed(NamedTuple):
    """The exact counts of matches and of those that are listed, and a page of the latter."""

    total: int
    listed: int
    ordinals: Integers


class Plan(NamedTuple):
    """A query, looked up.

    `lists` has an impact list for each word that has terms, `common` the services that have all
    required words, or None where any word is enough, and `exact` the services whose name is the
    query.
    """

    accumulator: Accumulator
    lists: list[ImpactList]
    common: Integers | None
    exact: Integers
    mask: Mask | None

    def rank(self, limit: int, offset: int = 0) -> TopK:
        """Return one page of the ranking, and the exact count of all matches."""
        common, k = self.common, offset + limit + len(self.exact)
        if common is None:
            ranked = self.accumulator.rank(self.lists, k, self.mask)
        else:
            ranked = TopK(len(common), top_k(common, sums_at(self.lists, common), k))
        if len(self.exact):
            ranked = self._with_exact_names_first(ranked)
        return TopK(ranked.total, ranked.ordinals[offset : offset + limit])

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
            total = len(ordinals)
            rank = partial(_first_of, ordinals, sums)
            page = groups.page(rank, per_group, limit, offset).ordinals
            return Collapsed(total, groups.count_listed(ordinals, per_group), page)
        total, page = groups.page(self.rank, per_group, limit, offset)
        bits = self.accumulator.matches(self.lists, self.mask)
        return Collapsed(total, total - groups.count_excess(bits, per_group), page)

    def _with_exact_names_first(self, ranked: TopK) -> TopK:
        exact = self.exact
        sums = sums_at(self.lists, exact)
        counted = sums > 0 if self.common is None else np.isin(exact, self.common)
        others = ranked.ordinals[~np.isin(ranked.ordinals, exact)]
        ordinals = np.concatenate((top_k(exact, sums, len(exact)), others))
        return TopK(ranked.total + int(np.count_nonzero(~counted)), ordinals)


def _common(expansions: list[Expansion], lists: list[ImpactList]) -> Integers:
    """Return the services that have every required word."""
    if any(each.required and not each.terms for each in expansions):
        return NO_ORDINALS
    known = (each for each in expansions if each.terms)
    return intersect([each for word, each in zip(known, lists, strict=True) if word.required])


def _first_of(ordinals: Integers, sums: Integers, k: int) -> TopK:
    return TopK(len(ordinals), top_k(ordinals, sums, min(k, len(ordinals))))
