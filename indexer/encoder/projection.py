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

from indexer.encoder.embeddings import Embeddings
from indexer.encoder.quantising import UNIT_LENGTH, Document, EncodedTexts, quantise_rows

DIMENSIONS = 256
TITLE_WEIGHT = 1.2
"""Weight of the vector of a title beside that of the text."""
BASIS = "basis.npy"
BASIS_UNIT = 1 << 15
TRANSFORMER_SHARE = 2 / 3
"""Share of a cosine that comes from the vectors of the transformer."""


class Projection:
    """Projects vectors of documents, by the `Embeddings` and the basis of a folder.

    `basis.npy` is int32[dimensions of both vectors, DIMENSIONS], in units of 1 / BASIS_UNIT.
    """

    def __init__(self, folder: Path) -> None:
        self._embeddings = Embeddings(folder)
        self._basis = np.load(folder / BASIS).astype(np.float64)

    def project(self, documents: Sequence[Document], packaged: EncodedTexts) -> EncodedTexts:
        """Return the vectors of documents, given those by the packaged encoder."""
        embedded = embed_documents(documents, self._embeddings)
        dimensions = embedded.rows.shape[1]
        sums = _project(embedded, self._basis[:dimensions], TRANSFORMER_SHARE)
        sums += _project(packaged, self._basis[dimensions:], 1 - TRANSFORMER_SHARE)
        return quantise_rows(np.rint(sums).astype(np.int32))


def write_basis(folder: Path, basis: npt.NDArray[np.float32]) -> None:
    """Write the basis of a `Projection`: orthogonal columns of length 1."""
    np.save(folder / BASIS, np.rint(basis * BASIS_UNIT).astype(np.int32))


def embed_documents(documents: Sequence[Document], embeddings: Embeddings) -> EncodedTexts:
    """Return the vectors of documents by the transformer."""
    sums = embeddings.of([document.text for document in documents])
    sums += TITLE_WEIGHT * embeddings.of([document.title for document in documents])
    return quantise_rows(np.rint(sums * UNIT_LENGTH).astype(np.int32))


def join_parts(
    embedded: npt.NDArray[np.float32], packaged: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Return vectors of length 1 side by side, so that cosines have TRANSFORMER_SHARE."""
    parts = (embedded * sqrt(TRANSFORMER_SHARE), packaged * sqrt(1 - TRANSFORMER_SHARE))
    return np.hstack(parts).astype(np.float32)


def _project(
    vectors: EncodedTexts, basis: npt.NDArray[np.float64], share: float
) -> npt.NDArray[np.float64]:
    products: npt.NDArray[np.float64] = vectors.rows.astype(np.float64) @ basis
    products *= (vectors.inverse_lengths * sqrt(share))[:, np.newaxis]
    return products
