"""Texts to words, and to vectors in integers: a text has the same vector on every processor.

`service.search.semantic.encoder` does the same for a query.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from service.search.analysis import is_encodable, words_of
from service.search.postings import Integers
from service.search.semantic.encoder import (
    IDENTIFIER,
    LARGEST,
    Encoder,
    scale_rows,
    word_pieces,
)
from service.search.semantic.vectors import Floats, Rows

MOST_PIECES = 512
"""Pieces of a text that are encoded, the first: of a longer one they say what it is about."""
PIECE_SIZE = 4
"""Bytes of the number of a piece, a native int32."""
BATCH = 4096  # texts
TITLE_WEIGHT = 0.6
"""Weight of the name of a service, or the path of an endpoint, beside the whole text."""
UNIT_LENGTH = 1 << 16
"""Steps of a length of 1."""
LONGEST_CACHED = 32  # characters
"""Pieces of text between blanks repeat, and few are longer."""
CACHED_PIECES = 1 << 15


class TextEncoder:
    """Encodes documents in their order, with the `Encoder` of a folder.

    The vector of a document is the vector of its whole text plus TITLE_WEIGHT times the vector of
    its title, both scaled to length 1.
    """

    def __init__(self, folder: Path) -> None:
        self._numbers, self._encoder = open_pieces(folder)
        self._pieces = bytearray()
        self._titles, self._texts = array("i"), array("i")  # counts of pieces
        self._encoded: list[Rows] = []

    def add(self, title: str, text: str) -> None:
        """Add a document."""
        pieces = self._pieces_of(title)
        self._titles.append(len(pieces) // PIECE_SIZE)
        pieces = (pieces + self._pieces_of(text))[: MOST_PIECES * PIECE_SIZE]
        self._texts.append(len(pieces) // PIECE_SIZE)
        self._pieces += pieces
        if len(self._texts) == BATCH:
            self._flush()

    def encoded(self) -> Rows:
        """Return the vectors of all documents: int8[documents, dimensions]."""
        self._flush()
        return np.concatenate(self._encoded)

    def _pieces_of(self, text: str) -> bytes:
        return b"".join(map(self._numbers.__getitem__, text.split()))[: MOST_PIECES * PIECE_SIZE]

    def _flush(self) -> None:
        pieces = np.frombuffer(bytes(self._pieces), np.int32)
        is_used = np.bincount(pieces, minlength=len(self._encoder.rows)) > 0
        vectors = scale_rows(self._encoder.rows[is_used], self._encoder.scales[is_used])
        numbers = (np.cumsum(is_used) - 1)[pieces]  # of the vectors
        titles, texts = np.array(self._titles, np.int64), np.array(self._texts, np.int64)
        starts = np.cumsum(texts) - texts
        title = quantise_rows(sum_vectors(vectors, numbers, starts, titles))
        whole = quantise_rows(sum_vectors(vectors, numbers, starts, texts))
        self._encoded.append(add_vectors(whole, title, TITLE_WEIGHT))
        del self._pieces[:], self._titles[:], self._texts[:]


@lru_cache(maxsize=1)
def open_pieces(folder: Path) -> tuple[PieceNumbers, Encoder]:
    """Return the word pieces of an encoder, and the encoder, kept for the next texts."""
    encoder = Encoder(folder)
    return PieceNumbers(encoder.numbers), encoder


class PieceNumbers(dict[str, bytes]):
    """The numbers of the word pieces of a text without blanks, packed."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self._of_word = lru_cache(CACHED_PIECES)(partial(word_pieces, numbers))

    def __missing__(self, text: str) -> bytes:
        pieces = array("i", chain.from_iterable(self.words_of(text))).tobytes()
        if len(text) <= LONGEST_CACHED:
            if len(self) == CACHED_PIECES:
                self.clear()
            self[text] = pieces
        return pieces

    def words_of(self, text: str) -> list[tuple[int, ...]]:
        """Return the numbers of the pieces of each word of a text without blanks."""
        if IDENTIFIER.search(text):
            return []
        words = [word.text for word in words_of(text) if not word.redundant]
        return [self._of_word(word) if is_encodable(word) else () for word in words]


def sum_vectors(
    vectors: npt.NDArray[np.int32], numbers: Integers, starts: Integers, counts: Integers
) -> npt.NDArray[np.int32]:
    """Sum, for each text i, the vectors of `counts[i]` numbers from `starts[i]`.

    Adds the first piece of all texts, then the second, and so on: seven times as fast as
    `np.add.reduceat`.
    """
    sums = np.zeros((len(counts), vectors.shape[1]), np.int32)
    order = np.argsort(-counts, kind="stable")
    longest_first, starts = -counts[order], starts[order]
    for position in range(counts.max(initial=0)):
        texts = int(longest_first.searchsorted(-position))
        sums[:texts] += vectors.take(numbers[starts[:texts] + position], axis=0)
    in_order = np.empty_like(sums)
    in_order[order] = sums
    return in_order


def quantise_rows(sums: npt.NDArray[np.int32]) -> Rows:
    """Return the integers of -127 to 127 in the directions of sums."""
    largest = np.abs(sums).max(axis=1, initial=0)
    factors = LARGEST / np.maximum(largest, 1)
    rows: Rows = np.rint(sums * factors[:, np.newaxis]).astype(np.int8)
    return rows


def inverse_lengths(rows: Rows) -> Floats:
    """Return the inverse lengths of vectors, 0 for one without meaning."""
    squares = np.square(rows, dtype=np.int32).sum(axis=1)
    lengths: Floats = np.zeros(len(rows), np.float32)
    np.divide(1, np.sqrt(squares), out=lengths, where=squares > 0, casting="same_kind")
    return lengths


def add_vectors(left: Rows, right: Rows, weight: float = 1.0) -> Rows:
    """Return left + weight · right, of vectors that are scaled to length 1, in integers."""
    factors = [inverse_lengths(each).astype(np.float64)[:, np.newaxis] for each in (left, right)]
    factors[1] *= weight
    sums = np.rint((left * factors[0] + right * factors[1]) * UNIT_LENGTH)
    return quantise_rows(sums.astype(np.int32))
