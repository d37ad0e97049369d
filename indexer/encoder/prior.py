"""The prior of query encoders that are fitted to a catalogue: vectors of all word pieces.

A catalogue has few of the pieces of a vocabulary; the others keep their vectors of the prior. They
are a product of the vectors of the packaged encoder, beside those that the transformer gives single
pieces, and a matrix that was fitted in the training: 0.4 MB in place of 10 for the vectors.
"""

from __future__ import annotations

import numpy as np

from indexer.encoder.packaged import Prior, StaticEncoder
from indexer.encoder.transformer import Floats

STRENGTH = 1e-3
"""Of the regression, in units of the mean square of a column."""


def find_matrix(vectors: Floats, singles: Floats, weights: Floats, fitted: Floats) -> Floats:
    """Return the matrix, float32[columns, dimensions], that maps features of pieces to `fitted`.

    The features are `vectors` of the packaged encoder and `singles`, vectors of single pieces by
    the transformer, times `weights`.
    """
    features = _features(vectors, singles, weights)
    products = features.T @ features
    products[np.diag_indices(len(products))] += STRENGTH * np.trace(products) / len(products)
    matrix: Floats = np.linalg.solve(products, features.T @ fitted).astype(np.float32)
    return matrix


def expand_prior(prior: Prior, encoder: StaticEncoder, singles: Floats) -> Floats:
    """Return the prior vectors of the pieces of an encoder, float32[pieces, dimensions].

    `singles` are the vectors of these pieces by the transformer.
    """
    features = _features(encoder.vectors(), singles, prior.weights.astype(np.float32))
    expanded: Floats = features @ prior.matrix.astype(np.float32)
    return expanded


def _features(vectors: Floats, singles: Floats, weights: Floats) -> Floats:
    """Return the features of pieces, whose vectors are scaled to a mean square length of 1."""
    scaled = vectors / root_mean_square(vectors)
    return np.hstack((scaled, singles * weights[:, np.newaxis])).astype(np.float32)


def root_mean_square(vectors: Floats) -> float:
    """Return the root mean square of the lengths of vectors, zeros apart; 0 if all are zeros."""
    squares = np.square(vectors).sum(axis=1)
    present = squares[squares > 0]
    return float(np.sqrt(present.mean())) if len(present) else 0.0
