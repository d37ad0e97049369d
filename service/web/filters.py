"""The filters of a page of services or endpoints: choices with counts, and the selected ones.

Links to pages with other filters are made from the parameters of the canonical query string.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode

from msgspec.structs import replace

from service.api.endpoints import EndpointSelection, find_endpoints
from service.api.services import ServiceSelection, find
from service.filtering.endpoint_filters import EndpointFilters
from service.filtering.facets import (
    ENDPOINT_KEYS,
    MAX_COUNTED,
    OFFER_KEYS,
    SERVICE_KEYS,
    FacetCount,
    FacetCounts,
    Normaliser,
)
from service.filtering.filters import Filters
from service.prices import format_decimal
from service.snapshot import Snapshot
from service.snapshot.data import Hits
from service.snapshot.engine import EndpointHits
from service.web.card import MAX_TEXT

R = TypeVar("R", ServiceSelection, EndpointSelection)

SERVICE_FACETS = ("category", "network")
ENDPOINT_FACETS = (*SERVICE_FACETS, "method")
"""The facets to choose from."""
KEYS: Mapping[str, Normaliser] = {**SERVICE_KEYS, **OFFER_KEYS, **ENDPOINT_KEYS}
PRICES = (0.001, 0.01, 0.1, 1.0)
MAX_CHIPS = 20
"""Selected filters with a link that removes one: each link has all others, which is quadratic."""

CONTROLS = {*ENDPOINT_FACETS, "q", "maxPrice", "sort"}
"""Parameters that the form has a control for."""
SHARED = {"q", "category", "network", "scheme", "tag", "enriched", "maxPrice", "sort"}
"""Parameters that services and endpoints have in common."""

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


def count_unselected(request: R) -> R:
    """Return a request that also counts the facets without a selected value."""
    selected = _selected(request.filters)
    counted = tuple(name for name in _facets_of(request) if name not in selected)
    return replace(request, facets=counted)


async def facet_choices(
    snapshot: Snapshot, request: ServiceSelection | EndpointSelection, counts: FacetCounts | None
) -> dict[str, list[Choice]]:
    """Return the choices of each facet; `counts` has those of the unselected ones."""
    known, selected = counts or {}, _selected(request.filters)
    return {
        name: choices_of(
            known[name] if name in known else await _count_facet(snapshot, request, name),
            selected.get(name, ()),
            KEYS[name],
        )
        for name in _facets_of(request)
    }


def choices_of(counted: FacetCount, values: Sequence[str], key: Normaliser) -> list[Choice]:
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


async def price_choices(
    snapshot: Snapshot, request: ServiceSelection | EndpointSelection
) -> list[Choice]:
    """Return the maximum prices with their counts, the selected one among them."""
    selected = request.filters.max_price
    prices = sorted({*PRICES, *([] if selected is None else [selected])})
    texts = [*map(format_decimal, prices)]
    matches = await asyncio.gather(*(_find(snapshot, request, max_price=text) for text in texts))
    return [
        Choice("", "Any price", None, selected is None),
        *(
            Choice(text, f"Up to {text}", each.total, price == selected)
            for price, text, each in zip(prices, texts, matches, strict=True)
        ),
    ]


def hidden_fields(query: str) -> Iterator[tuple[str, str]]:
    """Yield the parameters that the form has no control for."""
    for name, value in _pairs(query):
        if name not in CONTROLS and (name, value) != ("enriched", "true"):
            yield name, value


def chips(query: str) -> list[Chip]:
    """Return the first of the selected filters."""
    pairs = _pairs(query)
    filters = [at for at, (name, _) in enumerate(pairs) if name not in ("q", "sort")]
    return [
        Chip(_label(*pairs[at]), urlencode(pairs[:at] + pairs[at + 1 :]))
        for at in filters[:MAX_CHIPS]
    ]


def shared_query(query: str) -> str:
    """Return the query string of the page of endpoints for that of services, and vice versa."""
    return urlencode([pair for pair in _pairs(query) if pair[0] in SHARED and pair != BY_NAME])


async def _count_facet(
    snapshot: Snapshot, request: ServiceSelection | EndpointSelection, name: str
) -> FacetCount:
    """Return the counts of a facet among the matches of all other filters."""
    hits = await _find(snapshot, request, **{name: ()}, facets=(name,))
    return (hits.facets or {})[name]


async def _find(
    snapshot: Snapshot, request: ServiceSelection | EndpointSelection, **changes: object
) -> Hits | EndpointHits:
    """Return the counts of all matches with other filters."""
    # Any order but by relevance saves ranking the matches.
    request = replace(request, limit=1, offset=0, sort="popularity", **changes)
    if isinstance(request, ServiceSelection):
        return await find(snapshot, request)
    return await find_endpoints(snapshot, request)


def _label(name: str, value: str) -> str:
    match name, value:
        case "maxPrice", price:
            return f"Up to {price}"
        case "enriched", flag:
            return "Curated" if flag == "true" else "Not curated"
        case "match", _:
            return "All words"
        case "perService", "0":
            return "All of each service"
        case "perService", number:
            return f"Up to {number} of a service"
    return value or "None"


def _pairs(query: str) -> list[tuple[str, str]]:
    return parse_qsl(query, keep_blank_values=True)


def _facets_of(request: ServiceSelection | EndpointSelection) -> tuple[str, ...]:
    return SERVICE_FACETS if isinstance(request, ServiceSelection) else ENDPOINT_FACETS


def _selected(filters: Filters | EndpointFilters) -> Mapping[str, Sequence[str]]:
    """Return the selected values of facets."""
    return filters.facets | (filters.offers if isinstance(filters, EndpointFilters) else {})
