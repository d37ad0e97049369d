"""Untrusted text, sanitised for terminals."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.errors import InvalidRecord
from indexer.text import (
    JOINERS,
    MAX_LEVELS,
    check_depth,
    describe_encoding,
    drop_ignorable,
    shorten,
)


@settings(deadline=None)  # slow on a loaded machine
@given(st.text())
def test_shortened_text_is_one_printable_line(text: str) -> None:
    line = shorten(text)
    assert all(letter.isprintable() or letter in JOINERS for letter in line)


NAMES = {
    "Coin\u200bbase": "Coinbase",
    "Coin\u00adbase\ufeff": "Coinbase",
    "Coin\u200dbase\u200e": "Coinbase",
    "Coin\U000e0041base": "Coinbase",
    "Coinbase\ufe0f": "Coinbase",
    "Пей\u200dпал": "Пейпал",
    "\u3164": "",
    "\u200d": "",
}


@pytest.mark.parametrize("name", NAMES)
def test_default_ignorable_characters_are_dropped(name: str) -> None:
    assert drop_ignorable(name) == NAMES[name]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_told_from_utf_8(encoding: str) -> None:
    text = '{"id":"é"}'
    assert describe_encoding(text.encode(encoding)) == "is UTF-16; save it as UTF-8"
    assert describe_encoding(text.encode()) == describe_encoding(b"") == ""


@pytest.mark.parametrize(
    "text", [b"[" * MAX_LEVELS, b"[{" * 99 + b"}]" * 99, b"[]" * 900, b"]" * 900]
)
def test_levels_up_to_the_most_are_not_too_deep(text: bytes) -> None:
    check_depth(text)


@pytest.mark.parametrize(
    "text", [b"[" * (MAX_LEVELS + 1), b"[]" * 900 + b'{"a":' * 201 + b"}" * 201]
)
def test_more_levels_are_too_deep_in_whole_and_in_damaged_text(text: bytes) -> None:
    with pytest.raises(InvalidRecord, match="nested too deeply"):
        check_depth(text)
