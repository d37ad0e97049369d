"""Vectors of documents in the space of an encoder that was fitted to the catalogue.

A document has a vector by the transformer and one by the packaged encoder. Both are scaled, put
side by side, and projected to the principal components of the catalogue. Products are of integers
in float64, where they are exact: a document has the same vector in every process.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from pathlib import Path

import numpy as np
import numpy.typing as npt

from indexer.encoder.embeddings import EMBEDDED, Embeddings
from indexer.encoder.parameters import FITTING, Document
from indexer.encoder.quantising import UNIT_LENGTH, EncodedTexts, quantise_rows

BASIS = "basis.npy"
BASIS_UNIT = 1 << 15
SHARES = (FITTING.transformer_share, 1 - FITTING.transformer_share)
"""Shares of a cosine of the vectors by the transformer, and of those by the packaged encoder."""

Floats = npt.NDArray[np.float32]


class Projection:
    """Projects vectors of documents, by the `Embeddings` and the basis of a folder.

    `basis.npy` is int32[dimensions of both vectors, dimensions], in units of 1 / BASIS_UNIT.
    """

    def __init__(self, folder: Path) -> None:
        self._embeddings = Embeddings(folder)
        basis = np.load(folder / BASIS).astype(np.float64)
        self._bases = basis[:EMBEDDED], basis[EMBEDDED:]

    def project(self, documents: Sequence[Document], packaged: EncodedTexts) -> EncodedTexts:
        """Return the vectors of documents, given those by the packaged encoder."""
        parts = (embed_documents(documents, self._embeddings), packaged)
        sums = np.zeros((len(documents), self._bases[0].shape[1]))
        for vectors, basis, share in zip(parts, self._bases, SHARES, strict=True):
            products = vectors.rows.astype(np.float64) @ basis
            sums += products * (vectors.inverse_lengths * sqrt(share))[:, np.newaxis]
        return quantise_rows(np.rint(sums).astype(np.int32))


def write_basis(folder: Path, basis: Floats) -> None:
    """Write the basis of a `Projection`: orthogonal columns of length 1."""
    np.save(folder / BASIS, np.rint(basis * BASIS_UNIT).astype(np.int32))


def embed_documents(documents: Sequence[Document], embeddings: Embeddings) -> EncodedTexts:
    """Return the vectors of documents by the transformer."""
    sums = embeddings.of([document.text for document in documents])
    titles = embeddings.of([document.title for document in documents])
    sums += np.float32(FITTING.title_weight) * titles
    return quantise_rows(np.rint(sums * UNIT_LENGTH).astype(np.int32))


def join_parts(embedded: Floats, packaged: Floats) -> Floats:
    """Return vectors of length 1 side by side, each scaled by its share of a cosine."""
    parts = (part * sqrt(share) for part, share in zip((embedded, packaged), SHARES, strict=True))
    return np.hstack(tuple(parts)).astype(np.float32)
