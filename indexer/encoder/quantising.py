"""Vectors in integers: quantised, joined and added up, with the same bits on any processor."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from service.search.semantic.encoder import LARGEST
from service.search.semantic.vectors import Rows

UNIT_LENGTH = 1 << 16
"""Steps of a length of 1."""


class EncodedTexts(NamedTuple):
    """Vectors of texts: int8[texts, dimensions], and the inverses of their lengths, float32."""

    rows: Rows
    inverse_lengths: npt.NDArray[np.float32]


def quantise_rows(sums: npt.NDArray[np.int32]) -> EncodedTexts:
    """Return the integers of -127 to 127 in the directions of sums, and their inverse lengths."""
    largest = np.abs(sums).max(axis=1, initial=0)
    factors = LARGEST / np.maximum(largest, 1)
    rows = np.rint(sums * factors[:, np.newaxis]).astype(np.int8)
    squares = np.square(rows, dtype=np.int32).sum(axis=1)
    with np.errstate(divide="ignore"):
        inverse_lengths = np.where(squares > 0, 1 / np.sqrt(squares), 0)
    return EncodedTexts(rows, inverse_lengths.astype(np.float32))


def no_vectors(count: int) -> EncodedTexts:
    """Return vectors of no dimensions, for texts that are not encoded."""
    return EncodedTexts(np.empty((count, 0), np.int8), np.zeros(count, np.float32))


def add_vectors(left: EncodedTexts, right: EncodedTexts, weight: float = 1.0) -> EncodedTexts:
    """Return left + weight · right, of vectors that are scaled to length 1."""
    factors = [each.inverse_lengths.astype(np.float64)[:, np.newaxis] for each in (left, right)]
    factors[1] *= weight
    sums = np.rint((left.rows * factors[0] + right.rows * factors[1]) * UNIT_LENGTH)
    return quantise_rows(sums.astype(np.int32))
