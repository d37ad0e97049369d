"""Postings and vectors in arrays: renumbered, counted and merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.columns.ragged import (
    AnyIntegers,
    Ragged,
    bounds_of,
    is_first,
    ragged_texts,
    rank_texts,
)
from indexer.encoder.quantising import EncodedTexts

GONE = -1
"""Number of a document that is no longer there."""

Numbers = npt.NDArray[np.int32]
First = npt.NDArray[np.int64]
"""int64[services + 1], the number of the first endpoint of each service."""


class FieldPostings(NamedTuple):
    """The postings of one field.

    `terms` are texts in byte order and `sizes` (int32) are the counts of their postings. The
    postings are `documents` (int32) and `counts` (unsigned), the term frequencies.
    """

    terms: Ragged
    sizes: Numbers
    documents: Numbers
    counts: AnyIntegers

    def renumber(self, numbers: Numbers) -> FieldPostings:
        """Return the postings of the documents that have a new number, which is not GONE."""
        documents = numbers[self.documents]
        present = documents != GONE
        if present.all():
            return self._replace(documents=documents)
        sizes = np.diff(bounds_of(present)[bounds_of(self.sizes)])
        used = np.flatnonzero(sizes)
        return FieldPostings(
            self.terms.take(used),
            sizes[used].astype(np.int32),
            documents[present],
            self.counts[present],
        )


def merge_postings(parts: Sequence[FieldPostings], documents: int) -> FieldPostings:
    """Return the postings of one field of different documents, which are numbered together."""
    terms, ranks = rank_texts([term for part in parts for term in part.terms.texts()])
    keys = np.repeat(ranks, np.concatenate([part.sizes for part in parts])) * max(documents, 1)
    keys += np.concatenate([part.documents for part in parts])
    order = np.argsort(keys, kind="stable")
    ranks, numbers = np.divmod(keys[order], max(documents, 1))
    counts = np.concatenate([part.counts for part in parts])[order]
    sizes = np.bincount(ranks, minlength=len(terms)).astype(np.int32)
    return FieldPostings(ragged_texts(terms), sizes, numbers.astype(np.int32), counts)


def count_pairs(
    terms: Sequence[bytes],
    ranks: npt.NDArray[np.int64],
    documents: Numbers,
    count: int,
) -> FieldPostings:
    """Return the postings of occurrences: the ranks of their terms, and their documents.

    `terms` are in byte order; `count` is the number of documents.
    """
    keys = ranks * max(count, 1)
    keys += documents
    keys.sort()
    starts = np.flatnonzero(is_first(keys))
    frequencies = np.diff(starts, append=len(keys))
    owners, numbers = np.divmod(keys[starts], max(count, 1))
    sizes = np.bincount(owners, minlength=len(terms))
    used = np.flatnonzero(sizes)
    return FieldPostings(
        ragged_texts([terms[rank] for rank in used.tolist()]),
        sizes[used].astype(np.int32),
        numbers.astype(np.int32),
        frequencies.astype(np.min_scalar_type(int(frequencies.max(initial=0)))),
    )


def endpoint_numbers(own: First, numbers: Numbers, first_endpoints: First) -> Numbers:
    """Return the new numbers of endpoints, given the new ones of their services, or GONE.

    own, first_endpoints: the first endpoints of services, by the old and by the new numbers
    """
    sizes = np.diff(own)
    is_gone = numbers == GONE
    starts = np.where(is_gone, 0, first_endpoints[numbers])
    moved = np.arange(own[-1]) + np.repeat(starts - own[:-1], sizes)
    return np.where(np.repeat(is_gone, sizes), GONE, moved).astype(np.int32)


def gather_vectors(
    parts: Sequence[tuple[EncodedTexts, Numbers]], count: int, dimensions: int
) -> EncodedTexts:
    """Return `count` vectors by their new numbers, zeros for a number without a vector."""
    rows, inverse_lengths = np.zeros((count, dimensions), np.int8), np.zeros(count, np.float32)
    for vectors, numbers in parts:
        present = np.flatnonzero(numbers != GONE)
        rows[numbers[present]] = vectors.rows[present]
        inverse_lengths[numbers[present]] = vectors.inverse_lengths[present]
    return EncodedTexts(rows, inverse_lengths)
