"""Untrusted text, sanitised for terminals."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.text import JOINERS, shorten


@settings(deadline=None)  # slow on a loaded machine
@given(st.text())
def test_shortened_text_is_one_printable_line(text: str) -> None:
    line = shorten(text)
    assert all(letter.isprintable() or letter in JOINERS for letter in line)
