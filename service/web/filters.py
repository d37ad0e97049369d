"""The filters of a page of services or endpoints: their choices, and the selected ones.

Links to pages with other filters are made from the parameters of the canonical query string.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlencode

from msgspec.structs import replace

from service.api.endpoints import EndpointSelection
from service.api.query_string import format_pairs, parameters_of
from service.api.services import ServiceSelection
from service.filtering.table import FacetCounts, TextColumn, ValueCounts
from service.prices import format_decimal
from service.web.card import MAX_TEXT

PRICES = (0.001, 0.01, 0.1, 1.0)
MAX_CHIPS = 20
"""Selected filters with a link that removes one: each link has all others, which is quadratic."""

MAX_CATEGORIES = 16
"""Categories that have a link."""

FORM_BLANKS = frozenset({"q", "maxPrice"})
"""Parameters for which the forms send blank text where none is chosen."""


class BrowseServices(ServiceSelection, frozen=True, kw_only=True):
    """Parameters of the page of services, which is always one of 24."""

    FIXED = ServiceSelection.FIXED | {"limit", "facets", "endpoints", "explain"}
    BLANK_IS_NONE = FORM_BLANKS
    facets: tuple[str, ...] = ("category", "network")
    best_endpoints: bool = True
    is_expensive = True  # counts the choices


class BrowseEndpoints(EndpointSelection, frozen=True, kw_only=True):
    """Parameters of the page of endpoints, which is always one of 24."""

    FIXED = EndpointSelection.FIXED | {"limit", "facets", "explain"}
    BLANK_IS_NONE = FORM_BLANKS
    facets: tuple[str, ...] = ("category", "network", "method")


BrowseOperation: TypeAlias = BrowseServices | BrowseEndpoints

CONTROLS = {"category", "network", "method", "q", "maxPrice", "enriched", "sort"}
"""Parameters that the form has a control for."""
SHARED = parameters_of(BrowseServices).keys() & parameters_of(BrowseEndpoints).keys()
LABELS = {
    ("enriched", "true"): "Curated",
    ("enriched", "false"): "Not curated",
    ("registration", "true"): "With registration",
    ("registration", "false"): "Without registration",
    ("alive", "true"): "Alive",
    ("alive", "false"): "Dead",
    ("delivered", "true"): "Delivered",
    ("delivered", "false"): "Never delivered",
    ("match", "all"): "All words",
    ("perService", "0"): "All of each service",
}
"""Labels of selected filters, by parameter and value."""
VALUE_LABELS = {
    "maxPrice": "Up to {}",
    "minPayers": "{} payers or more",
    "perService": "Up to {} of a service",
}
"""Labels with a place for any other value; without such a label, the value is the label."""
BY_NAME = ("sort", "name")
"""The order that services alone have."""


class Choice(NamedTuple):
    """A value of a filter; where it was counted, the number of matches that have it."""

    value: str
    label: str
    matches: int | None
    is_selected: bool


def controls_of(
    listing: BrowseOperation, facets: Mapping[str, TextColumn], counts: FacetCounts
) -> dict[str, Any]:
    """Return the values of the filters, which pages of services and of endpoints share.

    hidden_fields: the parameters that the form has no control for
    chips: the label of each selected filter, and the query string of the page without it
    categories: the most frequent of the matches, or of the catalogue where none match
    kept: the query string of the page without its categories
    other: the query string of the page of endpoints for that of services, and vice versa
    """
    pairs = format_pairs(replace(listing, offset=0))
    selected = listing.max_price
    prices = sorted({*PRICES, *([] if selected is None else [selected])})
    filters = [at for at, (name, _) in enumerate(pairs) if name not in ("q", "sort")]
    choices = {
        name: choices_of(facets[name], getattr(listing, name), counts[name])
        for name in listing.facets
    }
    categories = choices["category"][:MAX_CATEGORIES] or categories_of(facets["category"])
    return {
        "listing": listing,
        "facets": choices,
        "categories": categories,
        "kept": urlencode([pair for pair in pairs if pair[0] != "category"]),
        "prices": [
            Choice("", "Any price", None, selected is None),
            *(
                Choice(text, f"Up to {text}", None, price == selected)
                for price, text in zip(prices, map(format_decimal, prices), strict=True)
            ),
        ],
        "hidden_fields": [pair for pair in pairs if pair[0] not in CONTROLS],
        "chips": [
            (label_of(*pairs[at]), urlencode(pairs[:at] + pairs[at + 1 :]))
            for at in filters[:MAX_CHIPS]
        ],
        "other": urlencode([pair for pair in pairs if pair[0] in SHARED and pair != BY_NAME]),
    }


def categories_of(facet: TextColumn) -> list[Choice]:
    """Return the most frequent categories of the catalogue, with their counts."""
    return choices_of(facet, (), facet.count(None))[:MAX_CATEGORIES]


def label_of(name: str, value: str) -> str:
    """Return the label of a selected filter."""
    return LABELS.get((name, value)) or VALUE_LABELS.get(name, "{}").format(value or "None")


def choices_of(facet: TextColumn, selected: Sequence[str], counted: ValueCounts) -> list[Choice]:
    """Return the counted values of a facet, or with a selection the most frequent of the catalogue.

    The latter have no counts: only another search could count what another selection finds. Long
    values are no choices: the address of a page has room for few of them.
    """
    if not selected:
        pairs = [(str(each["value"]), int(each["count"])) for each in counted]
        return [
            Choice(text, text or "None", n, False) for text, n in pairs if len(text) <= MAX_TEXT
        ]
    values = [str(each["value"]) for each in facet.count(None)]
    known, chosen = {*map(facet.values.find, values)}, {*map(facet.values.find, selected)}
    values += [text for text in selected if facet.values.find(text) not in known]
    choices = [
        Choice(text, text or "None", None, facet.values.find(text) in chosen) for text in values
    ]
    return [each for each in choices if each.is_selected or len(each.value) <= MAX_TEXT]
