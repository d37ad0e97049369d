"""Text of others, sanitised for terminals."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.text import JOINERS, escape_json, shorten


@settings(deadline=None)  # a loaded machine is slow
@given(st.text())
def test_shortened_text_is_one_printable_line(text: str) -> None:
    line = shorten(text)
    assert all(letter.isprintable() or letter in JOINERS for letter in line)


@settings(deadline=None)  # a loaded machine is slow
@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner, max_size=3)))
def test_escaped_json_means_the_same_and_is_one_printable_line(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1)
    shown = escape_json(text)
    assert shown.isprintable()
    assert json.loads(shown) == value
