"""The string table, compared with a sorted list."""

from __future__ import annotations

from math import log2
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.arrays.container import open_arrays, write_arrays
from service.arrays.string_table import StringTable, string_arrays

# Few letters make long common prefixes, longer than those that the table stores as integers.
strings = st.sets(st.text("aé\U0010ffff", max_size=12), max_size=40)


class CountingTable(StringTable):
    """Counts the strings that it compares."""

    compared = 0

    def encoded(self, number: int) -> bytes:
        """Count a comparison."""
        self.compared += 1
        return super().encoded(number)


def table(folder: Path, distinct: set[str]) -> tuple[CountingTable, list[str]]:
    encoded = sorted(string.encode() for string in distinct)
    path = folder / "strings.arrays"
    write_arrays(path, string_arrays("own", encoded))
    return CountingTable(open_arrays(path), "own"), [string.decode() for string in encoded]


@settings(deadline=None)
@given(distinct=strings, absent=st.text("aéx", max_size=12))
def test_strings_are_found_by_value_and_by_number(
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


@pytest.mark.parametrize("prefix", ["", "sameheadsameheadsame"])
def test_a_string_is_found_by_few_comparisons_whatever_the_strings(
    tmp_path: Path, prefix: str
) -> None:
    strings = {f"{prefix}{number:05}" for number in range(40_000)}
    written, expected = table(tmp_path, strings)
    for absent in (f"{prefix}20000x", f"{prefix}", f"{prefix}99999"):
        for look_up in (written.find, written.with_prefix):
            written.compared = 0
            look_up(absent)
            assert written.compared <= 2 * log2(len(expected)) + 4
    written.compared = 0
    assert written.find(expected[20_001]) == 20_001
    assert written.compared <= log2(len(expected)) + 4
