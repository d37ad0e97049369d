"""Writing the vectors of documents, divided into cells of similar ones.

Cells are computed in integers, or in float32 where these are exact: the same vectors have the same
cells on every processor.
"""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np
import numpy.typing as npt

from indexer.encoder.quantising import EncodedTexts, Rows, add_vectors, quantise_rows
from service.search.vectors import LEAST_PROBED

BATCH = 4096  # vectors
SHORTEST = 1e-3
"""Length of a sum below which it is none: opposite vectors add up to nothing."""
CELLS = 10
"""Cells by the square root of the number of documents: to build them takes the power of 1.5."""
SAMPLE = 12
"""Documents of each cell that the centroids are computed from, on average."""
ITERATIONS = 3


def write_vectors(folder: Path, vectors: EncodedTexts) -> None:
    """Write the files of `Vectors`."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_cells(folder, vectors, vectors.rows)


def write_endpoint_vectors(
    folder: Path,
    vectors: EncodedTexts,
    services: EncodedTexts,
    service_of: npt.NDArray[np.int32],
) -> None:
    """Write the files of `EndpointVectors`; their cells are those of the sums."""
    folder.mkdir(parents=True, exist_ok=True)
    sums = np.empty_like(vectors.rows)
    inverse_lengths = np.empty(len(sums), np.float32)
    for start in range(0, len(sums), BATCH):
        batch = slice(start, start + BATCH)
        owners = service_of[batch]
        added = add_vectors(
            EncodedTexts(vectors.rows[batch], vectors.inverse_lengths[batch]),
            EncodedTexts(services.rows[owners], services.inverse_lengths[owners]),
        )
        sums[batch] = quantise_rows(added.sums).rows
        lengths = np.where(added.lengths > SHORTEST, added.lengths, np.inf)
        inverse_lengths[batch] = 1 / lengths
    np.save(folder / "inverse_sum_lengths.npy", inverse_lengths)
    _write_cells(folder, vectors, sums)


def _write_cells(folder: Path, vectors: EncodedTexts, compared: Rows) -> None:
    """Write vectors in cells by the similarity of others, one for each of them.

    Zeros are in no cell: they would fill that of the first centroid.
    """
    present = np.flatnonzero(compared.any(axis=1))
    absent = np.flatnonzero(~compared.any(axis=1))
    count, cells = 1, np.zeros(len(present), np.int64)
    centroids = np.zeros((1, compared.shape[1]), np.int8)
    if len(present) > LEAST_PROBED:
        count = int(CELLS * sqrt(len(present)))
        centroids = _find_centroids(compared[present], count)
        cells = _nearest(compared[present], centroids)
    bounds = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(cells, minlength=count), out=bounds[1:])
    order = np.concatenate((present[np.argsort(cells, kind="stable")], absent))
    positions = np.empty(len(order), np.int32)
    positions[order] = np.arange(len(order))
    np.save(folder / "rows.npy", vectors.rows[order])
    np.save(folder / "inverse_lengths.npy", vectors.inverse_lengths[order])
    np.save(folder / "cells.npy", order.astype(np.int32))
    np.save(folder / "positions.npy", positions)
    np.save(folder / "bounds.npy", bounds)
    np.save(folder / "centroids.npy", centroids)


def _find_centroids(rows: Rows, count: int) -> Rows:
    """Return the centroids of k-means with cosine similarity over an even sample of the vectors."""
    sample = rows[:: max(1, len(rows) // (count * SAMPLE))]
    centroids = sample[np.linspace(0, len(sample) - 1, count).astype(np.int64)]
    for _ in range(ITERATIONS):
        centroids = _means(sample, _nearest(sample, centroids), centroids)
    return centroids


def _nearest(rows: Rows, centroids: Rows) -> npt.NDArray[np.int64]:
    """Return the centroid with the highest cosine to each vector, the first of several."""
    columns = centroids.T.astype(np.float32)
    lengths = np.sqrt(np.maximum(np.square(columns).sum(axis=0), 1))
    cells = np.empty(len(rows), np.int64)
    for start in range(0, len(rows), BATCH):
        products = rows[start : start + BATCH].astype(np.float32) @ columns
        products /= lengths
        products.argmax(axis=1, out=cells[start : start + BATCH])
    return cells


def _means(rows: Rows, cells: npt.NDArray[np.int64], centroids: Rows) -> Rows:
    """Return the mean direction of the vectors of each cell; an empty one keeps its centroid."""
    order = np.argsort(cells, kind="stable")
    present, starts = np.unique(cells[order], return_index=True)
    means = centroids.copy()
    sums = np.add.reduceat(rows[order].astype(np.int32), starts, axis=0)
    means[present] = quantise_rows(sums).rows
    return means
