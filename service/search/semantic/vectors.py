"""The vectors of documents: similarities to a query, and the nearest documents.

Components are whole numbers and their products add up exactly in int32: a document has the same
similarity on every processor.
"""

from __future__ import annotations

from pathlib import Path

import numkong
import numpy as np
import numpy.typing as npt

from service.arrays.container import open_arrays
from service.search.groups import Groups, is_among_first, units_of
from service.search.postings import Integers, Mask
from service.search.semantic.encoder import QueryVector
from service.search.top_k import NO_ORDINALS, top_k

COMPARED_WHOLE = 10_000
"""Documents up to which every vector is compared. In a larger catalogue the signs of components
choose COMPARED documents first: comparing 500,000 vectors takes 15 ms."""
COMPARED, SAMPLED = 2500, 16
STEPS = 1 << 16
"""Similarities are ordered in so many steps."""

Rows = npt.NDArray[np.int8]
Floats = npt.NDArray[np.float32]


class VectorIndex:
    """The vectors of the documents of a catalogue; the inverse length of one without meaning is 0.

    rows: int8[documents, dimensions]
    inverse_lengths: the inverse of the length of each vector, or 0
    signs: uint64[words, documents], whether each component is positive, as bits
    groups: of the documents
    """

    def __init__(self, path: Path, groups: Groups) -> None:
        arrays = open_arrays(path)
        self._rows, self._inverse_lengths = arrays["rows"], arrays["inverse_lengths"]
        self._signs, self._groups = arrays["signs"], groups

    @property
    def is_small(self) -> bool:
        """Whether every vector is compared to find the nearest."""
        return len(self._rows) <= COMPARED_WHOLE

    def of_document(self, document: int) -> QueryVector | None:
        """Return the vector of a document, None for one without meaning."""
        components, inverse_length = self._rows[document], float(self._inverse_lengths[document])
        return (
            QueryVector(components.astype(np.float32), inverse_length) if inverse_length else None
        )

    def similarities(self, query: QueryVector, documents: Integers | None) -> Floats:
        """Return the cosine of the query and each of these documents, or of all; 0 without one."""
        rows, inverse_lengths = self._rows, self._inverse_lengths
        if documents is not None:
            rows, inverse_lengths = rows.take(documents, axis=0), inverse_lengths.take(documents)
        if not len(rows):
            return np.zeros(0, np.float32)
        packed = numkong.dots_pack(query.components.astype(np.int8)[np.newaxis], dtype="int8")
        cosines: Floats = np.asarray(numkong.dots_packed(rows, packed)).astype(np.float32).ravel()
        cosines *= inverse_lengths
        cosines *= np.float32(query.inverse_length)
        return cosines

    def nearest(
        self, query: QueryVector, count: int, per_group: int, least: float, mask: Mask | None
    ) -> Integers:
        """Return the `count` nearest allowed documents, most similar first.

        per_group: how many of one group at most
        least: their cosine
        mask: of documents
        """
        if not count:
            return NO_ORDINALS
        candidates = None if self.is_small else self._similar_in_sign(query)
        cosines = self.similarities(query, candidates)
        if mask is not None:
            cosines[~(mask if candidates is None else mask.take(candidates))] = -1
        k = 4 * count
        while True:
            bound = least
            if k < len(cosines):
                kth = float(np.partition(cosines, len(cosines) - k)[-k])
                bound = max(least, kth - 1 / STEPS)  # those of the same step, too
            similar = (cosines >= bound).nonzero()[0]
            steps = np.rint(cosines.take(similar) * np.float32(STEPS)).astype(np.int64)
            documents = similar if candidates is None else candidates.take(similar)
            nearest = top_k(documents, steps, len(documents))
            nearest = nearest[is_among_first(units_of(nearest, self._groups), per_group)]
            if len(nearest) >= count or k >= len(cosines):
                return nearest[:count]
            k *= 8

    def _similar_in_sign(self, query: QueryVector) -> Integers:
        """Return about COMPARED documents, those with most signs of the query.

        A sample tells in how many signs they differ at most. Of many equal texts the first count.
        """
        most_different = self._signs.itemsize * 8 * len(self._signs)
        different = np.zeros(len(self._rows), np.min_scalar_type(most_different))
        for signs, own in zip(self._signs, signs_of(query.components[np.newaxis]), strict=True):
            different += np.bitwise_count(signs ^ own)
        sampled = COMPARED // SAMPLED
        most = np.partition(different[::SAMPLED], sampled)[sampled]
        nearest: Integers = (different <= most).nonzero()[0]
        if len(nearest) > 2 * COMPARED:
            order = np.argsort(different.take(nearest), kind="stable")[: 2 * COMPARED]
            nearest = np.sort(nearest.take(order))
        return nearest


def signs_of(rows: npt.NDArray[np.number]) -> npt.NDArray[np.uint64]:
    """Return uint64[words, rows], the bits of the components that are positive."""
    bits = np.packbits(rows > 0, axis=1)
    padded = np.zeros((len(rows), -(-bits.shape[1] // 8) * 8), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.ascontiguousarray(padded.view(np.uint64).T)
