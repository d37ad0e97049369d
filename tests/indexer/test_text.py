"""Untrusted text, sanitised for terminals."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.text import JOINERS, escape_json, shorten


@settings(deadline=None)  # slow on a loaded machine
@given(st.text())
def test_shortened_text_is_one_printable_line(text: str) -> None:
    line = shorten(text)
    assert all(letter.isprintable() or letter in JOINERS for letter in line)


@settings(deadline=None)  # slow on a loaded machine
@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner, max_size=3)))
def test_escaped_json_is_one_printable_line_with_the_same_value(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1)
    escaped = escape_json(text)
    assert escaped.isprintable()
    assert json.loads(escaped) == value
