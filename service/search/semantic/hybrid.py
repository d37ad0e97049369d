"""Hybrid ranking: a weighted cosine is added to the BM25F sums of the best lexical matches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from service.search.analysis import query_words
from service.search.collapsing import is_among_first
from service.search.config import SearchConfig
from service.search.postings import Integers, Mask
from service.search.query_expansion import Expansion
from service.search.semantic.encoder import Encoder, QueryVector, is_identifier
from service.search.semantic.vectors import STEPS, Vectors
from service.search.top_k import NO_ORDINALS, ORDINAL_MASK, SUM_BITS, top_k


class Semantics(NamedTuple):
    """The encoder of queries, and the vectors of the documents.

    `group_of`, int32[documents], is the group of each document, of which only the nearest are added
    to few matches.
    """

    encoder: Encoder
    vectors: Vectors
    group_of: npt.NDArray[np.int32] | None = None

    def vector_of(self, query: str, expansions: Sequence[Expansion]) -> QueryVector | None:
        """Return the vector of a query, or None where its words have no meaning.

        A word that no document has counts if it is one piece, or else as what it was completed or
        corrected to: the pieces of an unfinished word mean something else.
        """
        texts = None
        if is_identifier(query):
            meant = " ".join(chunk for chunk in query.split() if not is_identifier(chunk))
            texts = {word.text for word in query_words(meant)}
        pieces: list[int] = []
        for each in expansions:
            if not each.required or (texts is not None and each.word not in texts):
                continue
            own = self.encoder.pieces(each.word)
            if not each.is_known and len(own) != 1:
                own = self.encoder.pieces(each.alternative)
            pieces += own
        return self.encoder.encode(pieces)


class Meaning(NamedTuple):
    """The vector of a query; `weight` is the impact of a cosine of 1."""

    semantics: Semantics
    query: QueryVector
    weight: float
    config: SearchConfig

    @property
    def depth(self) -> int:
        """How many of the best lexical matches are ranked by meaning, too."""
        return self.config.reranked

    @property
    def least_rank(self) -> int:
        """How many of the best lexical matches must be known: all, where they are filled up."""
        return max(self.config.reranked, self.config.filled_up_to)

    def impacts(self, ordinals: Integers) -> Integers:
        """Return what similarity adds to the BM25F sum of each of these documents."""
        similarities = self.semantics.vectors.similarities(self.query, ordinals)
        similarities *= np.float32(self.weight)
        return np.rint(similarities, out=similarities).astype(np.int64)

    def rerank(self, keys: Integers, nearest: Integers) -> Integers:
        """Return the sort keys of documents in hybrid order.

        These are the first `depth` lexical matches, by their keys, and the nearest other documents.
        Further lexical matches follow in their order.
        """
        best = np.concatenate((keys[: self.depth], nearest))
        best -= self.impacts(best & ORDINAL_MASK) << SUM_BITS
        best.sort()
        return best if len(keys) <= self.depth else np.concatenate((best, keys[self.depth :]))

    def nearest(self, total: int, matches: Integers, mask: Mask | None) -> Integers:
        """Return the documents that few lexical matches are filled up with, most similar first.

        `matches` are the `total` lexical matches, which may repeat.
        """
        missing = self.config.filled_up_to - total
        if missing <= 0:
            return NO_ORDINALS
        near, similarities = self.semantics.vectors.near(self.query, mask)
        similar = (similarities >= self.config.least_similarity).nonzero()[0]
        steps = np.rint(similarities.take(similar) * np.float32(STEPS)).astype(np.int64)
        if self.semantics.group_of is None:
            nearest = top_k(near.take(similar), steps, self.config.filled_up_to)
        else:
            nearest = top_k(near.take(similar), steps, len(similar))
            groups = self.semantics.group_of.take(nearest)
            nearest = nearest[is_among_first(groups, self.config.filled_per_group)]
            nearest = nearest[: self.config.filled_up_to]
        is_match = (nearest[:, np.newaxis] == matches).any(axis=1)
        others: Integers = nearest[~is_match]
        return others[:missing]
