"""The pages for people: parse the address, search the snapshot once, render a template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from html import escape
from typing import Annotated, Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import Meta
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from service.api.ecosystem import Timeframe
from service.api.endpoints import find_endpoints
from service.api.listings import ListingUrl, explain_url, respond
from service.api.query_string import Offset, Operation, Query, format_pairs, format_query
from service.api.routes import OperationRoute
from service.api.services import find, find_service
from service.conditions import EndpointFilters
from service.engines.engine import Answer
from service.errors import RatecardError
from service.http.context import context_of, snapshot_of
from service.http.responses import SNAPSHOT, Cacheable, root_of
from service.networks import network_label
from service.schema.profiles import describe
from service.snapshot import Snapshot
from service.snapshot.alternatives import describe_alternatives
from service.web.card import MAX_TEXT, card_of, quantity
from service.web.ecosystem import (
    abbreviate,
    demand_shown,
    format_count,
    format_money,
    format_units,
    payments_of,
    popular_services,
    shares_of,
    statistics_of,
)
from service.web.endpoint_rows import (
    best_of,
    details_of,
    format_value,
    format_values,
    host_of,
    result_of,
)
from service.web.filters import BrowseEndpoints, BrowseServices, categories_of, controls_of
from service.web.static_files import VERSION, get_static_file

ENDPOINTS = 24  # on a page
PAYMENTS = 12  # on a page
MAX_DAYS = 366  # of statistics

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
)
PAGE_POLICY = f"{POLICY}img-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
PAGE_HEADERS = {"referrer-policy": "same-origin", "content-security-policy": PAGE_POLICY}
ICON_HEADERS = PAGE_HEADERS | {
    "content-security-policy": PAGE_POLICY.replace("img-src 'self'", "img-src 'self' https:")
}
DOCS_POLICY = f"{POLICY}connect-src 'self'; img-src 'self' data:"
DOCS_HEADERS = PAGE_HEADERS | {"content-security-policy": DOCS_POLICY}
"""Swagger UI calls the API, draws its icons from data: URLs and assigns markup to innerHTML."""


# Control characters have no place in HTML, and terminals obey them. Overrides, embeddings and
# isolates reorder the text around them, which can disguise a name.
_C1 = dict.fromkeys(range(0x80, 0xA0), " ")
_CONTROLS = _C1 | dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
_C0 = bytes({*range(0x20), 0x7F} - {*b"\t\n\r"})
_without_c0 = bytes.maketrans(_C0, b" " * len(_C0))


class BrowseService(Operation, frozen=True, kw_only=True):
    """Parameters of the page of a service: words to find endpoints by."""

    q: Query = ""
    offset: Offset = 0


class BrowsePayments(Operation, frozen=True, kw_only=True):
    """Parameters of the page of statistics."""

    timeframe: Annotated[Timeframe, Meta(le=MAX_DAYS)] = 30
    page: Offset = 0


class BrowseListings(Operation, frozen=True, kw_only=True):
    """Parameters of the page that says why a URL is listed or not."""

    url: ListingUrl | None = None


async def services_page(request: Request, listing: BrowseServices) -> Cacheable:
    """Render a page of a listing or search, its filters, and the endpoints that match best."""
    snapshot = snapshot_of(request)
    hits = await find(snapshot, listing)
    best = hits.best_endpoints or [None] * len(hits.ordinals)
    return _page(
        request,
        "services.html",
        results=[
            (
                card_of(snapshot, ordinal, MAX_TEXT),
                None if endpoint is None else best_of(snapshot, endpoint),
            )
            for ordinal, endpoint in zip(hits.ordinals, best, strict=True)
        ],
        **_found(hits),
        size=snapshot.manifest.counts.services,
        **controls_of(listing, snapshot.filters.columns, hits.facets or {}),
        **_paging(listing, "offset", listing.limit, hits.total),
    )


async def endpoints_page(request: Request, listing: BrowseEndpoints) -> Cacheable:
    """Render a page of the endpoints of all services, and its filters with their counts."""
    snapshot = snapshot_of(request)
    hits = await find_endpoints(snapshot, listing)
    results = [*map(partial(result_of, snapshot), hits.ordinals, hits.offers)]
    if hits.listed < hits.total:
        counts = Counter(result.service_id for result in results)
        for last in {result.service_id: result for result in results}.values():
            last.is_full = counts[last.service_id] == listing.per_service
    return _page(
        request,
        "endpoints.html",
        results=results,
        omitted=hits.total - hits.listed,
        **_found(hits),
        size=snapshot.manifest.counts.endpoints,
        **controls_of(listing, snapshot.endpoints.filters.columns, hits.facets or {}),
        **_paging(listing, "offset", listing.limit, hits.listed),
    )


async def service_page(request: Request, search: BrowseService) -> Cacheable:
    """Render a service and a page of its endpoints, those that have every word of `q`."""
    snapshot, offset = snapshot_of(request), search.offset
    service = find_service(snapshot, request.path_params["id"])
    own = snapshot.endpoints.of_service(service)
    total, endpoints = len(own), [*own[offset : offset + ENDPOINTS]]
    if search.q:
        filters = EndpointFilters(service=(snapshot.id_table[service],), per_service=0, match="all")
        hits = await snapshot.find_endpoints(search.q, ENDPOINTS, offset, filters)
        total, endpoints = hits.total, [*hits.ordinals]
    others = [await snapshot.find_alternatives(each) for each in endpoints[:1]]
    return _page(
        request,
        "service.html",
        others=describe_alternatives(others[0]) if others else "",
        card=card_of(snapshot, service),
        endpoints=details_of(snapshot, endpoints),
        demand=demand_shown(snapshot.ecosystem, service),
        profile=describe(snapshot.endpoints.profile_of(service)),
        beyond=snapshot.resources.beyond(service),
        host=host_of(snapshot.endpoints.url_of(own[0])) if own else "",
        words=search.q,
        **_paging(search, "offset", ENDPOINTS, total),
    )


async def ecosystem_page(request: Request, operation: BrowsePayments) -> Cacheable:
    """Render the statistics of a timeframe and a page of payments."""
    snapshot = snapshot_of(request)
    tables = snapshot.ecosystem
    return _page(
        request,
        "ecosystem.html",
        statistics=statistics_of(tables, operation.timeframe),
        payments=payments_of(tables, operation.page, PAYMENTS),
        popular=popular_services(snapshot.ecosystem),
        shares=shares_of(snapshot),
        days=operation.timeframe,
        **_paging(operation, "page", 1, -(-tables.payments // PAYMENTS)),
    )


async def listed_page(request: Request, operation: BrowseListings) -> Cacheable:
    """Render why a URL is listed or not, or the form that asks for a URL."""
    snapshot = snapshot_of(request)
    if operation.url is None:
        return _page(request, "listed.html", report=None, query="")
    report = explain_url(snapshot, operation.url)
    query = urlencode({"url": report.url})
    page = _page(request, "listed.html", report=report, query=query)
    return respond(report, page.content, "text/html", **PAGE_HEADERS)


async def docs_page(request: Request) -> Cacheable:
    """Render the viewer of `/openapi.json`."""
    snapshot_of(request)
    return _page(request, "docs.html", DOCS_HEADERS)


def error_page(request: Request, error: RatecardError) -> HTMLResponse:
    """Render the page for an error."""
    snapshot: Snapshot | None = request.scope.get(SNAPSHOT)
    categories = categories_of(snapshot.filters.columns["category"]) if snapshot else []
    page = _page(request, "error.html", error=error, categories=categories)
    return HTMLResponse(page.content, error.status, PAGE_HEADERS)


PAGES = [
    OperationRoute("/", services_page, BrowseServices),
    OperationRoute("/endpoints", endpoints_page, BrowseEndpoints),
    OperationRoute("/services/{id}", service_page, BrowseService),
    OperationRoute("/ecosystem", ecosystem_page, BrowsePayments),
    OperationRoute("/listed", listed_page, BrowseListings),
    Route("/docs", docs_page),
    Route("/assets/{file:path}", get_static_file),
]


def _found(hits: Answer) -> dict[str, Any]:
    """Return the facts of hits for a page, without their snapshot.

    Jinja leaves a page's values in a cycle, which would keep files open until it is collected.
    """
    return {
        "similar": hits.similar,
        "similar_rows": hits.similar_rows,
        "fit_warning": hits.warning,
    }


def _paging(operation: Operation, field: str, step: int, total: int) -> dict[str, Any]:
    """Return the numbers of a page, and the query strings of it, of the one before and after.

    field: the parameter that has the place of the page
    """
    offset: int = getattr(operation, field)
    last = max(total - 1, 0) // step * step
    places = {
        "query": offset,
        "previous": max(min(offset - step, last), 0) if offset else None,
        "next": offset + step if offset + step < total else None,
    }
    others = format_pairs(replace(operation, **{field: 0}))
    return {"offset": offset, "total": total} | {
        name: None if place is None else urlencode([*others, (field, place)] if place else others)
        for name, place in places.items()
    }


def _strip_controls(value: object) -> object:
    """Strip controls beyond ASCII; markup and text escaped by `|e` keep bidirectional ones."""
    if not isinstance(value, str) or value.isascii():
        return value
    return value.translate(_CONTROLS if type(value) is str else _C1)


def row(element: str, texts: Iterable[str]) -> str:
    """Return the markup of the non-empty texts in a row, which styles separate by dots."""
    shown = f"</{element}><{element}>".join(escape(text, quote=False) for text in texts if text)
    row = f'<p class="row"><{element}>{shown}</{element}></p>' if shown else ""
    return row if row.isascii() else row.translate(_CONTROLS)


_templates = Environment(
    loader=PackageLoader("service.web"),
    autoescape=True,
    finalize=_strip_controls,
    undefined=StrictUndefined,
    auto_reload=False,
    trim_blocks=True,
    lstrip_blocks=True,
)
_functions: tuple[Callable[..., str], ...] = (
    *(abbreviate, format_count, format_money, format_query, format_units),
    *(format_value, format_values, network_label, quantity, row),
)
_templates.globals |= {each.__name__: each for each in _functions} | {"page_size": ENDPOINTS}


def _page(
    request: Request, template: str, headers: Mapping[str, str] = PAGE_HEADERS, **values: Any
) -> Cacheable:
    """Render a template."""
    root = root_of(request.scope)
    snapshot: Snapshot | None = request.scope.get(SNAPSHOT)
    settings = context_of(request).settings
    if settings.icons and headers is PAGE_HEADERS:
        headers = ICON_HEADERS
    text = _templates.get_template(template).render(
        root=root,
        assets=f"{root}/assets/{VERSION}",
        manifest=snapshot.manifest if snapshot else None,
        has_mcp=settings.mcp,
        has_icons=settings.icons,
        **values,
    )
    body = text.encode("utf-8", "replace").translate(_without_c0)
    return Cacheable(body, "text/html", headers)
