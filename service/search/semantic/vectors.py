"""The vectors of documents: similarities to a query, and the nearest documents.

Vectors of whole numbers are compared in float32, where their products add up exactly: a document
has the same similarity on every processor. `np.vecdot` compares one thread's rows where a matrix
product of BLAS would start threads, which spin beside the requests of other threads.
"""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from service.errors import SnapshotDamaged
from service.search.postings import Integers, Mask
from service.search.semantic.encoder import QueryVector
from service.search.top_k import top_k
from service.storage.memory_map import open_array

PROBED = 14
"""Documents that are compared to find the nearest ones, by the square root of their number..."""
LEAST_PROBED = 2500
"""...and at least so many: all in a small catalogue."""
SLACK = 1.5
"""Rows that are looked up in a mask, for each that would do if it were a random choice."""
STEPS = 1 << 16
"""Similarities are ordered in so many steps."""

Rows = npt.NDArray[np.int8]
Floats = npt.NDArray[np.float32]
Ordinals = npt.NDArray[np.int32] | Integers


class Near(NamedTuple):
    """Documents, and the cosines of a query and each of them."""

    ordinals: Integers
    similarities: Floats


class Vectors:
    """The vectors of the documents of a catalogue, in cells of similar ones.

    `rows.npy`, int8[documents, dimensions], are their components, and `inverse_lengths.npy`,
    float32[documents], the inverses of their lengths, 0 where a text has no meaning. Both are in
    order of the cells: `cells.npy`, int32[documents], is the document of each row,
    `positions.npy`, int32[documents], the row of each document, `bounds.npy`, int64[cells + 1], the
    first row of each cell, and `centroids.npy`, int8[cells, dimensions], the centroid. Rows beyond
    the last bound are in no cell. Raises SnapshotDamaged.
    """

    def __init__(self, folder: Path, documents: int, dimensions: int) -> None:
        self._rows = open_array(folder / "rows.npy")
        self._inverse_lengths = open_array(folder / "inverse_lengths.npy")
        self._cells = open_array(folder / "cells.npy")
        self._positions = open_array(folder / "positions.npy")
        self._bounds = open_array(folder / "bounds.npy")
        centroids = open_array(folder / "centroids.npy")
        self._check(folder, centroids, (documents, dimensions))
        self._centroids: npt.NDArray[np.float32] = centroids.astype(np.float32)
        lengths = np.sqrt(np.square(self._centroids).sum(axis=1))
        self._centroid_lengths: npt.NDArray[np.float32] = np.maximum(lengths, 1)

    def similarities(self, query: QueryVector, ordinals: Ordinals) -> Floats:
        """Return the cosine of the query and each of these documents, 0 without a vector."""
        return self._compare(query, self._positions.take(ordinals))

    def projections(self, query: QueryVector, ordinals: Ordinals) -> Floats:
        """Return the product of the query and the vector of length 1 of each of these documents."""
        return self._project(query, self._positions.take(ordinals))

    def near(self, query: QueryVector, mask: Mask | None) -> Near:
        """Return some documents of a mask, most of those nearest to the query among them.

        They are those of the nearest cells, or all in a small catalogue.
        """
        documents = len(self._cells) if mask is None else int(np.count_nonzero(mask))
        probed = max(LEAST_PROBED, int(PROBED * sqrt(documents)))
        if documents > probed:
            share = documents / len(self._cells)
            rows = self._rows_of_nearest_cells(query, mask, share, probed)
        elif mask is None:
            rows = np.arange(documents)
        else:
            rows = self._positions.take(mask.nonzero()[0])
        return Near(self._cells.take(rows).astype(np.int64), self._compare(query, rows))

    def _project(self, query: QueryVector, rows: Ordinals) -> Floats:
        """Return the product of the query and the vector of length 1 of each of these rows."""
        components = self._rows.take(rows, axis=0).astype(np.float32)
        products: Floats = np.vecdot(components, query.components)
        products *= self._inverse_lengths.take(rows)
        return products

    def _compare(self, query: QueryVector, rows: Ordinals) -> Floats:
        """Return the cosine of the query and each of these rows."""
        similarities = self._project(query, rows)
        similarities *= np.float32(query.inverse_length)
        return similarities

    def _rows_of_nearest_cells(
        self, query: QueryVector, mask: Mask | None, share: float, probed: int
    ) -> Integers:
        """Return so many rows of a mask, those of the nearest cells first.

        `share` of the documents are in the mask. Rows are looked up in it cell by cell, of all
        cells only where it excludes most of the nearest.
        """
        similarities = np.vecdot(self._centroids, query.components) / self._centroid_lengths
        steps = np.rint(similarities * (query.inverse_length * STEPS)).astype(np.int64)
        cells = top_k(np.arange(len(steps)), steps, len(steps))
        starts = self._bounds.take(cells)
        lengths = self._bounds.take(cells + 1) - starts
        if mask is None:
            return _first_rows(starts, lengths, probed)[:probed]
        rows = _first_rows(starts, lengths, int(probed * SLACK / share))
        rows = rows[mask.take(self._cells.take(rows))]
        if len(rows) < probed:
            rows = _first_rows(starts, lengths, len(self._cells))
            rows = rows[mask.take(self._cells.take(rows))]
        return rows[:probed]

    def _check(self, folder: Path, centroids: Rows, shape: tuple[int, int]) -> None:
        """Check that the arrays fit together and to the postings."""
        bounds, documents = self._bounds, shape[0]
        is_whole = (
            self._rows.dtype == centroids.dtype == np.int8
            and self._rows.shape == shape
            and centroids.shape == (len(bounds) - 1, shape[1])
            and self._inverse_lengths.shape == self._cells.shape == self._positions.shape
            and self._cells.shape == (documents,)
            and bounds[0] == 0 <= bounds[-1] <= documents
            and bool((np.diff(bounds) >= 0).all())
            and _are_ordinals(self._cells)
            and _are_ordinals(self._positions)
            and bool(np.isfinite(self._inverse_lengths).all())
        )
        if not is_whole:
            raise SnapshotDamaged(f"{folder} has no vectors of these {documents:,} documents")


