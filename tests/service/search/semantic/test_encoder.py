"""The static encoder: which words have vectors, and what a damaged one is refused for."""

from __future__ import annotations

from math import sqrt
from operator import mul
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.encoder.packaged import StaticEncoder, load_encoder, write_encoder
from service.search.semantic.encoder import (
    IDENTIFIER,
    LARGEST,
    Encoder,
    QueryVector,
    word_pieces,
)
from tests.support.running import examples

NUMBERS = {"un": 0, "##break": 1, "##able": 2, "break": 3, "##b": 4, "a": 5}


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    folder = tmp_path_factory.mktemp("packaged") / "encoder"
    write_encoder(folder, load_encoder())
    return Encoder(folder)


@pytest.mark.parametrize(
    ("word", "pieces"),
    [("unbreakable", (0, 1, 2)), ("break", (3,)), ("breakb", (3, 4)), ("breaks", ()), ("", ())],
)
def test_a_word_is_cut_into_the_longest_pieces_or_has_none(
    word: str, pieces: tuple[int, ...]
) -> None:
    assert word_pieces(NUMBERS, word) == pieces


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", True),
        ("0xdeadbeefcafe", True),
        ("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGkZwyTDt1v", True),
        ("123e4567-e89b-12d3-a456-426614174000", True),
        ("weather", False),
        ("GPT4o", False),
        ("ip2location", False),
        ("x402", False),
        ("mp3,mp4,h264", False),
        ("weather-forecast-2024-05-01", False),
        ("https://x.example/v1/v2/weather", False),
    ],
)
def test_addresses_and_hashes_have_no_meaning(text: str, expected: bool) -> None:
    assert bool(IDENTIFIER.search(text)) == expected


def encode(encoder: Encoder, text: str) -> QueryVector | None:
    return encoder.encode([piece for word in text.split() for piece in encoder.pieces(word)])


def similarity(encoder: Encoder, left: str, right: str) -> float:
    vectors = [encode(encoder, text) for text in (left, right)]
    assert vectors[0] is not None
    assert vectors[1] is not None
    product = float(vectors[0].components @ vectors[1].components)
    return product * vectors[0].inverse_length * vectors[1].inverse_length


@pytest.mark.parametrize(
    ("text", "nearer", "farther"),
    [
        ("sanctioned wallet", "aml screening blockchain addresses", "weather forecast"),
        ("translate", "language conversion", "stock prices"),
        ("doctor", "medical health", "football scores"),
        ("cheap flights", "airline tickets travel", "image recognition"),
    ],
)
def test_texts_that_mean_the_same_are_nearer(
    encoder: Encoder, text: str, nearer: str, farther: str
) -> None:
    assert similarity(encoder, text, nearer) > similarity(encoder, text, farther) + 0.1


def test_a_text_is_as_near_to_itself_as_can_be(encoder: Encoder) -> None:
    assert similarity(encoder, "weather forecast", "forecast weather") == pytest.approx(1)


def test_nothing_has_no_vector(encoder: Encoder, tmp_path: Path) -> None:
    assert encoder.encode(()) is None
    assert encoder.pieces("the") == ()
    zeros = StaticEncoder("", ["aa"], np.zeros((1, 4), np.int8), np.ones(1, np.int16))
    write_encoder(tmp_path / "zeros", zeros)
    zero = Encoder(tmp_path / "zeros")
    assert zero.pieces("aa") == (0,)
    assert zero.encode(zero.pieces("aa")) is None


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(0, 29_000), min_size=1, max_size=200))
def test_a_vector_is_the_rounded_sum_of_the_pieces(encoder: Encoder, pieces: list[int]) -> None:
    pieces = [piece % len(encoder.numbers) for piece in pieces]
    rows = [encoder.rows[piece].tolist() for piece in pieces]
    scales = [int(encoder.scales[piece]) for piece in pieces]
    sums = [sum(map(mul, scales, column)) for column in zip(*rows, strict=True)]
    largest = max(map(abs, sums))
    expected = [round(total * (LARGEST / largest)) for total in sums]
    vector = encoder.encode(pieces)
    assert vector is not None
    assert vector.components.dtype == np.float32
    assert vector.components.tolist() == expected
    assert vector.inverse_length == 1 / sqrt(sum(component**2 for component in expected))
