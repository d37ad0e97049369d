"""The choices of a filter."""

from __future__ import annotations

import numpy as np

from service.conditions import Column
from service.filtering.table import Table, text_column
from service.web.card import MAX_TEXT
from service.web.filters import Choice, choices_of

LONG = "x" * (MAX_TEXT + 1)
TAG = Column("tag")
VALUES = text_column(TAG, ["Data", "", LONG], np.array([0, 2, 0, 1]), np.array([2, 1, 1]))
FACET = Table(VALUES, 3, [TAG]).columns["tag"]


def test_without_a_selection_the_counted_values_are_the_choices() -> None:
    counted = FACET.count(np.array([True, False, True]))
    assert choices_of(FACET, (), counted) == [
        Choice("Data", "Data", 1, is_selected=False),
        Choice("", "None", 1, is_selected=False),
    ]


def test_with_a_selection_the_choices_are_those_of_the_catalogue_and_the_selected_ones() -> None:
    assert choices_of(FACET, (" dATA", "Media", "media 2", LONG), []) == [
        Choice("Data", "Data", None, is_selected=True),
        Choice("", "None", None, is_selected=False),
        Choice(LONG, LONG, None, is_selected=True),
        Choice("Media", "Media", None, is_selected=True),
        Choice("media 2", "media 2", None, is_selected=True),
    ]
