"""The search tools: the engine's ranking as compact pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from service.conditions import EndpointFilters, Filters
from service.filtering.facets import Facet
from service.mcp.tools.arguments import EndpointSearch, ServiceSearch
from service.mcp.tools.rows import (
    CALL,
    MAX_NAME,
    MORE,
    EndpointRow,
    ServiceRow,
    endpoint_line,
    endpoint_row,
    service_line,
    service_row,
)
from service.mcp.tools.texts import clean
from service.snapshot import Snapshot
from service.snapshot.cursors import cursor_prefix, parse_cursor

LISTED = "`catalogue` lists categories, networks and schemes"


class UnlistedMatches(Struct, kw_only=True):
    """Counts of matches that are not listed, and why.

    price: over `max_price_usd` or without a price in US dollars, where that is given
    network: not to be paid on `network`, where that is given
    """

    same_service: Annotated[int, Meta(description="beyond 3 of each service")]
    price: int | UnsetType = UNSET
    network: int | UnsetType = UNSET


class EndpointPage(Struct, kw_only=True, omit_defaults=True):
    """A page of endpoints; `cursor` is that of the next page, if there is one.

    An empty page has a `hint` where no endpoint at all has the value of a filter.
    """

    total: int
    endpoints: list[EndpointRow]
    left_out: UnlistedMatches
    cursor: str = ""
    hint: str = ""


class ServicePage(Struct, kw_only=True, omit_defaults=True):
    """A page of services."""

    total: int
    services: list[ServiceRow]
    cursor: str = ""
    hint: str = ""


async def search_endpoints(snapshot: Snapshot, search: EndpointSearch) -> tuple[EndpointPage, str]:
    """Return the endpoints that match a query and the filters, best match first, and as text."""

    def any_of(value: str | None) -> tuple[str, ...]:
        return () if value is None else (value,)

    filters = EndpointFilters(
        network=any_of(search.network),
        scheme=any_of(search.scheme),
        category=any_of(search.category),
        method=any_of(search.method),
        max_usd_price=search.max_price_usd,
        registration=search.registration,
    )
    prefix = cursor_prefix(snapshot.id, (search.query, filters))
    start = parse_cursor(search.cursor, prefix)
    hits = await snapshot.engine.search_endpoints(search.query, search.limit, start, filters)
    rows = [
        endpoint_row(snapshot, ordinal, filters, is_first=not number)
        for number, ordinal in enumerate(hits.ordinals)
    ]
    stop = start + len(rows)
    page = EndpointPage(
        total=hits.total,
        endpoints=rows,
        left_out=await _count_left_out(snapshot, search.query, filters, hits.total - hits.listed),
        cursor=f"{prefix}{stop}" if rows and stop < hits.listed else "",
    )
    if not hits.total:
        page.hint = _hint(filters.texts, snapshot.endpoints.filters.facets)
    return page, _endpoint_text(page, start)


async def search_services(snapshot: Snapshot, search: ServiceSearch) -> tuple[ServicePage, str]:
    """Return the services that match a query, best match first, and as text."""
    filters = Filters(category=(search.category,) if search.category else ())
    prefix = cursor_prefix(snapshot.id, ("services", search.query, filters))
    start = parse_cursor(search.cursor, prefix)
    if search.query is None:
        hits = snapshot.list(search.limit, start, filters)
    else:
        hits = await snapshot.engine.search(search.query, search.limit, start, filters)
    rows = [
        await service_row(snapshot, ordinal, None if number else search.query)
        for number, ordinal in enumerate(hits.ordinals)
    ]
    stop = start + len(rows)
    cursor = f"{prefix}{stop}" if rows and stop < hits.total else ""
    page = ServicePage(total=hits.total, services=rows, cursor=cursor)
    if not hits.total:
        page.hint = _hint(filters.texts, snapshot.filters.facets)
    lines = [f"{start + 1}–{stop} of {hits.total} services" if rows else "no services"]
    lines += map(service_line, rows)
    lines += [f"of the first: {line}" for row in rows[:1] for line in row.best_endpoints]
    return page, "\n".join([*lines, *_last_lines(page)])


def _hint(conditions: Mapping[str, Sequence[str]], facets: Mapping[str, Facet]) -> str:
    """Return which values of filters are unknown, and similar ones; empty if all are known."""
    unknown, similar = [], []
    for name, (value,) in conditions.items():
        nearest = facets[name].nearest(value)
        if nearest is not None:
            unknown.append(f"no {name} `{clean(value, MAX_NAME)}`")
            similar += [clean(each, MAX_NAME) for each in nearest]
    if not unknown:
        return ""
    hint = f"the snapshot has {', '.join(unknown)}; {LISTED}"
    return f"{hint}; similar ones; seller: {', '.join(similar)}" if similar else hint


async def _count_left_out(
    snapshot: Snapshot, query: str, filters: EndpointFilters, same_service: int
) -> UnlistedMatches:
    engine, left_out = snapshot.engine, UnlistedMatches(same_service=same_service)
    if filters.max_usd_price is not None:
        wider = replace(filters, max_usd_price=None)
        left_out.price = await engine.count_excluded(query, filters, wider)
    if filters.network:
        wider = replace(filters, network=())
        left_out.network = await engine.count_excluded(query, filters, wider)
    return left_out


def _endpoint_text(page: EndpointPage, start: int) -> str:
    rows, left_out = page.endpoints, page.left_out
    head = f"{start + 1}–{start + len(rows)} of {page.total}" if rows else "no"
    hidden = {
        "by price": left_out.price,
        "on other networks": left_out.network,
        "beyond 3 of a service": left_out.same_service,
    }
    reasons = [f"{count} {reason}" for reason, count in hidden.items() if count]
    lines = [f"{head} endpoints" + (f"; left out: {', '.join(reasons)}" if reasons else "")]
    lines += map(endpoint_line, rows)
    if rows and rows[0].curl:
        lines.append(CALL.format("the first", rows[0].curl))
    return "\n".join([*lines, *_last_lines(page)])


def _last_lines(page: EndpointPage | ServicePage) -> list[str]:
    return [line for line in (page.cursor and MORE.format(page.cursor), page.hint) if line]
