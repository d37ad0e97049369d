"""The filters of the page of endpoints, and their way to the catalogue page and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec.structs import replace

from service.api.endpoints import (
    DEFAULT_PER_SERVICE,
    EndpointRequest,
    format_endpoint_query,
)
from service.api.parameters import ListRequest, format_query
from service.filtering.endpoint_filters import EndpointFilters
from service.filtering.facets import (
    ENDPOINT_KEYS,
    OFFER_KEYS,
    SERVICE_FACETS,
    FacetCount,
    FacetCounts,
)
from service.filtering.filters import Filters
from service.snapshot import Snapshot
from service.web.filters import MAX_CHIPS, Chip, Choice, choices_of, prices_of, removals_of_flags

FACETS = ("category", "network", "method")
"""The facets to choose from."""
KEYS = {**OFFER_KEYS, **ENDPOINT_KEYS}


def unselected(filters: EndpointFilters) -> tuple[str, ...]:
    """Return the facets without a selected value, which are counted as all matches are found."""
    return tuple(name for name in FACETS if name not in _values(filters))


async def facet_choices(
    snapshot: Snapshot, search: EndpointRequest, counts: FacetCounts
) -> dict[str, list[Choice]]:
    """Return the choices of each facet; `counts` has those of the unselected ones."""
    return {
        name: choices_of(
            counts[name] if name in counts else await _count_facet(snapshot, search, name),
            _values(search.filters).get(name, ()),
            KEYS[name],
        )
        for name in FACETS
    }


async def price_choices(snapshot: Snapshot, search: EndpointRequest) -> list[Choice]:
    """Return the maximum prices, the selected one among them."""

    async def count(price: float) -> int:
        filters = replace(search.filters, max_price=price, per_service=0, counted=())
        return (await snapshot.engine.search_endpoints(search.query, 1, 0, filters)).total

    return await prices_of(search.filters.max_price, count)


def hidden_fields(filters: EndpointFilters) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the filters that the form has no control for."""
    for name, values in _values(filters).items():
        if name not in FACETS:
            yield from ((name, value) for value in values)
    if filters.enriched is False:
        yield "enriched", "false"
    if filters.per_service != DEFAULT_PER_SERVICE:
        yield "perService", str(filters.per_service)


def chips(search: EndpointRequest) -> list[Chip]:
    """Return the first of the selected filters."""
    return [
        Chip(label, format_endpoint_query(replace(search, filters=rest)))
        for label, rest in islice(_removals(search.filters), MAX_CHIPS)
    ]


def query_of_all(search: EndpointRequest, service_id: str | None = None) -> str:
    """Return the query string of all matches, or of all those of one service."""
    filters = replace(search.filters, per_service=0)
    if service_id is not None:
        filters = replace(filters, services=[service_id])
    return format_endpoint_query(replace(search, filters=filters))


def query_of_endpoints(listing: ListRequest) -> str:
    """Return the query string of the endpoints with the words and filters of a listing."""
    given = listing.filters
    filters = EndpointFilters(
        offers={name: values for name, values in given.facets.items() if name in OFFER_KEYS},
        facets={name: values for name, values in given.facets.items() if name in ENDPOINT_KEYS},
        enriched=given.enriched,
        max_price=given.max_price,
        sort=given.sort if given.sort != "name" else "relevance",
    )
    return format_endpoint_query(EndpointRequest(listing.query, listing.page, filters))


def query_of_services(search: EndpointRequest) -> str:
    """Return the query string of the services with the words and filters of a search."""
    given = search.filters
    values = _values(given)
    filters = Filters(
        facets={name: values[name] for name in SERVICE_FACETS if name in values},
        enriched=given.enriched,
        max_price=given.max_price,
        sort=given.sort,
    )
    return format_query(ListRequest(search.query, search.page, filters, with_endpoints=False))


def _values(filters: EndpointFilters) -> dict[str, list[str]]:
    services = {"service": filters.services} if filters.services else {}
    return filters.offers | filters.facets | services


def _without(filters: EndpointFilters, name: str, rest: list[str]) -> EndpointFilters:
    """Return the filters with only the `rest` of the values of one of them."""
    if name == "service":
        return replace(filters, services=rest)
    field = "offers" if name in filters.offers else "facets"
    values: Mapping[str, Sequence[str]] = getattr(filters, field)
    kept = {**values, name: rest} if rest else {k: v for k, v in values.items() if k != name}
    return replace(filters, **{field: kept})


async def _count_facet(snapshot: Snapshot, search: EndpointRequest, name: str) -> FacetCount:
    others = _without(search.filters, name, [])
    # Any order but by relevance saves ranking the matches.
    counting = replace(others, counted=(name,), sort="popularity", per_service=0)
    hits = await snapshot.engine.search_endpoints(search.query, 1, 0, counting)
    return (hits.facets or {})[name]


def _removals(filters: EndpointFilters) -> Iterable[tuple[str, EndpointFilters]]:
    """Yield the label of each selected filter, and the filters without it."""
    for name, values in _values(filters).items():
        for value in values:
            rest = [other for other in values if other != value]
            yield value or "None", _without(filters, name, rest)
    yield from removals_of_flags(filters)
    if filters.per_service != DEFAULT_PER_SERVICE:
        label = (
            f"Up to {filters.per_service} of a service"
            if filters.per_service
            else "All of each service"
        )
        yield label, replace(filters, per_service=DEFAULT_PER_SERVICE)
