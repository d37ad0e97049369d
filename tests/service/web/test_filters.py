"""The choices of a filter."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest

from service.app import create_app
from service.conditions import Column
from service.filtering.table import Table, text_column
from service.settings import Settings
from service.web.card import MAX_TEXT
from service.web.filters import Choice, choices_of
from tests.support.running import Json, in_process

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


def fields_of(page: str) -> list[Json]:
    """Return the attributes of the inputs of a page's form."""
    form = page[page.index('<form id="search"') : page.index("</form>")]
    found = re.findall("<input([^>]*)>", form)
    return [
        dict(re.findall(r'(\w+)="([^"]*)"', each)) | {"checked": each.endswith(" checked")}
        for each in found
    ]


@pytest.mark.parametrize("path", ["/", "/endpoints"])
@pytest.mark.parametrize(
    "query",
    [
        "",
        "enriched=true",
        "enriched=false",
        "enriched=false&category=Data&network=Base&tag=a&tag=b&maxPrice=0.1&alive=false",
    ],
)
def test_a_form_sends_the_filters_that_are_set_and_each_name_once(
    path: str, query: str, sample: Path
) -> None:
    with in_process(create_app(Settings(artifacts=str(sample), max_lag=0))) as client:
        fields = fields_of(client.get(f"{path}?{query}").text)
    hidden = {each["name"] for each in fields if each["type"] == "hidden"}
    assert hidden.isdisjoint(each["name"] for each in fields if each["type"] != "hidden")
    choices = ("checkbox", "radio")
    sent = [each for each in fields if each["checked"] or each["type"] not in choices]
    kept = [(each["name"], unescape(each["value"])) for each in sent if each["value"]]
    assert sorted(urlencode(kept).split("&")) == sorted(query.split("&"))
