"""The filters of a page of services or endpoints: choices with counts, and the selected ones.

Links to pages with other filters are made from the parameters of the canonical query string.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urlencode

from msgspec.structs import replace

from service.api.endpoints import EndpointSelection, find_endpoints
from service.api.query_string import format_pairs, parameters_of
from service.api.services import ServiceSelection, find
from service.conditions import (
    ENDPOINT_KEYS,
    MAX_COUNTED,
    OFFER_KEYS,
    SERVICE_KEYS,
    Normaliser,
)
from service.filtering.facets import FacetCounts, ValueCounts
from service.prices import format_decimal
from service.snapshot import Snapshot
from service.snapshot.data import Hits
from service.snapshot.engine import EndpointHits
from service.web.card import MAX_TEXT

KEYS: Mapping[str, Normaliser] = {**SERVICE_KEYS, **OFFER_KEYS, **ENDPOINT_KEYS}
PRICES = (0.001, 0.01, 0.1, 1.0)
MAX_CHIPS = 20
"""Selected filters with a link that removes one: each link has all others, which is quadratic."""

SERVICE_PANELS = ("category", "network")
ENDPOINT_PANELS = (*SERVICE_PANELS, "method")
"""The facets to choose from."""

FORM_BLANKS = frozenset({"q", "maxPrice"})
"""Parameters for which the forms send blank text where none is chosen."""


class BrowseServices(ServiceSelection, frozen=True, kw_only=True):
    """Parameters of the page of services, which is always one of 24."""

    FIXED = frozenset({"limit", "facets", "endpoints", "explain"})
    BLANK_IS_NONE = FORM_BLANKS
    is_slow = True
    PANELS = SERVICE_PANELS
    is_expensive = True  # counts the choices


class BrowseEndpoints(EndpointSelection, frozen=True, kw_only=True):
    """Parameters of the page of endpoints, which is always one of 24."""

    FIXED = EndpointSelection.FIXED | {"limit", "facets", "explain"}
    BLANK_IS_NONE = FORM_BLANKS
    is_slow = True
    PANELS = ENDPOINT_PANELS


BrowseOperation: TypeAlias = BrowseServices | BrowseEndpoints
L = TypeVar("L", BrowseServices, BrowseEndpoints)

CONTROLS = {*ENDPOINT_PANELS, "q", "maxPrice", "sort"}
"""Parameters that the form has a control for."""
SHARED = parameters_of(BrowseServices).keys() & parameters_of(BrowseEndpoints).keys()
LABELS = {
    ("enriched", "true"): "Curated",
    ("enriched", "false"): "Not curated",
    ("registration", "true"): "With registration",
    ("registration", "false"): "Without registration",
    ("alive", "true"): "Alive",
    ("alive", "false"): "Dead",
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
    """A value of a filter, and the number of matches if it alone were selected in this filter."""

    value: str
    label: str
    matches: int | None
    is_selected: bool


class Chip(NamedTuple):
    """A selected filter, and the query string of the page without it."""

    label: str
    query: str


def count_unselected(listing: L) -> L:
    """Return the parameters that also count the facets without a selected value."""
    counted = tuple(name for name in listing.PANELS if not getattr(listing, name))
    return replace(listing, facets=counted)


async def controls_of(
    snapshot: Snapshot, listing: BrowseOperation, counts: FacetCounts | None
) -> dict[str, Any]:
    """Return the values of the filters, which pages of services and of endpoints share.

    `counts` has the facets without a selected value. Of the result, `hidden_fields` are the
    parameters that the form has no control for, and `other` is the query string of the page of
    endpoints for that of services, and vice versa.
    """
    pairs = format_pairs(replace(listing, offset=0))
    filters = [at for at, (name, _) in enumerate(pairs) if name not in ("q", "sort")]
    return {
        "listing": listing,
        "facets": await facet_choices(snapshot, listing, counts or {}),
        "prices": await price_choices(snapshot, listing),
        "hidden_fields": [
            pair for pair in pairs if pair[0] not in CONTROLS and pair != ("enriched", "true")
        ],
        "chips": [
            Chip(label_of(*pairs[at]), urlencode(pairs[:at] + pairs[at + 1 :]))
            for at in filters[:MAX_CHIPS]
        ],
        "other": urlencode([pair for pair in pairs if pair[0] in SHARED and pair != BY_NAME]),
    }


def label_of(name: str, value: str) -> str:
    """Return the label of a selected filter."""
    return LABELS.get((name, value)) or VALUE_LABELS.get(name, "{}").format(value or "None")


async def facet_choices(
    snapshot: Snapshot, listing: BrowseOperation, counts: FacetCounts
) -> dict[str, list[Choice]]:
    """Return the choices of each facet; a selected one is counted without its own values."""
    for name in listing.PANELS:
        if name not in counts:
            hits = await _find(snapshot, listing, **{name: ()}, facets=(name,))
            counts = counts | (hits.facets or {})
    return {
        name: choices_of(counts[name], getattr(listing, name), KEYS[name])
        for name in listing.PANELS
    }


def choices_of(counted: ValueCounts, values: Sequence[str], key: Normaliser) -> list[Choice]:
    """Return the values of a counted facet, and the selected `values`.

    Only the most frequent values are counted: where there may be more, others have no count. Long
    values are no choices: the address of a page has room for few of them.
    """
    selected = {key(value): value for value in values}
    counts: dict[str, int | None] = {str(each["value"]): int(each["count"]) for each in counted}
    uncounted = selected.keys() - set(map(key, counts))
    unknown = None if len(counted) == MAX_COUNTED else 0
    counts |= {selected[missing]: unknown for missing in sorted(uncounted)}
    return [
        Choice(value, value or "None", count, key(value) in selected)
        for value, count in counts.items()
        if len(value) <= MAX_TEXT or key(value) in selected
    ]


async def price_choices(snapshot: Snapshot, listing: BrowseOperation) -> list[Choice]:
    """Return the maximum prices with their counts, the selected one among them."""
    selected = listing.max_price
    prices = sorted({*PRICES, *([] if selected is None else [selected])})
    texts = [*map(format_decimal, prices)]
    matches = await asyncio.gather(*(_find(snapshot, listing, max_price=price) for price in prices))
    return [
        Choice("", "Any price", None, selected is None),
        *(
            Choice(text, f"Up to {text}", each.total, price == selected)
            for price, text, each in zip(prices, texts, matches, strict=True)
        ),
    ]


async def _find(
    snapshot: Snapshot, listing: BrowseOperation, **changes: object
) -> Hits | EndpointHits:
    """Return the counts of all matches with other filters."""
    # Any order but by relevance saves ranking the matches.
    listing = replace(listing, limit=1, offset=0, sort="popularity", **changes)
    if isinstance(listing, BrowseServices):
        return await find(snapshot, listing)
    return await find_endpoints(snapshot, replace(listing, per_service=0))
