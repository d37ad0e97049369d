"""Ranking the matches of a query: exact names, then words and meaning, then words alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from service.arrays.container import Arrays
from service.schema.responses import Explanation, WordScore
from service.search.groups import (
    Groups,
    ListedPage,
    Ranked,
    Units,
    is_among_first,
    list_groups,
    units_of,
)
from service.search.postings import Bits, Header, Integers, Mask, PostingLists
from service.search.query import ParsedQuery
from service.search.semantic.vectors import VectorIndex
from service.search.top_k import (
    NO_ORDINALS,
    ORDINAL_MASK,
    SUM_BITS,
    Scorer,
    TopDocs,
    count_bits,
    pack,
    sums_at,
    unpack,
)

EXACT_NAMES = 3
"""Services whose name is the query that come first: anybody may name a service so."""
DEEP_OFFSET = 1000
"""Offsets from here on are compared with the number of matches before so many are ranked."""


class Index:
    """The postings and the vectors of a snapshot.

    groups: the documents of each service, None where each service has one
    vectors: of the documents, None for ranking by words alone
    """

    def __init__(
        self, arrays: Arrays, header: Header, groups: Groups | None, vectors: VectorIndex | None
    ) -> None:
        self.postings = PostingLists(arrays)
        self.documents, self.config = header.documents, header.config
        self.groups, self.vectors = groups, vectors

    def score(self, query: ParsedQuery, document: int) -> float:
        """Return the score of a document alone: BM25F + similarity_weight · cosine."""
        documents, cosine = np.array([document]), 0.0
        lists = self.postings.of_terms([term for each in query.expansions for term in each.terms])
        if query.vector is not None and self.vectors is not None:
            cosine = self.vectors.similarities(query.vector, documents).item()
        lexical = sums_at(lists, documents).item() / self.config.impact_scale
        return lexical + self.config.similarity_weight * cosine


class Ranking:
    """The ranking of one query: of services, with `by_group`, or else of documents.

    mask: the units that may match, None for all
    match_all: whether a document must have every required word
    is_filled: whether few matches are filled up with similar rows, the nearest documents
    """

    def __init__(
        self,
        index: Index,
        query: ParsedQuery,
        mask: Mask | None = None,
        *,
        by_group: bool,
        match_all: bool = False,
        is_filled: bool = False,
    ) -> None:
        self._index, self._query, self._mask, self._config = index, query, mask, index.config
        self._by_group, self._is_filled = by_group, is_filled
        self._groups = groups = index.groups if by_group else None
        self._vectors = None if query.vector is None else index.vectors
        words, of_terms = None, index.postings.of_terms
        lists = of_terms([term for each in query.expansions for term in each.terms])
        if match_all:
            required = [each.terms for each in query.expansions if each.required]
            words = [of_terms(terms) for terms in required] if query.is_satisfiable else []
        units = index.documents if groups is None else groups.count
        self._matches = Scorer(lists, units, groups, mask, words)
        self.impacts_at = self._matches.impacts_at
        names = query.names if by_group else NO_ORDINALS
        self._names = names if mask is None else names[mask.take(names)]
        self._top: TopDocs | None = None
        self._exact = NO_ORDINALS
        self._unmatched: int | None = None if len(self._names) else 0
        self._near: tuple[Integers, int] | None = None
        self._keys, self._reranked = NO_ORDINALS, 0
        self._withheld = 0.0  # of the similarity of the first row, where the query is specific

    def page(self, limit: int, offset: int = 0) -> Ranked:
        """Return one page of the best documents of all units, and the exact counts of units."""
        total, documents, similar = self._first(self._stop(limit, offset))
        return Ranked(total, documents[offset : offset + limit], similar)

    def listing(self, groups: Groups, per_group: int, limit: int, offset: int) -> ListedPage:
        """Return one page of the best documents, of each group at most `per_group`."""
        page = list_groups(self._first, groups, per_group, self._stop(limit, offset))[offset:]
        total, documents, similar = self._first(0)
        if len(documents) >= total:
            own = groups.of_document.take(documents)
            listed = int(np.count_nonzero(is_among_first(own, per_group)))
        else:
            listed = total - groups.count_excess(self.matches(), per_group)
        return ListedPage(total, listed, page, similar)

    def score(self) -> float | None:
        """Return `Index.score` of the first row of the page before, None without a row."""
        if len(self._exact):
            return self._index.score(self._query, self._exact.item(0))
        if not len(self._keys):
            return None
        # The sort key has the score, less the penalty of the service.
        key, score = self._keys.item(0), self._withheld
        if self._groups is not None:
            score += self._groups.penalties.item(self._groups.of_document.item(key & 0xFFFFFFFF))
        return (score - (key >> 32)) / self._config.impact_scale

    def similar_rows(self, documents: Integers) -> list[int]:
        """Return the positions of similar rows among documents of the ranking after a page."""
        near, count = self._near or (NO_ORDINALS, 0)
        similar = {*(near[len(near) - count :] & ORDINAL_MASK).tolist()}
        return [row for row, each in enumerate(documents.tolist()) if each in similar]

    def matches(self) -> Bits:
        """Return the bits of the units that match, read-only: similar rows are none."""
        bits, exact = self._matches.bits(), self.find_exact()
        if self._unmatched:
            mask = unpack(bits)
            mask[self._units_of(exact)] = True
            bits = pack(mask)
        return bits

    def best_documents(self, units: Sequence[int]) -> Integers:
        """Return the best document of each of some units."""
        if self._groups is None or not units:
            return np.array(units, np.int64)
        owned = [self._groups.documents_of(unit) for unit in units]
        sums = self.impacts_at(np.concatenate(owned)).sum(axis=0)
        parts = np.split(sums, np.cumsum([len(own) for own in owned])[:-1])
        return np.array([own[part.argmax()] for own, part in zip(owned, parts, strict=True)])

    def explain(self, documents: Integers, text_of: Callable[[int], str]) -> list[Explanation]:
        """Return the parts of the scores of some results; `text_of` returns the text of a term."""
        unit = self._config.impact_scale
        words = [
            (each.word, text_of(term)) for each in self._query.expansions for term, _ in each.terms
        ]
        impacts = self.impacts_at(documents)
        sums = impacts.sum(axis=0)
        similarities, added = np.zeros(len(documents), np.float32), np.zeros_like(sums)
        if self._vectors is not None:
            self._first(0)
            similarities, added = self._similarities(self._vectors, documents)
            reranked = self._keys[: self._reranked] & ORDINAL_MASK
            added = np.where(np.isin(documents, reranked), added, 0)
        penalties = self._penalties_of(documents)
        is_exact = np.isin(documents, self.find_exact())
        parts = (impacts.T, sums, similarities, added, penalties, is_exact)
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
            for own, lexical, similarity, similar, penalty, exact in zip(
                *(part.tolist() for part in parts), strict=True
            )
        ]

    def find_exact(self) -> Integers:
        """Return the documents of units whose name is the query, in the order of their sums.

        Returns at most EXACT_NAMES: first the best by words, then the best known. Sets the count of
        those that have no word of the query.
        """
        if self._unmatched is None:
            best = self._best(self._config.reranked).ordinals[: self._config.reranked]
            units = self._units_of(best)
            exact = best[np.isin(units, self._names)][:EXACT_NAMES]
            others = self._names[: len(best) + EXACT_NAMES]
            others = others[~np.isin(others, units)][: EXACT_NAMES - len(exact)]
            added = self.best_documents(others.tolist())
            sums = self.impacts_at(added).sum(axis=0)
            self._exact = np.concatenate((exact, added))
            self._unmatched = int(np.count_nonzero(sums == 0))
        return self._exact

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
        exact = self.find_exact()
        total += self._unmatched or 0
        if self._vectors is not None:
            if self._near is None:
                self._near = self._find_near(self._vectors, total)
            near, similar = self._near
            keys = self._rerank(self._vectors, keys, near)
        self._keys = keys
        documents = keys & ORDINAL_MASK
        if len(exact):
            is_exact = self._are_of(documents, exact)
            documents = np.concatenate((exact, documents[~is_exact]))
        return Ranked(total + similar, documents, similar)

    def _best(self, k: int) -> TopDocs:
        """Return the best documents of at least the k best units by words."""
        if self._top is None or len(self._top.keys) < min(k, self._top.total):
            self._top = self._matches.top(k)
        return self._top

    def _find_near(self, vectors: VectorIndex, total: int) -> tuple[Integers, int]:
        """Return the sort keys by words of the nearest documents, of which the last are similar.

        The others are of units that match; the second value is the count of similar ones, where few
        match. In a large catalogue the nearest are looked for only where few match.
        """
        config, vector = self._config, self._query.vector
        missing = max(config.filled_up_to - total, 0) if self._is_filled else 0
        if vector is None or not (missing or vectors.is_small):
            return NO_ORDINALS, 0
        mask = self._mask
        if mask is not None and self._groups is not None:
            mask = mask.take(self._groups.of_document)
        per_group = 1 if self._by_group else config.filled_up_to
        if missing and not self._by_group:
            per_group = config.filled_per_group
        nearest = vectors.nearest(
            vector, config.filled_up_to, per_group, config.least_similarity, mask
        )
        units, bits = self._units_of(nearest), self.matches()
        is_match = (bits[units >> 6] >> (units & 63).astype(np.uint64) & np.uint64(1)).astype(bool)
        similar = nearest[~is_match][:missing]
        nearest = np.concatenate((nearest[is_match], similar))
        sums = self.impacts_at(nearest).sum(axis=0)
        return nearest - (sums - self._penalties_of(nearest) << SUM_BITS), len(similar)

    def _rerank(self, vectors: VectorIndex, keys: Integers, near: Integers) -> Integers:
        """Return sort keys in hybrid order: the best matches by words, and the nearest documents.

        Further matches by words follow in their order.
        """
        best, rest = keys[: self._config.reranked], keys[self._config.reranked :]
        best = np.concatenate((best, near)) if len(near) else best.copy()
        cosines, added = self._similarities(vectors, best & ORDINAL_MASK)
        best -= added << SUM_BITS
        withheld = self._config.similarity_weight * self._config.impact_scale
        withheld -= self._query.similarity_weight
        if withheld and len(best):
            self._withheld = withheld * cosines.item(best.argmin())
        best.sort()
        if len(near):
            best = best[is_among_first(self._units_of(best & ORDINAL_MASK), 1)]
        if len(near) and len(rest):
            rest = rest[~self._are_of(rest & ORDINAL_MASK, near & ORDINAL_MASK)]
        self._reranked = len(best)
        return np.concatenate((best, rest)) if len(rest) else best

    def _similarities(
        self, vectors: VectorIndex, documents: Integers
    ) -> tuple[npt.NDArray[np.float32], Integers]:
        """Return the cosine of each document, and what it adds to the sum of its impacts."""
        if self._query.vector is None:
            return np.zeros(len(documents), np.float32), np.zeros(len(documents), np.int64)
        cosines = vectors.similarities(self._query.vector, documents)
        return cosines, np.rint(cosines * np.float32(self._query.similarity_weight)).astype(
            np.int64
        )

    def _penalties_of(self, documents: Integers) -> Integers:
        if self._groups is None:
            return np.zeros(len(documents), np.int64)
        return self._groups.penalties.take(units_of(documents, self._groups))

    def _units_of(self, documents: Integers) -> Units:
        return units_of(documents, self._groups)

    def _are_of(self, documents: Integers, few: Integers) -> Mask:
        """Return which documents are of the units of a few others."""
        # `np.isin` takes longer for these.
        units, others = self._units_of(documents), self._units_of(few)
        is_any: Mask = (units[:, np.newaxis] == others).any(axis=1)
        return is_any
