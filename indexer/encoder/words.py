"""The words of texts, analysed once for the postings and the vectors of a build."""

from __future__ import annotations

from functools import lru_cache

from service.search.analysis import Word, words_of

LONGEST_CACHED = 32  # characters
"""Pieces of text between blanks repeat, and few are longer."""
CACHED_PIECES = 1 << 17


def words_of_piece(piece: str) -> tuple[Word, ...]:
    """Return the words of a text without blanks."""
    return _cached_words(piece) if len(piece) <= LONGEST_CACHED else tuple(words_of(piece))


@lru_cache(maxsize=CACHED_PIECES)
def _cached_words(piece: str) -> tuple[Word, ...]:
    return tuple(words_of(piece))
