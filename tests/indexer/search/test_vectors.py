"""Cells of vectors: the nearest documents are found in them, and they are the same every time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from indexer.encoder.quantising import EncodedTexts, quantise_rows
from indexer.search.vectors import add_services, write_vectors
from service.errors import SnapshotDamaged
from service.search.groups import Groups
from service.search.postings import Integers, Mask
from service.search.semantic import vector_index
from service.search.semantic.encoder import QueryVector, quantise
from service.search.semantic.vector_index import LEAST_PROBED, VectorIndex
from service.storage.container import arrays_path, open_arrays, write_arrays
from service.storage.layouts import VECTORS

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


def probe(
    vectors: VectorIndex, asked: QueryVector, mask: Mask | None
) -> tuple[Integers, npt.NDArray[np.float32]]:
    """Return the documents that are compared, and their cosines."""
    documents = vectors.probe(asked, mask, by_group=False)
    return documents, vectors.similarities(asked, documents)


@pytest.fixture(scope="module")
def sums() -> npt.NDArray[np.int32]:
    return cluster(DOCUMENTS)


@pytest.fixture(scope="module")
def encoded(sums: npt.NDArray[np.int32]) -> EncodedTexts:
    return quantise_rows(sums)


@pytest.fixture(scope="module")
def written(encoded: EncodedTexts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vectors") / "vectors"
    write_vectors(path, encoded)
    return path


@pytest.fixture(scope="module")
def vectors(written: Path) -> VectorIndex:
    return VectorIndex(written, DOCUMENTS, DIMENSIONS, None)


@pytest.mark.parametrize("share", [None, 0.5, 0.1, 0.02])
def test_nine_in_ten_of_the_nearest_are_found(vectors: VectorIndex, share: float | None) -> None:
    mask = None if share is None else rng.random(DOCUMENTS) < share
    recalls = []
    for vector in cluster(30):
        asked = query(vector)
        every = vectors.similarities(asked, np.arange(DOCUMENTS))
        allowed = every if mask is None else np.where(mask, every, -2)
        nearest = np.argsort(-allowed)[:K]
        ordinals, similarities = probe(vectors, asked, mask)
        assert similarities == pytest.approx(every[ordinals])
        assert mask is None or mask[ordinals].all()
        assert len(set(ordinals.tolist())) == len(ordinals)
        recalls.append(np.isin(nearest, ordinals).mean())
    assert np.mean(recalls) >= 0.9


def test_the_same_vectors_have_the_same_cells(
    encoded: EncodedTexts, written: Path, tmp_path: Path
) -> None:
    write_vectors(tmp_path / "again", encoded)
    assert arrays_path(tmp_path / "again").read_bytes() == arrays_path(written).read_bytes()


def test_cosines_are_those_of_the_definition(vectors: VectorIndex, encoded: EncodedTexts) -> None:
    asked = query(cluster(1)[0])
    ordinals = np.array([0, 7, DOCUMENTS - 1, 7])
    rows = encoded.rows[ordinals].astype(float)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(asked.components)
    expected = rows @ asked.components / lengths
    assert vectors.similarities(asked, ordinals) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("count", [0, 1, LEAST_PROBED, LEAST_PROBED + 1])
def test_few_vectors_and_zeros_are_harmless(tmp_path: Path, count: int) -> None:
    write_vectors(tmp_path / "vectors", quantise_rows(np.zeros((count, DIMENSIONS), np.int32)))
    vectors = VectorIndex(tmp_path / "vectors", count, DIMENSIONS, None)
    for mask in (None, np.ones(count, np.bool_), np.zeros(count, np.bool_)):
        ordinals, similarities = probe(vectors, query(cluster(1)[0]), mask)
        assert not similarities.any()
        assert set(ordinals.tolist()) <= set(range(count))


def test_an_endpoint_is_the_sum_of_its_own_vector_and_that_of_its_service(tmp_path: Path) -> None:
    services, own = quantise_rows(cluster(50)), quantise_rows(cluster(600))
    own.rows[3], own.inverse_lengths[3] = 0, 0
    service_of = np.sort(rng.integers(0, 50, 600)).astype(np.int32)
    own.rows[9] = -services.rows[service_of[9]]
    own.inverse_lengths[9] = services.inverse_lengths[service_of[9]]
    own_copy = EncodedTexts(own.rows.copy(), own.inverse_lengths.copy())
    write_vectors(tmp_path / "vectors", add_services(own_copy, services, service_of))
    vectors = VectorIndex(tmp_path / "vectors", 600, DIMENSIONS, None)
    asked = query(cluster(1)[0])
    sums = own.rows * own.inverse_lengths[:, np.newaxis].astype(float)
    sums += (services.rows * services.inverse_lengths[:, np.newaxis].astype(float))[service_of]
    lengths = np.maximum(np.linalg.norm(sums, axis=1), 1e-3)
    expected = sums @ asked.components * asked.inverse_length / lengths
    assert vectors.similarities(asked, np.arange(600)) == pytest.approx(expected, abs=3e-3)
    ordinals, similarities = probe(vectors, asked, None)
    assert similarities == pytest.approx(expected[ordinals], abs=3e-3)


@pytest.mark.parametrize("subjects", [5, 40])
def test_the_nearest_are_found_where_a_filter_allows_only_some_subjects(
    vectors: VectorIndex, sums: npt.NDArray[np.int32], subjects: int
) -> None:
    order = np.argsort(rng.random(DOCUMENTS))
    centre = query(sums[order[0]])
    allowed = np.zeros(DOCUMENTS, np.bool_)
    allowed[np.argsort(-vectors.similarities(centre, np.arange(DOCUMENTS)))[: 200 * subjects]] = (
        True
    )
    recalls = []
    for number in order[:40]:
        asked = query(sums[number])
        every = np.where(allowed, vectors.similarities(asked, np.arange(DOCUMENTS)), -2)
        ordinals, _ = probe(vectors, asked, allowed)
        assert len(ordinals) <= LEAST_PROBED
        recalls.append(np.isin(np.argsort(-every)[:K], ordinals).mean())
    assert np.mean(recalls) >= 0.9


@pytest.mark.parametrize("share", [1.0, 0.3, 0.02])
@pytest.mark.parametrize("size", [1, 7, 3000])
def test_the_nearest_documents_of_allowed_groups_are_found(
    written: Path, share: float, size: int
) -> None:
    of_document = (np.arange(DOCUMENTS) // size).astype(np.int32)
    count = int(of_document[-1]) + 1
    first = np.minimum(np.arange(count + 1) * size, DOCUMENTS)
    groups = Groups(first, of_document, np.zeros(count, np.int64))
    vectors = VectorIndex(written, DOCUMENTS, DIMENSIONS, groups)
    mask = np.random.default_rng(7).random(count) < share
    mask[0] = True
    allowed, recalls = mask[of_document], []
    for vector in cluster(20):
        asked = query(vector)
        every = np.where(allowed, vectors.similarities(asked, np.arange(DOCUMENTS)), -2)
        found = vectors.probe(asked, mask, by_group=True)
        assert allowed[found].all()
        recalls.append(np.isin(np.argsort(-every)[: min(K, int(allowed.sum()))], found).mean())
    assert np.mean(recalls) >= 0.9


@pytest.mark.parametrize("share", [None, 0.5, 0.1, 0.02])
def test_few_documents_are_compared_whatever_is_allowed(
    vectors: VectorIndex, share: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask = None if share is None else rng.random(DOCUMENTS) < share
    compared: list[int] = []
    products = vector_index._products  # noqa: SLF001  # the work done

    def counted(rows: Any, asked: QueryVector) -> Any:
        compared.append(len(rows))
        return products(rows, asked)

    monkeypatch.setattr(vector_index, "_products", counted)
    for vector in cluster(20):
        compared.clear()
        probe(vectors, query(vector), mask)
        assert sum(compared) <= LEAST_PROBED + 10 * np.sqrt(DOCUMENTS)


def test_texts_without_meaning_and_equal_texts_crowd_nothing_out(tmp_path: Path) -> None:
    sums = np.concatenate(
        (
            cluster(9000),
            np.zeros((9000, DIMENSIONS), np.int32),
            np.broadcast_to(cluster(1), (9000, DIMENSIONS)),
        )
    )
    write_vectors(tmp_path / "vectors", quantise_rows(sums))
    vectors = VectorIndex(tmp_path / "vectors", len(sums), DIMENSIONS, None)
    for number in (0, 4, 20_000):
        ordinals, similarities = probe(vectors, query(sums[number]), None)
        assert K < len(ordinals) <= LEAST_PROBED
        assert similarities.max() == pytest.approx(1, abs=1e-3)
        assert sums[ordinals].any(axis=1).all()


DAMAGES: dict[str, Callable[[Any], Any]] = {
    "inverse_lengths": lambda array: array * np.float32("nan"),
    "documents": lambda array: array + np.int32(1),
    "positions": lambda array: array - np.int32(1),
    "bounds": lambda array: array[::-1],
}


@pytest.mark.parametrize("name", DAMAGES)
def test_arrays_that_do_not_fit_are_refused(
    encoded: EncodedTexts, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "vectors"
    write_vectors(path, EncodedTexts(encoded.rows[:99], encoded.inverse_lengths[:99]))
    vectors = VectorIndex(path, 99, DIMENSIONS, None)
    assert len(vectors.probe(query(cluster(1)[0]), None, by_group=False)) == 99
    with pytest.raises(SnapshotDamaged, match="has no vectors of these 100 documents"):
        VectorIndex(path, 100, DIMENSIONS, None)
    with pytest.raises(SnapshotDamaged, match="has no vectors of these 99 documents"):
        VectorIndex(path, 99, DIMENSIONS + 1, None)
    arrays = {each: array.copy() for each, array in open_arrays(path, VECTORS).items()}
    write_arrays(path, VECTORS, {**arrays, name: DAMAGES[name](arrays[name])})
    with pytest.raises(SnapshotDamaged, match="has no vectors of these 99 documents"):
        VectorIndex(path, 99, DIMENSIONS, None)
