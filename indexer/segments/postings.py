"""Postings in arrays: renumbered, counted and merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.columns.ragged import Integers, Ragged, bounds_of, is_first, ragged_texts

GONE = -1
"""Number of a document that is no longer there."""

Numbers = npt.NDArray[np.int32]


class FieldPostings(NamedTuple):
    """The postings of one field.

    `terms` are texts in byte order and `sizes` (int32) are the counts of their postings. The
    postings are `documents` (int32) and `counts` (unsigned), the term frequencies.
    """

    terms: Ragged
    sizes: Numbers
    documents: Numbers
    counts: Integers

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
    own = [part.terms.texts() for part in parts]
    terms = sorted({term for each in own for term in each})
    rank = {term: number for number, term in enumerate(terms)}
    owners = [
        np.repeat(np.fromiter(map(rank.__getitem__, each), np.int64, len(each)), part.sizes)
        for each, part in zip(own, parts, strict=True)
    ]
    keys = np.concatenate(owners) * max(documents, 1)
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
