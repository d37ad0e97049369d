"""Fitting vectors of word pieces to vectors of texts, by ridge regression."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_matrix

from tools.training.transformer import Floats

RARE_PIECE = 1e-3
"""Share of all pieces at which the weight of a piece is one half (a of Arora et al., 2017)."""


def mean_matrix(texts: Sequence[Sequence[int]], pieces: int) -> csr_matrix:
    """Return the matrix that maps vectors of pieces to the mean of those of each text."""
    counts = np.array([len(text) for text in texts], np.int64)
    bounds = np.concatenate(([0], np.cumsum(counts)))
    columns = np.fromiter((piece for text in texts for piece in text), np.int32, bounds[-1])
    weights = np.repeat(1 / np.maximum(counts, 1), counts).astype(np.float32)
    return csr_matrix((weights, columns, bounds), shape=(len(texts), pieces))


def smooth_inverse_frequency(means: csr_matrix) -> Floats:
    """Return weights of pieces, lower the more texts have one (Arora et al., 2017)."""
    counts = np.bincount(means.indices, minlength=means.shape[1]) + 1
    weights: Floats = (RARE_PIECE / (RARE_PIECE + counts / counts.sum())).astype(np.float32)
    return weights


def fit(
    means: csr_matrix, targets: Floats, prior: Floats, strength: float, iterations: int
) -> Floats:
    """Return vectors of pieces whose means come near to the targets, and which stay near a prior.

    They minimise |means · vectors - targets|² + strength · |vectors - prior|², by so many steps of
    conjugate gradients, for each dimension apart.
    """
    transposed = means.T.tocsr()
    residuals = transposed @ (targets - means @ prior)
    change, direction = np.zeros_like(prior), residuals.copy()
    squares = np.square(residuals).sum(axis=0)
    for _ in range(iterations):
        product = transposed @ (means @ direction) + strength * direction
        step = squares / np.maximum((direction * product).sum(axis=0), 1e-12)
        change += step * direction
        residuals -= step * product
        last, squares = squares, np.square(residuals).sum(axis=0)
        direction = residuals + squares / np.maximum(last, 1e-12) * direction
    fitted: Floats = (prior + change).astype(np.float32)
    return fitted
