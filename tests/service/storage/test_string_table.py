"""Sorted strings found by value and by prefix, beside Python's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.storage.string_table import StringTable, write_string_table

# Few letters make long common prefixes, of more bytes than the table keeps as numbers.
strings = st.sets(st.text("aé\U0010ffff", max_size=12), max_size=40)


def table(folder: Path, distinct: set[str]) -> tuple[StringTable, list[str]]:
    encoded = sorted(string.encode() for string in distinct)
    write_string_table(folder / "strings", encoded)
    return StringTable(folder / "strings"), [string.decode() for string in encoded]


@settings(deadline=None)
@given(distinct=strings, absent=st.text("aéx", max_size=12))
def test_each_string_is_found_by_its_value_and_by_its_number(
    tmp_path_factory: pytest.TempPathFactory, distinct: set[str], absent: str
) -> None:
    written, expected = table(tmp_path_factory.mktemp("strings"), distinct)
    assert [written[number] for number in range(len(written))] == expected
    assert [written.find(string) for string in expected] == list(range(len(expected)))
    assert (written.find(absent) >= 0) is (absent in distinct)


@settings(deadline=None)
@given(distinct=strings, prefix=st.text("aé\U0010ffff", max_size=12))
def test_a_prefix_finds_all_strings_that_begin_with_it(
    tmp_path_factory: pytest.TempPathFactory, distinct: set[str], prefix: str
) -> None:
    written, expected = table(tmp_path_factory.mktemp("strings"), distinct)
    matches = [string for string in expected if string.startswith(prefix)]
    assert [written[number] for number in written.with_prefix(prefix)] == matches
