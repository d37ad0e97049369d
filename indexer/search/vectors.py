"""Writing the vectors of documents, divided into cells of similar ones.

Cells are computed in integers, or in float32 where these are exact: the same vectors have the same
cells on every processor.
"""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np
import numpy.typing as npt

from indexer.columns.ragged import bounds_of
from indexer.encoder.quantising import EncodedTexts, add_vectors, quantise_rows
from indexer.segments.postings import Numbers
from service.search.semantic.vector_index import LEAST_PROBED, Rows
from service.storage.container import writing_arrays
from service.storage.layouts import VECTORS

BATCH = 1024  # vectors
BLOCK = 1 << 16
"""Vectors whose cells are looked up at a time, in some 30 MB."""
CELLS_SUMMED = 256
"""Cells whose vectors are added up at a time."""
CELLS = 10
"""Cells by the square root of the number of documents: to build them takes the power of 1.5."""
SAMPLE = 12
"""Documents of each cell that the centroids are computed from, on average."""
ITERATIONS = 3
GROUPS = 2
"""Groups of centroids by the square root of their number."""
GROUP_ITERATIONS = 8
GROUPS_OF_CENTROID = 2
"""Groups that each centroid is in. Two find more nearest centroids than twice as many groups of one
for each vector, at the same number of products."""
PROBED_GROUPS = 6
"""Groups whose centroids are compared with a vector."""


def add_services(
    vectors: EncodedTexts, services: EncodedTexts, service_of: Numbers
) -> EncodedTexts:
    """Add the vectors of services to those of their documents, scaled to length 1, in place."""
    rows, inverse_lengths = vectors
    for start in range(0, len(rows), BATCH):
        batch = slice(start, start + BATCH)
        owners = service_of[batch]
        rows[batch], inverse_lengths[batch] = add_vectors(
            EncodedTexts(rows[batch], inverse_lengths[batch]),
            EncodedTexts(services.rows[owners], services.inverse_lengths[owners]),
        )
    return vectors


def write_vectors(path: Path, vectors: EncodedTexts) -> None:
    """Write the file of a `VectorIndex`.

    Zero vectors are in no cell: they would fill the cell of the first centroid.
    """
    rows, inverse_lengths = vectors
    present, absent = np.flatnonzero(inverse_lengths), np.flatnonzero(inverse_lengths == 0)
    count, cells = 1, np.zeros(len(present), np.int64)
    centroids = np.zeros((1, rows.shape[1]), np.int8)
    if len(present) > LEAST_PROBED:
        count = int(CELLS * sqrt(len(present)))
        centroids = _find_centroids(rows, present, count)
        for start in range(0, len(present), BLOCK):
            block = slice(start, start + BLOCK)
            cells[block] = _nearest(rows[present[block]], centroids)
        centroids = _means(rows, present, cells, centroids)
    bounds = bounds_of(np.bincount(cells, minlength=count))
    order = np.concatenate((present[np.argsort(cells, kind="stable")], absent))
    positions = np.empty(len(order), np.int32)
    positions[order] = np.arange(len(order))
    batches = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    with writing_arrays(path, VECTORS) as writer:
        writer.stream("rows", (rows[batch] for batch in batches or [order]))
        writer.write("inverse_lengths", inverse_lengths[order])
        writer.write("documents", order.astype(np.int32))
        writer.write("positions", positions)
        writer.write("bounds", bounds)
        writer.write("centroids", centroids)


