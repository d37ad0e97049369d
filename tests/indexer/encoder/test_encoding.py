"""Encoding documents: equal to adding up pieces one by one, and harmless for odd texts."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.encoder.encoding import (
    MOST_PIECES,
    TITLE_WEIGHT,
    PieceNumbers,
    TextEncoder,
    add_vectors,
    inverse_lengths,
    quantise_rows,
)
from indexer.encoder.packaged import load_encoder, write_encoder
from service.search.semantic.encoder import Encoder, scale_rows

ODD = ["", " ", "!!!", "the of and", "天气预报", "0x" + "ab12" * 10, "∞ -12 3.5e7", "\ud7ff\u0000"]
words = st.sampled_from(
    ["weather", "Forecasts", "YouTube", "token", "zzqx", "the", "getPrices", "x402", "price-feed"]
)
texts = st.lists(words, max_size=12).map(" ".join)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoding") / "encoder"
    write_encoder(folder, load_encoder())
    return folder


def unpacked(pieces: bytes) -> list[int]:
    return [*memoryview(pieces).cast("i")]


def encode(
    folder: Path, *documents: tuple[str, str]
) -> tuple[np.typing.NDArray[np.int8], list[float]]:
    encoder = TextEncoder(folder)
    for title, text in documents:
        encoder.add(title, text)
    rows = encoder.encoded()
    return rows, inverse_lengths(rows).tolist()


@given(st.lists(st.tuples(texts, texts), max_size=20))
def test_a_document_is_the_sum_of_its_pieces_and_of_those_of_its_title(
    folder: Path, documents: list[tuple[str, str]]
) -> None:
    rows, lengths = encode(folder, *documents)
    assert rows.shape == (len(documents), 128)
    encoder = Encoder(folder)
    vectors = scale_rows(encoder.rows, encoder.scales).astype(float)
    numbers = PieceNumbers(encoder.numbers)
    for row, inverse_length, (title, text) in zip(rows, lengths, documents, strict=True):
        expected = np.zeros(128)
        for part, weight in ((f"{title} {text}", 1.0), (title, TITLE_WEIGHT)):
            total = sum(
                (vectors[piece] for word in part.split() for piece in unpacked(numbers[word])),
                np.zeros(128),
            )
            expected += weight * total / max(sqrt(total @ total), 1e-9)
        length = sqrt(expected @ expected)
        if not length:
            assert not row.any()
            assert inverse_length == 0
            continue
        assert inverse_length == pytest.approx(1 / sqrt((row.astype(float) ** 2).sum()))
        assert row @ expected * inverse_length / length == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize("text", ODD)
def test_texts_without_meaning_have_no_vector(folder: Path, text: str) -> None:
    rows, lengths = encode(folder, (text, text), ("weather", text))
    assert [row.any() for row in rows] == [False, True]
    assert lengths[0] == 0


def test_of_a_megabyte_of_text_the_first_pieces_count(folder: Path) -> None:
    long = "weather " * MOST_PIECES
    rows, _ = encode(folder, ("", long + "prices " * 150_000), ("", long), ("", "x" * 1_000_000))
    assert (rows[0] == rows[1]).all()
    assert not rows[2].any()


def test_a_vector_does_not_depend_on_its_neighbours(folder: Path) -> None:
    documents = [
        (f"weather {number}", "forecast of tides " * (number % 7)) for number in range(5000)
    ]
    together, _ = encode(folder, *documents)
    for number in (0, 4095, 4096, 4999):
        alone, _ = encode(folder, documents[number])
        assert (together[number] == alone[0]).all()


def test_opposite_vectors_add_up_to_nothing() -> None:
    left = quantise_rows(np.array([[3, -4], [0, 0], [5, 0]], np.int32))
    right = quantise_rows(np.array([[-3, 4], [0, 0], [0, 0]], np.int32))
    rows = add_vectors(left, right)
    assert rows.tolist() == [[0, 0], [0, 0], [127, 0]]
    assert inverse_lengths(rows).tolist() == [0, 0, pytest.approx(1 / 127)]
