"""The words of texts, analysed once for the postings and the vectors of a build."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from service.search.analysis import Word, words_of

LONGEST_CACHED = 32  # characters
"""Pieces of text between blanks repeat, and few are longer."""
CACHED_PIECES = 1 << 15


def words_of_piece(piece: str) -> tuple[Word, ...]:
    """Return the words of a text without blanks."""
    return _cached_words(piece) if is_cached(piece) else tuple(words_of(piece))


def is_cached(piece: str) -> bool:
    """Return whether the words of a text without blanks are cached, as for short texts.

    One character can have 18 letters (U+FDFA), so that the text is measured after it is normalised.
    """
    is_short = len(piece) <= LONGEST_CACHED
    if is_short and not piece.isascii():
        is_short = len(unicodedata.normalize("NFKD", piece)) <= LONGEST_CACHED
    return is_short


@lru_cache(maxsize=CACHED_PIECES)
def _cached_words(piece: str) -> tuple[Word, ...]:
    return tuple(words_of(piece))
