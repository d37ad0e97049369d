"""Ranking the matches of a query: exact names, then words and meaning, then words alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from service.schema.responses import Explanation, WordScore
from service.search.config import SearchConfig
from service.search.groups import (
    Groups,
    ListedPage,
    Ranked,
    Units,
    is_among_first,
    list_groups,
    units_of,
)
from service.search.postings import Bits, Integers, Mask
from service.search.query import ParsedQuery
from service.search.searcher import Scorer
from service.search.semantic.vectors import VectorIndex
from service.search.top_k import (
    NO_ORDINALS,
    ORDINAL_MASK,
    SUM_BITS,
    TopDocs,
    count_bits,
    pack,
    unpack,
)

EXACT_NAMES = 3
"""Services whose name is the query that come first: anybody may name a service so."""
DEEP_OFFSET = 1000
"""Offsets from here on are compared with the number of matches before so many are ranked."""


class _Exact(NamedTuple):
    """The best documents of units whose name is the query; `unmatched` have no word of it."""

    documents: Integers
    unmatched: int


class _Near(NamedTuple):
    """The sort keys by words of the nearest documents, of which the last `similar` are no match."""

    keys: Integers
    similar: int


class Ranking:
    """The ranking of one query; keeps the answers of the postings and of the vectors.

    mask: the units that may match, None for all
    groups: of the documents, None where each document is a group or where documents are ranked
    by_group: whether services are ranked, and match by their names, too
    is_filled: whether few matches are filled up with similar rows, the nearest documents
    """

    def __init__(
        self,
        query: ParsedQuery,
        scorer: Scorer,
        config: SearchConfig,
        vectors: VectorIndex | None,
        mask: Mask | None,
        groups: Groups | None,
        *,
        by_group: bool,
        is_filled: bool,
    ) -> None:
        names = query.names if by_group else NO_ORDINALS
        self._by_group = by_group
        self._names = names if mask is None else names[mask.take(names)]
        self._query, self._scorer, self._config = query, scorer, config
        self._mask, self._groups = mask, groups
        self._vectors = None if query.vector is None else vectors
        self._is_filled = is_filled
        self._top: TopDocs | None = None
        self._exact = None if len(self._names) else _Exact(NO_ORDINALS, 0)
        self._near: _Near | None = None
        self._reranked = NO_ORDINALS

    def page(self, limit: int, offset: int = 0) -> Ranked:
        """Return one page of the best documents of all units, and the exact counts of units."""
        total, documents, similar = self._first(self._stop(limit, offset))
        return Ranked(total, documents[offset : offset + limit], similar)

    def listing(self, groups: Groups, per_group: int, limit: int, offset: int) -> ListedPage:
        """Return one page of the best documents, of each group at most `per_group`."""
        stop = self._stop(limit, offset)
        page = list_groups(self._first, groups, per_group, stop)[offset : offset + limit]
        total, documents, similar = self._first(0)
        if len(documents) >= total:
            own = groups.of_document.take(documents)
            listed = int(np.count_nonzero(is_among_first(own, per_group)))
        else:
            listed = total - groups.count_excess(self.matches(), per_group)
        return ListedPage(total, listed, page, similar)

    def matches(self) -> Bits:
        """Return the bits of the units that match, read-only: similar rows are none."""
        exact = self._exact or self._find_exact()  # ranks, which overwrites the buffer of bits
        bits = self._scorer.matches()
        if exact.unmatched:
            mask = unpack(bits)
            mask[self._units_of(exact.documents)] = True
            bits = pack(mask, len(bits))
        return bits

    def best_documents(self, units: Sequence[int]) -> Integers:
        """Return the best document of each of some units."""
        if self._groups is None or not units:
            return np.array(units, np.int64)
        owned = [self._groups.documents_of(unit) for unit in units]
        sums = self._scorer.impacts_at(np.concatenate(owned)).sum(axis=0)
        parts = np.split(sums, np.cumsum([len(own) for own in owned])[:-1])
        return np.array([own[part.argmax()] for own, part in zip(owned, parts, strict=True)])

    def explain(self, documents: Integers, text_of: Callable[[int], str]) -> list[Explanation]:
        """Return the parts of the scores of some results; `text_of` returns the text of a term."""
        unit = self._config.impact_scale
        words = [
            (each.word, text_of(term)) for each in self._query.expansions for term, _ in each.terms
        ]
        impacts = self._scorer.impacts_at(documents)
        sums = impacts.sum(axis=0)
        similarities, added = np.zeros(len(documents)), np.zeros_like(sums)
        if self._vectors is not None:
            self._first(0)
            similarities, added = self._similarities(self._vectors, documents)
            added = np.where(np.isin(documents, self._reranked), added, 0)
        penalties = self._penalties_of(documents)
        is_exact = np.isin(documents, self._find_exact().documents)
        parts = (impacts.T, sums, similarities, added, penalties, is_exact)
        columns = [part.tolist() for part in parts]
        return [
            Explanation(
                score=(lexical + similar - penalty) / unit,
                words=[
                    WordScore(word, text, impact / unit)
                    for (word, text), impact in zip(words, own, strict=True)
                    if impact
                ],
                similarity=None if self._vectors is None else round(similarity, 4),
                similarity_score=similar / unit,
                size_penalty=penalty / unit,
                is_exact_name=exact,
            )
            for own, lexical, similarity, similar, penalty, exact in zip(*columns, strict=True)
        ]

    def _stop(self, limit: int, offset: int) -> int:
        """Return how many documents are ranked for a page, none for one far past the end."""
        is_past = offset >= DEEP_OFFSET and offset >= count_bits(self.matches())
        return 0 if is_past else offset + limit

    def _first(self, k: int) -> Ranked:
        """Return the first k documents, or more."""
        config, similar = self._config, 0
        if len(self._names) or self._vectors is not None:
            k = max(k + EXACT_NAMES + config.filled_up_to, config.reranked)
        total, keys = self._best(k)
        exact = self._exact or self._find_exact()
        total += exact.unmatched
        if self._vectors is not None:
            near = self._near = self._near or self._find_near(self._vectors, total)
            keys, similar = self._rerank(self._vectors, keys, near.keys), near.similar
        documents = keys & ORDINAL_MASK
        if len(exact.documents):
            is_exact = _is_any(self._units_of(documents), self._units_of(exact.documents))
            documents = np.concatenate((exact.documents, documents[~is_exact]))
        return Ranked(total + similar, documents, similar)

    def _find_near(self, vectors: VectorIndex, total: int) -> _Near:
        """Return the nearest documents of units that match, and similar ones where few match.

        In a large catalogue they are looked for only where few match.
        """
        config, vector = self._config, self._query.vector
        missing = config.filled_up_to - total if self._is_filled else 0
        if vector is None or (missing <= 0 and not vectors.is_small):
            return _Near(NO_ORDINALS, 0)
        mask = self._mask
        if mask is not None and self._groups is not None:
            mask = mask.take(self._groups.of_document)
        per_group = 1 if self._by_group else config.filled_per_group
        nearest = vectors.nearest(
            vector, config.filled_up_to, per_group, config.least_similarity, mask
        )
        units, bits = self._units_of(nearest), self.matches()
        is_match = (bits[units >> 6] >> (units & 63).astype(np.uint64) & np.uint64(1)).astype(bool)
        similar = nearest[~is_match][: max(missing, 0)]
        nearest = np.concatenate((nearest[is_match], similar))
        sums = self._scorer.impacts_at(nearest).sum(axis=0)
        return _Near(nearest - (sums - self._penalties_of(nearest) << SUM_BITS), len(similar))

    def _rerank(self, vectors: VectorIndex, keys: Integers, near: Integers) -> Integers:
        """Return sort keys in hybrid order: the best matches by words, and the nearest documents.

        Further matches by words follow in their order.
        """
        best, rest = (
            np.concatenate((keys[: self._config.reranked], near)),
            keys[self._config.reranked :],
        )
        _, added = self._similarities(vectors, best & ORDINAL_MASK)
        best -= added << SUM_BITS
        best.sort()
        if len(near):
            _, first = np.unique(self._units_of(best & ORDINAL_MASK), return_index=True)
            first.sort()
            best = best[first]
            rest = rest[
                ~_is_any(self._units_of(rest & ORDINAL_MASK), self._units_of(near & ORDINAL_MASK))
            ]
        self._reranked = best & ORDINAL_MASK
        return np.concatenate((best, rest)) if len(rest) else best

    def _similarities(
        self, vectors: VectorIndex, documents: Integers
    ) -> tuple[npt.NDArray[np.float64], Integers]:
        """Return the cosine of each document, and what it adds to the sum of its impacts."""
        if self._query.vector is None:
            return np.zeros(len(documents)), np.zeros(len(documents), np.int64)
        cosines = vectors.similarities(self._query.vector, documents)
        added = np.rint(cosines * np.float32(self._query.similarity_weight)).astype(np.int64)
        return cosines.astype(np.float64), added

    def _best(self, k: int) -> TopDocs:
        """Return the best documents of at least the k best units by words."""
        if self._top is None or len(self._top.keys) < min(k, self._top.total):
            self._top = self._scorer.top(k)
        return self._top

    def _find_exact(self) -> _Exact:
        """Return the documents of units whose name is the query, in the order of their sums.

        Returns at most EXACT_NAMES: first the best by words, then the best known.
        """
        if self._exact is None:
            documents, unmatched = NO_ORDINALS, 0
            if len(self._names):
                top = self._best(self._config.reranked)
                best = top.ordinals[: self._config.reranked]
                units = self._units_of(best)
                places = self._names.searchsorted(units) % len(self._names)
                documents = best[self._names.take(places) == units][:EXACT_NAMES]
                others = self._names[: len(best) + EXACT_NAMES]
                others = others[~_is_any(others, units)][: EXACT_NAMES - len(documents)]
                added = self.best_documents(others.tolist())
                sums = self._scorer.impacts_at(added).sum(axis=0)
                documents = np.concatenate((documents, added))
                unmatched = int(np.count_nonzero(sums == 0))
            self._exact = _Exact(documents, unmatched)
        return self._exact

    def _penalties_of(self, documents: Integers) -> Integers:
        if self._groups is None:
            return np.zeros(len(documents), np.int64)
        return self._groups.penalties.take(units_of(documents, self._groups))

    def _units_of(self, documents: Integers) -> Units:
        return units_of(documents, self._groups)


def _is_any(units: Units, few: Units) -> Mask:
    """Return which units are any of a few others; for these, `np.isin` takes longer."""
    is_any: Mask = (units[:, np.newaxis] == few).any(axis=1)
    return is_any
