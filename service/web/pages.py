"""The pages for people: parse the address, query the snapshot, render a template.

Scripts fetch the same documents, and swap in the parts that differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from service.api.ecosystem import Timeframe
from service.api.endpoints import find_endpoints
from service.api.listings import ListingUrl, explain_url
from service.api.query_string import Offset, Operation, Query, format_query
from service.api.routes import OperationRoute
from service.api.services import find
from service.errors import RatecardError, ServiceNotFound
from service.http.context import context_of, snapshot_of
from service.http.responses import SNAPSHOT, Cacheable, root_of
from service.networks import network_label
from service.schema.listings import ListingReport
from service.schema.profiles import describe
from service.schema.values import format_timestamp
from service.snapshot import Snapshot
from service.web.card import MAX_TEXT, card_of, quantity
from service.web.demand import demand_facts, popular_services
from service.web.ecosystem import (
    abbreviate,
    format_count,
    format_money,
    format_units,
    payments_of,
    statistics_of,
)
from service.web.endpoint_rows import format_value, format_values
from service.web.endpoint_search import find_in_service, find_in_services, results_of, rows_of
from service.web.filters import BrowseEndpoints, BrowseServices, controls_of, count_unselected
from service.web.static_files import VERSION, get_static_file

ENDPOINTS = 50  # on a page
PAYMENTS = 12  # on a page
MAX_LINKED = 200
"""Characters of a query that links to services repeat, some 100 of them on a page."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
)
PAGE_POLICY = f"{POLICY}img-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
PAGE_HEADERS = {"referrer-policy": "same-origin", "content-security-policy": PAGE_POLICY}
DOCS_HEADERS = PAGE_HEADERS | {"content-security-policy": f"{POLICY}img-src 'self' data:"}
"""Swagger UI draws its icons from data: URLs, and assigns markup of its own to innerHTML."""

_report = msgspec.json.Decoder(ListingReport)

# Overrides, embeddings and isolates reorder the text around them, which can disguise a name.
_BIDI_CONTROLS = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)])


class BrowseService(Operation, frozen=True, kw_only=True):
    """Parameters of the page of a service: words to find endpoints by."""

    is_slow = True
    q: Query = ""
    offset: Offset = 0


class BrowsePayments(Operation, frozen=True, kw_only=True):
    """Parameters of the page of statistics."""

    is_slow = True
    timeframe: Timeframe = 30
    page: Offset = 0


class BrowseListings(Operation, frozen=True, kw_only=True):
    """Parameters of the page that says why a URL is listed or not."""

    url: ListingUrl | None = None


async def services_page(request: Request, listing: BrowseServices) -> Cacheable:
    """Render a page of a listing or search, and its filters with their counts."""
    snapshot = snapshot_of(request)
    hits = await find(snapshot, count_unselected(listing))
    matches = await find_in_services(snapshot, listing, hits.ids)
    return _page(
        request,
        "services.html",
        results=[card_of(snapshot.summaries.view(ordinal), MAX_TEXT) for ordinal in hits.ordinals],
        matches=matches,
        matches_query=urlencode({"q": listing.q[:MAX_LINKED]}),
        size=snapshot.manifest.counts.services,
        **await controls_of(snapshot, listing, hits.facets),
        **_paging(listing, "offset", listing.limit, hits.total),
    )


async def endpoints_page(request: Request, listing: BrowseEndpoints) -> Cacheable:
    """Render a page of the endpoints of all services, and its filters with their counts."""
    snapshot = snapshot_of(request)
    hits = await find_endpoints(snapshot, count_unselected(listing))
    results = await results_of(snapshot, listing, hits)
    return _page(
        request,
        "endpoints.html",
        results=results,
        omitted=hits.total - hits.listed,
        size=snapshot.manifest.counts.endpoints,
        page_size=ENDPOINTS,
        **await controls_of(snapshot, listing, hits.facets),
        **_paging(listing, "offset", listing.limit, hits.listed),
    )


async def service_page(request: Request, search: BrowseService) -> Cacheable:
    """Render a service and a page of its endpoints, those that match the words of `q`."""
    snapshot = snapshot_of(request)
    ordinal = snapshot.id_table.find(request.path_params["id"])
    if ordinal is None:
        raise ServiceNotFound("no service has this id; it may have left the catalogue")
    total, endpoints = await find_in_service(snapshot, ordinal, search.q, ENDPOINTS, search.offset)
    return _page(
        request,
        "service.html",
        card=card_of(snapshot.summaries.view(ordinal)),
        endpoints=rows_of(snapshot, ordinal, endpoints),
        demand=demand_facts(snapshot, ordinal),
        profile=describe(snapshot.profiles.services.read(ordinal)),
        beyond=snapshot.resources.beyond(ordinal),
        words=search.q,
        **_paging(search, "offset", ENDPOINTS, total),
    )


