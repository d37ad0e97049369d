"""Words of texts in a build: short ones are cached, and hostile ones do not fill the memory."""

from __future__ import annotations

from indexer.encoder.encoding import is_cached, words_of_piece
from service.search.analysis import words_of


def test_a_text_is_cached_by_the_length_of_its_letters() -> None:
    assert is_cached("weather")
    assert is_cached("Überwachung")
    assert not is_cached("a" * 33)
    assert not is_cached("\ufdfa" * 2)  # 36 letters


def test_words_are_the_same_whether_or_not_they_are_cached() -> None:
    for piece in ("weatherMaps", "x" * 40, "\ufdfa" * 3, "\ufdfa"):
        assert words_of_piece(piece) == tuple(words_of(piece))
