"""Hybrid ranking: a weighted cosine is added to the BM25F sums of the best lexical matches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from service.search.analysis import query_words
from service.search.config import SearchConfig
from service.search.groups import Units, is_among_first, units_of
from service.search.postings import Integers, Mask
from service.search.query_expansion import Expansion
from service.search.semantic.encoder import IDENTIFIER, Encoder, QueryVector
from service.search.semantic.vector_index import STEPS, VectorIndex
from service.search.top_k import NO_ORDINALS, top_k


class VectorQuery(NamedTuple):
    """The vector of a query, and the documents that it is compared with.

    weights: the impact of a cosine of 1, by whether groups are ranked
    """

    vectors: VectorIndex
    vector: QueryVector
    config: SearchConfig
    weights: dict[bool, float]

    def impacts(self, documents: Units, *, by_group: bool) -> Integers:
        """Return what similarity adds to the BM25F sum of each of these documents."""
        similarities = self.vectors.similarities(self.vector, documents)
        similarities *= np.float32(self.weights[by_group])
        return np.rint(similarities, out=similarities).astype(np.int64)

    def nearest(self, count: int, matches: Units, mask: Mask | None, *, by_group: bool) -> Integers:
        """Return the documents that few matches are filled up with, most similar first.

        `matches` are the units that match, which `mask` has flags for: groups with `by_group`, of
        which each is added once, or else documents, of which a group has `filled_per_group`.
        """
        if count <= 0:
            return NO_ORDINALS
        config = self.config
        candidates = self.vectors.probe(self.vector, mask, by_group=by_group)
        similarities = self.vectors.similarities(self.vector, candidates)
        per_group = 1 if by_group else config.filled_per_group
        k = 4 * config.filled_up_to
        while True:
            least = config.least_similarity
            if k < len(similarities):
                kth = float(np.partition(similarities, len(similarities) - k)[-k])
                least = max(least, kth - 1 / STEPS)  # those of the same step, too
            similar = (similarities >= least).nonzero()[0]
            steps = np.rint(similarities.take(similar) * np.float32(STEPS)).astype(np.int64)
            nearest = top_k(candidates.take(similar), steps, len(similar))
            groups = units_of(nearest, self.vectors.groups)
            nearest = nearest[is_among_first(groups, per_group)]
            if len(nearest) >= config.filled_up_to or k >= len(similarities):
                break
            k *= 8
        nearest = nearest[: config.filled_up_to]
        units = units_of(nearest, self.vectors.groups if by_group else None)
        is_match = (units[:, np.newaxis] == matches).any(axis=1)
        others: Integers = nearest[~is_match]
        return others[:count]


def encode_query(
    encoder: Encoder, query: str, expansions: Sequence[Expansion]
) -> QueryVector | None:
    """Return the vector of a query, or None where its words have no meaning.

    A word that no document has counts if it is one piece, or else as what it was completed or
    corrected to: the pieces of an unfinished word mean something else.
    """
    texts = None
    if IDENTIFIER.search(query):
        meant = " ".join(chunk for chunk in query.split() if not IDENTIFIER.search(chunk))
        texts = {word.text for word in query_words(meant)}
    pieces: list[int] = []
    for each in expansions:
        if not each.required or (texts is not None and each.word not in texts):
            continue
        own = encoder.pieces(each.word)
        if not each.is_known and len(own) != 1:
            own = encoder.pieces(each.alternative)
        pieces += own
    return encoder.encode(pieces)
