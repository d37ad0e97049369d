"""The filters of a page of services or endpoints: choices with counts, and the selected ones.

Links to pages with other filters are made from the parameters of the canonical query string.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urlencode

from msgspec import Meta
from msgspec.structs import replace

from service.api.endpoints import EndpointSelection, find_endpoints
from service.api.query_string import PriceBound, parameters_of
from service.api.services import ServiceSelection, find
from service.filtering.facets import (
    ENDPOINT_KEYS,
    MAX_COUNTED,
    OFFER_KEYS,
    SERVICE_KEYS,
    FacetCounts,
    Normaliser,
    ValueCounts,
)
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

FormPrice = Annotated[PriceBound, Meta(extra={"is_blank_missing": True})]
"""A maximum price, for which the forms send blank text where none is chosen."""


class BrowseServices(ServiceSelection, frozen=True, kw_only=True):
    """Parameters of the page of services, which is always one of 24."""

    FIXED = frozenset({"limit", "facets", "endpoints", "explain", "snapshot"})
    is_slow = True
    PANELS = SERVICE_PANELS
    max_price: FormPrice | None = None
    is_expensive = True  # counts the choices


class BrowseEndpoints(EndpointSelection, frozen=True, kw_only=True):
    """Parameters of the page of endpoints, which is always one of 24."""

    FIXED = frozenset({"limit", "facets", "explain", "snapshot"})
    is_slow = True
    PANELS = ENDPOINT_PANELS
    max_price: FormPrice | None = None


BrowseOperation: TypeAlias = BrowseServices | BrowseEndpoints
Pairs: TypeAlias = list[tuple[str, str]]
"""The parameters of a canonical query string, with their values."""
L = TypeVar("L", BrowseServices, BrowseEndpoints)

CONTROLS = {*ENDPOINT_PANELS, "q", "maxPrice", "sort"}
"""Parameters that the form has a control for."""
SHARED = parameters_of(BrowseServices).keys() & parameters_of(BrowseEndpoints).keys()
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


async def facet_choices(
    snapshot: Snapshot, listing: BrowseOperation, counts: FacetCounts | None
) -> dict[str, list[Choice]]:
    """Return the choices of each facet; `counts` has those of the unselected ones."""
    counts = counts or {}
    return {
        name: choices_of(
            counts[name] if name in counts else await _count_facet(snapshot, listing, name),
            getattr(listing, name),
            KEYS[name],
        )
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
    selected = listing.filters.max_price
    prices = sorted({*PRICES, *([] if selected is None else [selected])})
    texts = [*map(format_decimal, prices)]
    matches = await asyncio.gather(*(_find(snapshot, listing, max_price=text) for text in texts))
    return [
        Choice("", "Any price", None, selected is None),
        *(
            Choice(text, f"Up to {text}", each.total, price == selected)
            for price, text, each in zip(prices, texts, matches, strict=True)
        ),
    ]


def hidden_fields(pairs: Pairs) -> Pairs:
    """Return the parameters that the form has no control for."""
    return [pair for pair in pairs if pair[0] not in CONTROLS and pair != ("enriched", "true")]


def chips(pairs: Pairs) -> list[Chip]:
    """Return the first of the selected filters."""
    filters = [at for at, (name, _) in enumerate(pairs) if name not in ("q", "sort")]
    return [
        Chip(_label(*pairs[at]), urlencode(pairs[:at] + pairs[at + 1 :]))
        for at in filters[:MAX_CHIPS]
    ]


def shared_query(pairs: Pairs) -> str:
    """Return the query string of the page of endpoints for that of services, and vice versa."""
    return urlencode([pair for pair in pairs if pair[0] in SHARED and pair != BY_NAME])


async def _count_facet(snapshot: Snapshot, listing: BrowseOperation, name: str) -> ValueCounts:
    """Return the counts of a facet among the matches of all other filters."""
    hits = await _find(snapshot, listing, **{name: ()}, facets=(name,))
    return (hits.facets or {})[name]


async def _find(
    snapshot: Snapshot, listing: BrowseOperation, **changes: object
) -> Hits | EndpointHits:
    """Return the counts of all matches with other filters."""
    # Any order but by relevance saves ranking the matches.
    listing = replace(listing, limit=1, offset=0, sort="popularity", **changes)
    if isinstance(listing, BrowseServices):
        return await find(snapshot, listing)
    return await find_endpoints(snapshot, replace(listing, per_service=0))


def _label(name: str, value: str) -> str:
    match name, value:
        case "maxPrice", price:
            return f"Up to {price}"
        case "enriched", flag:
            return "Curated" if flag == "true" else "Not curated"
        case "registration", flag:
            return "With registration" if flag == "true" else "Without registration"
        case "minPayers", number:
            return f"{number} payers or more"
        case "alive", flag:
            return "Alive" if flag == "true" else "Dead"
        case "match", _:
            return "All words"
        case "perService", "0":
            return "All of each service"
        case "perService", number:
            return f"Up to {number} of a service"
    return value or "None"