async def ecosystem_page(request: Request, operation: BrowsePayments) -> Cacheable:
    """Render the statistics of a timeframe and a page of payments."""
    snapshot = snapshot_of(request)
    tables = snapshot.ecosystem
    payments, has_next = payments_of(tables, operation.page, PAYMENTS)
    return _page(
        request,
        "ecosystem.html",
        statistics=statistics_of(tables, operation.timeframe),
        payments=payments,
        popular=popular_services(snapshot),
        days=operation.timeframe,
        **_paging(operation, "page", 1, operation.page + 1 + has_next),
    )


async def listed_page(request: Request, operation: BrowseListings) -> Cacheable:
    """Render why a URL is listed or not, or the form that asks for a URL."""
    snapshot = snapshot_of(request)
    if operation.url is None:
        return _page(request, "listed.html", report=None, query="")
    explanation = explain_url(snapshot, operation.url)
    page = _render(
        request,
        "listed.html",
        report=_report.decode(explanation.body(snapshot)),
        page_size=ENDPOINTS,
        query=urlencode({"url": explanation.url}),
    )
    return explanation.respond(page, "text/html", **PAGE_HEADERS)


async def docs_page(request: Request) -> Cacheable:
    """Render the viewer of `/openapi.json`."""
    snapshot_of(request)
    return _page(request, "docs.html", DOCS_HEADERS)


def error_page(request: Request, error: RatecardError) -> HTMLResponse:
    """Render the page for an error."""
    page = _render(request, "error.html", error=error)
    return HTMLResponse(page, error.status, PAGE_HEADERS)


PAGES = [
    OperationRoute("/", services_page, BrowseServices),
    OperationRoute("/endpoints", endpoints_page, BrowseEndpoints),
    OperationRoute("/services/{id}", service_page, BrowseService),
    OperationRoute("/ecosystem", ecosystem_page, BrowsePayments),
    OperationRoute("/listed", listed_page, BrowseListings),
    Route("/docs", docs_page),
    Route("/assets/{file:path}", get_static_file),
]


def _paging(operation: Operation, field: str, step: int, total: int) -> dict[str, Any]:
    """Return the numbers of a page, and the query strings of it, of the one before and after.

    field: the parameter that has the place of the page
    """
    offset: int = getattr(operation, field)
    before, after = {field: max(offset - step, 0)}, {field: offset + step}
    return {
        "offset": offset,
        "total": total,
        "query": format_query(operation),
        "previous": format_query(operation, **before) if offset else None,
        "next": format_query(operation, **after) if after[field] < total else None,
    }


def _strip_bidi_controls(value: object) -> object:
    """Strip bidirectional controls from text; markup and text escaped by `|e` keep them."""
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return str(value).translate(_BIDI_CONTROLS) if is_text else value


_templates = Environment(
    loader=PackageLoader("service.web"),
    autoescape=True,
    finalize=_strip_bidi_controls,
    undefined=StrictUndefined,
    auto_reload=False,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.globals |= {
    "abbreviate": abbreviate,
    "format_count": format_count,
    "format_money": format_money,
    "format_query": format_query,
    "format_units": format_units,
    "format_value": format_value,
    "format_values": format_values,
    "network_label": network_label,
    "quantity": quantity,
}


def _page(
    request: Request, template: str, headers: Mapping[str, str] = PAGE_HEADERS, **values: Any
) -> Cacheable:
    return Cacheable(_render(request, template, **values), "text/html", headers)


def _render(request: Request, template: str, **values: Any) -> bytes:
    root = root_of(request.scope)
    snapshot: Snapshot | None = request.scope.get(SNAPSHOT)
    text = _templates.get_template(template).render(
        root=root,
        assets=f"{root}/assets/{VERSION}",
        snapshot=snapshot.id if snapshot else "",
        built_at=format_timestamp(snapshot.manifest.built_at) if snapshot else "",
        has_mcp=context_of(request).settings.mcp,
        **values,
    )
    return text.encode("utf-8", "replace")
