"""The filters of the catalogue page: their choices, with counts, and the selected ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from service.api.listing import find
from service.api.parameters import ListRequest, format_decimal, format_query
from service.api.query_string import Page
from service.filtering.endpoint_filters import EndpointFilters
from service.filtering.facets import MAX_COUNTED, SERVICE_KEYS, FacetCount, Normaliser
from service.filtering.filters import Filters
from service.snapshot import Snapshot

F = TypeVar("F", Filters, EndpointFilters)

MAX_CHIPS = 20
"""Selected filters with a link that removes one: each link has all others, which is quadratic."""
PRICES = (0.001, 0.01, 0.1, 1.0)

FACETS = ("category", "network")
"""The facets to choose from."""

_ONE = Page(limit=1, offset=0)


class Choice(NamedTuple):
    """A value of a filter, and the number of matches if it alone were selected in this filter."""

    value: str
    label: str
    matches: int | None
    is_selected: bool


class Chip(NamedTuple):
    """A selected filter, and the query string of the listing without it."""

    label: str
    query: str


async def facet_choices(snapshot: Snapshot, listing: ListRequest, name: str) -> list[Choice]:
    """Return the most frequent values of a facet, and the selected ones."""
    filters = listing.filters
    others = {facet: values for facet, values in filters.facets.items() if facet != name}
    # Any order but by relevance saves ranking the matches.
    counting = replace(filters, facets=others, counted=(name,), sort="name")
    hits = await find(snapshot, replace(listing, page=_ONE, filters=counting))
    return choices_of((hits.facets or {})[name], filters.facets.get(name, ()), SERVICE_KEYS[name])


def choices_of(counted: FacetCount, values: Sequence[str], key: Normaliser) -> list[Choice]:
    """Return the values of a counted facet, and the selected `values`.

    Only the most frequent values are counted: where there may be more, others have no count.
    """
    selected = {key(value): value for value in values}
    counts: dict[str, int | None] = {str(each["value"]): int(each["count"]) for each in counted}
    uncounted = selected.keys() - set(map(key, counts))
    unknown = None if len(counted) == MAX_COUNTED else 0
    counts |= {selected[missing]: unknown for missing in sorted(uncounted)}
    return [
        Choice(value, value or "None", count, key(value) in selected)
        for value, count in counts.items()
    ]


async def price_choices(snapshot: Snapshot, listing: ListRequest) -> list[Choice]:
    """Return the maximum prices, the selected one among them."""

    async def count(price: float) -> int:
        filters = replace(listing.filters, max_price=price, sort="relevance", counted=())
        return (await find(snapshot, replace(listing, page=_ONE, filters=filters))).total

    return await prices_of(listing.filters.max_price, count)


async def prices_of(
    selected: float | None, count: Callable[[float], Awaitable[int]]
) -> list[Choice]:
    """Return the maximum prices with their counts, the selected one among them."""
    prices = sorted({*PRICES, *([] if selected is None else [selected])})
    texts = map(format_decimal, prices)
    counts = await asyncio.gather(*map(count, prices))
    return [
        Choice("", "Any price", None, selected is None),
        *(
            Choice(text, f"Up to {text}", matches, price == selected)
            for price, text, matches in zip(prices, texts, counts, strict=True)
        ),
    ]


def hidden_fields(filters: Filters) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the filters that the form has no control for."""
    for name, values in filters.facets.items():
        if name not in FACETS:
            yield from ((name, value) for value in values)
    if filters.match_all:
        yield "match", "all"
    if filters.enriched is False:
        yield "enriched", "false"


def chips(listing: ListRequest) -> list[Chip]:
    """Return the first of the selected filters."""
    return [
        Chip(label, format_query(replace(listing, filters=rest)))
        for label, rest in islice(_removals(listing.filters), MAX_CHIPS)
    ]


def _removals(filters: Filters) -> Iterable[tuple[str, Filters]]:
    """Yield the label of each selected filter, and the filters without it."""
    for name, values in filters.facets.items():
        for value in values:
            rest = [other for other in values if other != value]
            yield value or "None", replace(filters, facets=filters.facets | {name: rest})
    yield from removals_of_flags(filters)
    if filters.match_all:
        yield "All words", replace(filters, match_all=False)


def removals_of_flags(filters: F) -> Iterator[tuple[str, F]]:
    """Yield the labels of the maximum price and of curation, and the filters without them."""
    if filters.max_price is not None:
        price = format_decimal(filters.max_price)
        yield f"Up to {price}", replace(filters, max_price=None)
    if filters.enriched is not None:
        label = "Curated" if filters.enriched else "Not curated"
        yield label, replace(filters, enriched=None)
