"""Vectors of documents in the space of a fitted encoder: their cosines are blends of two."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from indexer.encoder.embeddings import EMBEDDED as DIMENSIONS
from indexer.encoder.embeddings import write_embeddings
from indexer.encoder.parameters import FITTING, Document
from indexer.encoder.projection import Projection, write_basis
from indexer.encoder.quantising import EncodedTexts, quantise_rows

PACKAGED = 32  # dimensions
DOCUMENTS = [Document(f"title {n}", f"text {n % 50}") for n in range(120)]
rng = np.random.default_rng(3)


def embed(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    vectors = np.stack(
        [np.random.default_rng(list(text.encode())).normal(size=DIMENSIONS) for text in texts]
    )
    return unit(vectors).astype(np.float32)


def unit(vectors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    scaled: npt.NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


def floats(vectors: EncodedTexts) -> npt.NDArray[np.float64]:
    rows = vectors.rows.astype(np.float64)
    scaled: npt.NDArray[np.float64] = rows * vectors.inverse_lengths[:, np.newaxis]
    return scaled


@pytest.fixture(scope="module")
def packaged() -> EncodedTexts:
    return quantise_rows(rng.integers(-9000, 9000, (len(DOCUMENTS), PACKAGED)).astype(np.int32))


@pytest.fixture(scope="module")
def projection(tmp_path_factory: pytest.TempPathFactory) -> Projection:
    folder = tmp_path_factory.mktemp("projection")
    texts = [part for document in (*DOCUMENTS, Document("", " ")) for part in document]
    write_embeddings(
        folder, texts, lambda new: embed([*new.values()] or [""])[: len(new)].astype(np.float16)
    )
    write_basis(folder, np.eye(DIMENSIONS + PACKAGED, dtype=np.float32))
    return Projection(folder)


def test_a_cosine_is_that_of_the_transformer_and_that_of_the_package_weighted(
    projection: Projection, packaged: EncodedTexts
) -> None:
    titles = embed([document.title for document in DOCUMENTS]).astype(np.float16).astype(float)
    texts = embed([document.text for document in DOCUMENTS]).astype(np.float16).astype(float)
    embedded, own = unit(texts + FITTING.title_weight * titles), floats(packaged)
    expected = FITTING.transformer_share * embedded @ embedded.T
    expected += (1 - FITTING.transformer_share) * own @ own.T
    projected = floats(projection.project(DOCUMENTS, packaged))
    assert projected @ projected.T == pytest.approx(expected, abs=0.02)


def test_a_vector_does_not_depend_on_its_neighbours(
    projection: Projection, packaged: EncodedTexts
) -> None:
    rows, inverse_lengths = projection.project(DOCUMENTS, packaged)
    for number in (0, 7, len(DOCUMENTS) - 1):
        one = slice(number, number + 1)
        alone = projection.project(
            DOCUMENTS[one], EncodedTexts(packaged.rows[one], packaged.inverse_lengths[one])
        )
        assert (alone.rows == rows[one]).all()
        assert alone.inverse_lengths == inverse_lengths[one]


def test_no_documents_and_empty_texts_are_harmless(projection: Projection) -> None:
    none = projection.project([], quantise_rows(np.zeros((0, PACKAGED), np.int32)))
    assert none.rows.shape == (0, DIMENSIONS + PACKAGED)
    nothing = quantise_rows(np.zeros((1, PACKAGED), np.int32))
    assert projection.project([Document("", " ")], nothing).inverse_lengths.tolist() == [0]
