"""The vectors of documents: similarities to a query, and the nearest documents.

Components are whole numbers and their products add up exactly in int32: a document has the same
similarity on every processor.
"""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numkong
import numpy as np
import numpy.typing as npt

from service.errors import SnapshotDamaged
from service.search.groups import Groups, Units, units_of
from service.search.postings import Integers, Mask
from service.search.semantic.encoder import QueryVector
from service.search.top_k import first_keys
from service.storage.container import open_arrays
from service.storage.layouts import VECTORS

PROBED = 14
"""Documents that are compared to find the nearest ones, by the square root of their number..."""
LEAST_PROBED = 2500
"""...and at least so many: all in a small catalogue."""
SPARE_CELLS = 16
"""Cells that are ordered beyond those that would do if all had the mean size."""
SLACK = 1.3
"""Rows that are looked up in a mask, for each that would do if it were a random choice."""
STEPS = 1 << 16
"""Similarities are ordered in so many steps."""

Rows = npt.NDArray[np.int8]
Floats = npt.NDArray[np.float32]


class VectorIndex:
    """The vectors of the documents of a catalogue, in cells of similar ones.

    The inverse length of a text without meaning is 0, and its row is in no cell, beyond the last
    bound. `groups` has the groups of the documents. Raises SnapshotDamaged.
    """

    def __init__(self, path: Path, documents: int, dimensions: int, groups: Groups | None) -> None:
        arrays = open_arrays(path, VECTORS)
        self._rows, self._inverse_lengths = arrays["rows"], arrays["inverse_lengths"]
        self._documents, self._positions = arrays["documents"], arrays["positions"]
        self._bounds, self._centroids = arrays["bounds"], arrays["centroids"]
        self._check(path, (documents, dimensions))
        lengths = np.sqrt(np.square(self._centroids, dtype=np.int32).sum(axis=1))
        self._centroid_lengths = np.maximum(lengths, 1).astype(np.float32)
        self._cells = np.arange(len(lengths))
        self.groups = groups

    def similarities(self, query: QueryVector, documents: Units) -> Floats:
        """Return the cosine of the query and each of these documents, 0 without a vector."""
        rows = self._positions.take(documents)
        products = _products(self._rows.take(rows, axis=0), query)
        products *= self._inverse_lengths.take(rows)
        products *= np.float32(query.inverse_length)
        return products

    def probe(self, query: QueryVector, mask: Mask | None, *, by_group: bool) -> Integers:
        """Return some documents, most of those nearest to the query among them.

        Returns the allowed documents of the nearest cells, or all allowed documents where they are
        few. Where the nearest cells have too few of them, twice as many rows are looked up.

        mask: flags the allowed documents, or with `by_group` the allowed groups
        """
        count = len(self._documents)
        share = 1.0 if mask is None else np.count_nonzero(mask) / max(len(mask), 1)
        probed = int(PROBED * sqrt(count * share))
        if mask is None:
            probed = max(probed, LEAST_PROBED)  # a mask has looked at the rows of more cells
        groups = self.groups if by_group else None
        if max(probed, LEAST_PROBED) >= count * share:
            if mask is None:
                return np.arange(count)
            if groups is not None:
                mask = mask.take(groups.of_document)
            return mask.nonzero()[0]
        keys, size = self._cell_keys(query), int(probed * (1 if mask is None else SLACK) / share)
        while True:
            documents = self._documents.take(self._first_rows(keys, size)).astype(np.int64)
            is_all = len(documents) < size
            if mask is not None:
                documents = documents[mask.take(units_of(documents, groups))]
            if len(documents) >= probed or is_all:
                return documents[:probed]
            size *= 2

    def _cell_keys(self, query: QueryVector) -> Integers:
        """Return sort keys of the cells, the most similar centroid first."""
        similarities = _products(self._centroids, query) / self._centroid_lengths
        steps = np.rint(similarities * (query.inverse_length * STEPS)).astype(np.int64)
        keys: Integers = self._cells - (steps << 32)
        return keys

    def _first_rows(self, keys: Integers, count: int) -> Integers:
        """Return the first `count` rows of the cells in the order of their keys, or all."""
        cells = min(len(keys), 2 * len(keys) * count // len(self._documents) + SPARE_CELLS)
        while True:
            nearest = first_keys(keys.copy(), cells) & 0xFFFFFFFF
            starts = self._bounds.take(nearest)
            lengths = self._bounds.take(nearest + 1) - starts
            stops = lengths.cumsum()
            if stops[-1] >= count or cells == len(keys):
                break
            cells = len(keys)
        used = int(stops.searchsorted(count)) + 1
        rows: Integers = np.repeat((starts - (stops - lengths))[:used], lengths[:used])
        rows += np.arange(len(rows))
        return rows[:count]

    def _check(self, path: Path, shape: tuple[int, int]) -> None:
        """Check that the arrays fit to the postings and the encoder, and to each other."""
        bounds, documents = self._bounds, shape[0]
        is_whole = (
            self._rows.shape == shape
            and bounds[0] == 0 <= bounds[-1] <= documents
            and bool((np.diff(bounds) >= 0).all())
            and _are_ordinals(self._documents)
            and _are_ordinals(self._positions)
            and bool(np.isfinite(self._inverse_lengths).all())
        )
        if not is_whole:
            raise SnapshotDamaged(f"{path} has no vectors of these {documents:,} documents")


def _products(rows: Rows, query: QueryVector) -> Floats:
    """Return the products of vectors and a query: sums of integers, exact in float32."""
    if not len(rows):
        return np.zeros(0, np.float32)
    packed = numkong.dots_pack(query.components.astype(np.int8)[np.newaxis], dtype="int8")
    products: Floats = np.asarray(numkong.dots_packed(rows, packed)).astype(np.float32)
    return products.ravel()


def _are_ordinals(numbers: npt.NDArray[np.int32]) -> bool:
    return not len(numbers) or 0 <= int(numbers.min()) <= int(numbers.max()) < len(numbers)
