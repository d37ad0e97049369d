"""A static encoder: text becomes word pieces, and the sum of their vectors is its vector.

Sums are of integers, so that a text has the same vector on every processor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from service.arrays.container import open_arrays
from service.search.analysis import is_encodable

CONTINUATION = "##"
"""Prefix of a word piece that does not begin a word."""
LARGEST = 127
"""Largest component of a stored vector. Products of two such vectors of up to 1,000 components add
up to less than 2^24, so that their sums are exact in float32, whatever the order."""
LARGEST_SCALE = 4095
"""Largest scale of a row: sums of 4,000 products of components and scales fit in int32."""

IDENTIFIER = re.compile(
    r"0[xX][0-9a-fA-F]{4}"
    r"|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
    r"|[0-9][A-Za-z]+[0-9]+[A-Za-z]+[0-9]"  # three numbers between letters
)
"""Part of a hash, a UUID, a key or the like: a text with such a part has no meaning."""

Vector = npt.NDArray[np.float32]


class QueryVector(NamedTuple):
    """The vector of a query: components of -127 to 127, and the inverse of its length."""

    components: Vector
    inverse_length: float


class Encoder:
    """Vectors of English words, by their word pieces.

    pieces: one a line
    rows, scales: int8[pieces, dimensions], and the factor of each vector

    `indexer.encoder.encoding.TextEncoder` encodes documents by the same pieces.
    """

    def __init__(self, path: Path) -> None:
        arrays = open_arrays(path)
        pieces = arrays["pieces"].tobytes().decode().split("\n")
        self.numbers = dict(zip(pieces, range(len(pieces)), strict=True))
        self.rows, self.scales = arrays["rows"], arrays["scales"]
        self._factors = self.scales.astype(np.int32)

    def pieces(self, word: str) -> tuple[int, ...]:
        """Return the numbers of the pieces of a folded word, none where it has no vector."""
        return word_pieces(self.numbers, word) if is_encodable(word) else ()

    def encode(self, pieces: Sequence[int]) -> QueryVector | None:
        """Return the vector of a query of these pieces, or None where they add up to nothing."""
        if not pieces:
            return None
        # `einsum` adds integers in one pass, and starts no threads.
        rows, factors = self.rows.take(pieces, axis=0), self._factors.take(pieces)
        return quantise(np.einsum("p,pd->d", factors, rows))


def word_pieces(numbers: Mapping[str, int], word: str) -> tuple[int, ...]:
    """Cut a word into the longest known pieces, from the left (WordPiece; Wu et al., 2016).

    Returns the `numbers` of the pieces, none where a part of the word is no piece.
    """
    pieces: list[int] = []
    start = 0
    while start < len(word):
        prefix = CONTINUATION if start else ""
        for stop in range(len(word), start, -1):
            number = numbers.get(prefix + word[start:stop])
            if number is not None:
                pieces.append(number)
                break
        else:
            return ()
        start = stop
    return tuple(pieces)


def scale_rows(rows: npt.NDArray[np.int8], scales: npt.NDArray[np.int16]) -> npt.NDArray[np.int32]:
    """Return the vectors of pieces, each row times its scale."""
    return rows * scales.astype(np.int32)[:, np.newaxis]


def quantise(sums: npt.NDArray[np.int32]) -> QueryVector | None:
    """Return the vector in the direction of sums, None where all are 0."""
    largest = int(np.abs(sums).max(initial=0))
    if not largest:
        return None
    components = np.rint(sums * (LARGEST / largest))
    return QueryVector(components.astype(np.float32), 1 / sqrt(np.dot(components, components)))