def _find_centroids(rows: Rows, present: npt.NDArray[np.int64], count: int) -> Rows:
    """Return the centroids of k-means with cosine similarity over an even sample of the vectors."""
    sample = rows[present[:: max(1, len(present) // (count * SAMPLE))]]
    centroids = _spread(sample, count)
    every = np.arange(len(sample))
    for _ in range(ITERATIONS):
        centroids = _means(sample, every, _nearest(sample, centroids), centroids)
    return centroids


def _nearest(rows: Rows, centroids: Rows) -> npt.NDArray[np.int64]:
    """Return a centroid for each vector: in nine of ten cases the nearest.

    Each vector is compared with the centroids of the most similar groups only, group by group.
    """
    leaders = _spread(centroids, int(GROUPS * sqrt(len(centroids))))
    for _ in range(GROUP_ITERATIONS):
        similar = _most_similar(centroids, leaders, 1)[:, 0]
        leaders = _means(centroids, np.arange(len(centroids)), similar, leaders)
    members = _by_group(_most_similar(centroids, leaders, GROUPS_OF_CENTROID), len(leaders))
    candidates = _by_group(_most_similar(rows, leaders, PROBED_GROUPS), len(leaders))
    cells = np.zeros(len(rows), np.int64)
    highest = np.full(len(rows), -np.inf, np.float32)
    for group, compared in zip(members, candidates, strict=True):
        if not len(group):
            continue
        columns, lengths = _columns(centroids[group])
        for start in range(0, len(compared), BATCH):
            batch = compared[start : start + BATCH]
            cosines = _cosines(rows[batch], columns, lengths)
            best = cosines.argmax(axis=1)
            similarities = cosines[np.arange(len(batch)), best]
            better = similarities > highest[batch]
            highest[batch[better]] = similarities[better]
            cells[batch[better]] = group[best[better]]
    return cells


def _spread(rows: Rows, count: int) -> Rows:
    """Return vectors at even distances in their order."""
    return rows[np.linspace(0, len(rows) - 1, count).astype(np.int64)]


def _most_similar(rows: Rows, centroids: Rows, k: int) -> npt.NDArray[np.int16]:
    """Return the k centroids with the highest cosines to each vector, the first of equal ones."""
    columns, lengths = _columns(centroids)
    similar = np.empty((len(rows), k), np.int16)
    for start in range(0, len(rows), BATCH):
        cosines = _cosines(rows[start : start + BATCH], columns, lengths)
        for rank in range(k):
            best = cosines.argmax(axis=1)
            similar[start : start + BATCH, rank] = best
            cosines[np.arange(len(best)), best] = -np.inf
    return similar


def _by_group(groups: npt.NDArray[np.int16], count: int) -> list[npt.NDArray[np.int64]]:
    """Return the positions of the rows that name each of `count` groups."""
    order = np.argsort(groups, axis=None, kind="stable")
    bounds = np.cumsum(np.bincount(groups.ravel(), minlength=count))
    return np.split(order // groups.shape[1], bounds[:-1])


def _columns(centroids: Rows) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return centroids as the columns of a matrix, and their lengths."""
    columns = centroids.T.astype(np.float32)
    return columns, np.sqrt(np.maximum(np.square(columns).sum(axis=0), 1))


def _cosines(
    rows: Rows, columns: npt.NDArray[np.float32], lengths: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Return the cosines of vectors and centroids, times the lengths of the vectors."""
    products: npt.NDArray[np.float32] = rows.astype(np.float32) @ columns
    products /= lengths
    return products


def _means(
    rows: Rows,
    numbers: npt.NDArray[np.int64],
    cells: npt.NDArray[np.integer],
    centroids: Rows,
) -> Rows:
    """Return the mean direction of each cell; an empty cell keeps its centroid.

    numbers, cells: the rows of the vectors, and the cell of each
    """
    order = np.argsort(cells, kind="stable")
    present, starts = np.unique(cells[order], return_index=True)
    bounds = np.append(starts, len(order))
    sums = np.empty((len(present), rows.shape[1]), np.int32)
    for start in range(0, len(present), CELLS_SUMMED):
        own = bounds[start : start + CELLS_SUMMED + 1]
        members = rows[numbers[order[own[0] : own[-1]]]]
        # One sum a cell: `np.add.reduceat` takes ten times as long along the first axis.
        for cell, of_cell in enumerate(np.split(members, own[1:-1] - own[0]), start):
            sums[cell] = of_cell.sum(axis=0, dtype=np.int32)
    means = centroids.copy()
    means[present] = quantise_rows(sums).rows
    return means