class EndpointVectors(Vectors):
    """Vectors of endpoints: sums of their own ones and those of their services, of length 1 each.

    `services` are the vectors of the services and `service_of`, int32[documents], the service of
    each document. `inverse_sum_lengths.npy` is float32[documents], in order of the documents.
    """

    def __init__(
        self,
        folder: Path,
        dimensions: int,
        services: Vectors,
        service_of: npt.NDArray[np.int32],
    ) -> None:
        super().__init__(folder, len(service_of), dimensions)
        self._inverse_sum_lengths = open_array(folder / "inverse_sum_lengths.npy")
        self._services, self._service_of = services, service_of
        lengths = self._inverse_sum_lengths
        if lengths.shape != service_of.shape or not np.isfinite(lengths).all():
            raise SnapshotDamaged(f"{folder} has no lengths of these endpoints")

    def _compare(self, query: QueryVector, rows: Ordinals) -> Floats:
        sums = self._project(query, rows)
        ordinals = self._cells.take(rows)
        sums += self._services.projections(query, self._service_of.take(ordinals))
        sums *= self._inverse_sum_lengths.take(ordinals)
        sums *= np.float32(query.inverse_length)
        return sums


def _first_rows(starts: Integers, lengths: Integers, count: int) -> Integers:
    """Return the rows of the first cells that have `count` together, or of all."""
    stops = lengths.cumsum()
    cells = int(stops.searchsorted(count)) + 1
    offsets = starts - (stops - lengths)
    rows: Integers = np.repeat(offsets[:cells], lengths[:cells])
    rows += np.arange(len(rows))
    return rows


def _are_ordinals(numbers: npt.NDArray[np.int32]) -> bool:
    return not len(numbers) or 0 <= int(numbers.min()) <= int(numbers.max()) < len(numbers)
