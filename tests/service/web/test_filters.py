"""The choices of a filter."""

from __future__ import annotations

from service.conditions import MAX_COUNTED
from service.filtering.facets import ValueCounts
from service.web.filters import Choice, choices_of


def test_selected_values_beyond_the_counted_ones_have_no_count() -> None:
    few: ValueCounts = [{"value": "Data", "count": 3}]
    assert choices_of(few, ["data", "Media"], str.casefold) == [
        Choice("Data", "Data", 3, is_selected=True),
        Choice("Media", "Media", 0, is_selected=True),
    ]
    many: ValueCounts = [{"value": f"v{n}", "count": 2} for n in range(MAX_COUNTED)]
    *counted, last = choices_of(many, ["Media"], str.casefold)
    assert len(counted) == MAX_COUNTED
    assert last == Choice("Media", "Media", None, is_selected=True)
