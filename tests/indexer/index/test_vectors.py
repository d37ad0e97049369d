"""The vectors of documents: the nearest ones, compared with all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from indexer.encoder.encoding import inverse_lengths, quantise_rows
from indexer.index.documents import OtherTexts, place_documents
from indexer.index.vectors import document_vectors, write_vectors
from service.search.groups import Groups, is_among_first
from service.search.semantic.encoder import QueryVector, quantise
from service.search.semantic.vectors import COMPARED, COMPARED_WHOLE, Rows, VectorIndex, signs_of
from tests.support.searching import text_columns

DOCUMENTS, DIMENSIONS, SUBJECTS = 30_000, 128, 400
K = 24
rng = np.random.default_rng(5)


def cluster(count: int, spread: float = 0.9) -> npt.NDArray[np.int32]:
    """Return vectors around the same subjects, as texts are."""
    subjects = np.random.default_rng(1).normal(size=(SUBJECTS, DIMENSIONS))
    vectors = subjects[rng.integers(0, SUBJECTS, count)]
    vectors = vectors + spread * rng.normal(size=vectors.shape)
    return np.rint(vectors * 1000).astype(np.int32)


def query(vector: npt.NDArray[np.int32]) -> QueryVector:
    asked = quantise(vector)
    assert asked is not None
    return asked


def groups_of(documents: int, size: int) -> Groups:
    """Return groups of so many documents each."""
    of_document = (np.arange(documents) // size).astype(np.int32)
    count = -(-documents // size)
    first = np.minimum(np.arange(count + 1) * size, documents)
    return Groups(first, of_document, np.zeros(count, np.int64))


def opened(folder: Path, encoded: Rows, size: int = 1) -> VectorIndex:
    write_vectors(folder / "vectors", encoded)
    return VectorIndex(folder / "vectors", groups_of(len(encoded), size))


@pytest.fixture(scope="module")
def encoded() -> Rows:
    return quantise_rows(cluster(DOCUMENTS))


@pytest.fixture(scope="module")
def vectors(encoded: Rows, tmp_path_factory: pytest.TempPathFactory) -> VectorIndex:
    return opened(tmp_path_factory.mktemp("vectors"), encoded)


@pytest.mark.parametrize("share", [None, 0.5, 0.02])
@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("per_group", [1, 3])
def test_the_nearest_of_a_small_catalogue_are_exact(
    encoded: Rows, tmp_path: Path, share: float | None, size: int, per_group: int
) -> None:
    count = COMPARED_WHOLE
    vectors = opened(tmp_path, encoded[:count], size)
    mask = None if share is None else rng.random(count) < share
    for vector in cluster(10):
        asked = query(vector)
        every = vectors.similarities(asked, None)
        allowed = every if mask is None else np.where(mask, every, -2)
        order = np.lexsort((np.arange(count), -np.rint(allowed * 65536)))
        order = order[allowed[order] >= 0.25]
        expected = order[is_among_first(order // size, per_group)][:K]
        nearest = vectors.nearest(asked, K, per_group, 0.25, mask)
        assert nearest.tolist() == expected.tolist()


def test_nine_in_ten_of_the_nearest_of_a_large_catalogue_are_found(vectors: VectorIndex) -> None:
    recalls = []
    for vector in cluster(30):
        asked = query(vector)
        every = vectors.similarities(asked, None)
        nearest = vectors.nearest(asked, K, 1, 0.0, None)
        assert (np.diff(every[nearest]) <= 1e-4).all()
        recalls.append(np.isin(np.argsort(-every)[:K], nearest).mean())
    assert np.mean(recalls) >= 0.9


def test_of_a_large_catalogue_few_vectors_are_compared(
    vectors: VectorIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []
    similarities = VectorIndex.similarities

    def counted(own: VectorIndex, asked: QueryVector, documents: npt.NDArray[np.int64]) -> object:
        compared.append(len(documents))
        return similarities(own, asked, documents)

    monkeypatch.setattr(VectorIndex, "similarities", counted)
    vectors.nearest(query(cluster(1)[0]), K, 1, 0.25, None)
    assert COMPARED / 2 <= compared[0] <= 2 * COMPARED


def test_a_vector_that_differs_in_256_signs_is_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = np.where(np.arange(256) % 2, 100, -100).astype(np.int32)
    rows = rng.integers(-100, 101, (COMPARED_WHOLE + 1, 256)).astype(np.int8)
    opposite = 5
    rows[opposite] = -wanted
    vectors = opened(tmp_path, rows)
    compared: list[int] = []
    similarities = VectorIndex.similarities

    def recorded(own: VectorIndex, asked: QueryVector, documents: npt.NDArray[np.int64]) -> object:
        compared.extend(documents.tolist())
        return similarities(own, asked, documents)

    monkeypatch.setattr(VectorIndex, "similarities", recorded)
    vectors.nearest(query(wanted), K, 1, 0.0, None)
    assert compared
    assert opposite not in compared


def test_the_same_vectors_have_the_same_bytes(encoded: Rows, tmp_path: Path) -> None:
    for name in ("one", "other"):
        write_vectors(tmp_path / name, encoded)
    one, other = ((tmp_path / name).read_bytes() for name in ("one", "other"))
    assert one == other


def test_cosines_are_those_of_the_definition(vectors: VectorIndex, encoded: Rows) -> None:
    asked = query(cluster(1)[0])
    ordinals = np.array([0, 7, DOCUMENTS - 1, 7])
    rows = encoded[ordinals].astype(float)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(asked.components)
    expected = rows @ asked.components / lengths
    assert vectors.similarities(asked, ordinals) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("dimensions", [1, 63, 64, 65, 128])
def test_signs_are_bits_of_the_components(dimensions: int) -> None:
    rows = rng.integers(-3, 4, (20, dimensions))
    bits = np.unpackbits(np.ascontiguousarray(signs_of(rows).T).view(np.uint8), axis=1)
    assert bits[:, :dimensions].tolist() == (rows > 0).astype(int).tolist()
    assert not bits[:, dimensions:].any()


@pytest.mark.parametrize("count", [0, 1, COMPARED_WHOLE, COMPARED_WHOLE + 1])
def test_few_vectors_and_zeros_are_harmless(tmp_path: Path, count: int) -> None:
    vectors = opened(tmp_path, quantise_rows(np.zeros((count, DIMENSIONS), np.int32)))
    for mask in (None, np.ones(count, np.bool_), np.zeros(count, np.bool_)):
        assert not len(vectors.nearest(query(cluster(1)[0]), K, 1, 0.25, mask))


def test_an_endpoint_is_the_sum_of_its_own_vector_and_that_of_its_service(tmp_path: Path) -> None:
    services, own = quantise_rows(cluster(50)), quantise_rows(cluster(600))
    counts = np.full(50, 12, np.int32)
    documents = place_documents(counts, 0 * counts)
    own[3], own[9] = 0, -services[documents.services[9]]
    columns = text_columns([("one", "", "")])
    columns.service_vectors, columns.endpoint_vectors = services, own
    others = OtherTexts(np.empty(0, np.int32), {}, columns.strings, own[:0])
    vectors = opened(tmp_path, document_vectors(columns, others, documents))
    asked = query(cluster(1)[0])
    sums = own * inverse_lengths(own)[:, np.newaxis].astype(float)
    sums += (services * inverse_lengths(services)[:, np.newaxis].astype(float))[documents.services]
    lengths = np.maximum(np.linalg.norm(sums, axis=1), 1e-3)
    expected = sums @ asked.components * asked.inverse_length / lengths
    assert vectors.similarities(asked, np.arange(600)) == pytest.approx(expected, abs=3e-3)


def test_texts_without_meaning_and_equal_texts_crowd_nothing_out(tmp_path: Path) -> None:
    sums = np.concatenate(
        (
            cluster(9000),
            np.zeros((9000, DIMENSIONS), np.int32),
            np.broadcast_to(cluster(1), (9000, DIMENSIONS)),
        )
    )
    vectors = opened(tmp_path, quantise_rows(sums))
    for number in (0, 4, 20_000):
        nearest = vectors.nearest(query(sums[number]), K, 1, 0.25, None)
        assert len(nearest) == K
        assert sums[nearest].any(axis=1).all()
        assert vectors.similarities(query(sums[number]), nearest)[0] == pytest.approx(1, abs=1e-3)
