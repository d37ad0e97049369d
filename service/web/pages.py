"""The pages for people: parse the address, query the snapshot, render a template.

Scripts fetch the same documents, and swap in the parts that differ.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from service.api.ecosystem import Timeframe
from service.api.endpoints import find_endpoints
from service.api.listings import ListingUrl, explain_url
from service.api.query_string import (
    Offset,
    Operation,
    Query,
    format_query,
)
from service.api.routes import OperationRoute
from service.api.services import find
from service.errors import RatecardError, ServiceNotFound
from service.filtering.facets import FacetCounts
from service.http.cache import CachedRoute
from service.http.context import context_of, snapshot_of
from service.http.responses import SNAPSHOT, Cacheable
from service.schema.values import format_timestamp
from service.snapshot import Snapshot
from service.web import filters
from service.web.card import card_of, listed_card_of, profile_facts, quantity
from service.web.demand import demand_facts, popular_rows
from service.web.ecosystem import payments_of, statistics_of
from service.web.endpoint_search import find_in_service, find_in_services, results_of, rows_of
from service.web.filters import BrowseEndpoints, BrowseOperation, BrowseServices
from service.web.listed import report_of
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
DOCS_POLICY = f"{POLICY}img-src 'self' data:"
"""Swagger UI draws its icons from data: URLs, and assigns markup of its own to innerHTML."""

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


async def services_page(request: Request, listing: BrowseServices) -> Response:
    """Render a page of a listing or search, and its filters with their counts."""
    snapshot = snapshot_of(request)
    hits = await find(snapshot, filters.count_unselected(listing))
    matches = await find_in_services(snapshot, listing, hits.ids)
    controls = await _controls(snapshot, listing, hits.facets)
    return _page(
        request,
        "services.html",
        results=[listed_card_of(snapshot.summaries.view(ordinal)) for ordinal in hits.ordinals],
        matches=matches,
        matches_query=urlencode({"q": listing.q[:MAX_LINKED]}),
        size=snapshot.manifest.counts.services,
        **controls,
        **_paging(listing, "offset", listing.limit, hits.total),
    )


async def endpoints_page(request: Request, listing: BrowseEndpoints) -> Response:
    """Render a page of the endpoints of all services, and its filters with their counts."""
    snapshot = snapshot_of(request)
    hits = await find_endpoints(snapshot, filters.count_unselected(listing))
    results = await results_of(snapshot, listing, hits)
    controls = await _controls(snapshot, listing, hits.facets)
    return _page(
        request,
        "endpoints.html",
        results=results,
        omitted=hits.total - hits.listed,
        size=snapshot.manifest.counts.endpoints,
        page_size=ENDPOINTS,
        query_of_all=partial(_query_of_all, listing),
        **controls,
        **_paging(listing, "offset", listing.limit, hits.listed),
    )


async def service_page(request: Request, search: BrowseService) -> Response:
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
        profile=profile_facts(snapshot.profiles.read_service(ordinal)),
        beyond=snapshot.resources.beyond(ordinal),
        words=search.q,
        **_paging(search, "offset", ENDPOINTS, total),
    )


async def ecosystem_page(request: Request, operation: BrowsePayments) -> Response:
    """Render the statistics of a timeframe and a page of payments."""
    snapshot = snapshot_of(request)
    tables = snapshot.ecosystem
    payments, has_next = payments_of(tables, operation.page, PAYMENTS)
    return _page(
        request,
        "ecosystem.html",
        statistics=statistics_of(tables, operation.timeframe),
        payments=payments,
        popular=popular_rows(snapshot),
        days=operation.timeframe,
        **_paging(operation, "page", 1, operation.page + 1 + has_next),
    )


async def listed_page(request: Request, operation: BrowseListings) -> Response:
    """Render why a URL is listed or not, or the form that asks for a URL."""
    snapshot = snapshot_of(request)
    if operation.url is None:
        return _page(request, "listed.html", report=None, query="")
    explanation = explain_url(snapshot, operation.url)
    page = _render(
        request,
        "listed.html",
        report=report_of(explanation.body(snapshot), ENDPOINTS),
        query=urlencode({"url": explanation.url}),
    )
    return explanation.respond(page, "text/html", **_headers(PAGE_POLICY))


async def docs_page(request: Request) -> Response:
    """Render the viewer of `/openapi.json`."""
    snapshot_of(request)
    return _page(request, "docs.html", policy=DOCS_POLICY)


def error_page(request: Request, error: RatecardError) -> HTMLResponse:
    """Render the page for an error."""
    page = _render(request, "error.html", error=error)
    return HTMLResponse(page, error.status, _headers(PAGE_POLICY))


PAGES = [
    OperationRoute("/", services_page, BrowseServices),
    OperationRoute("/endpoints", endpoints_page, BrowseEndpoints),
    OperationRoute("/services/{id}", service_page, BrowseService),
    OperationRoute("/ecosystem", ecosystem_page, BrowsePayments),
    OperationRoute("/listed", listed_page, BrowseListings),
    CachedRoute("/docs", docs_page),
    CachedRoute("/assets/{file:path}", get_static_file),
]


async def _controls(
    snapshot: Snapshot, listing: BrowseOperation, counts: FacetCounts | None
) -> dict[str, Any]:
    """Return the values of the filters, which pages of services and of endpoints share."""
    pairs = parse_qsl(format_query(replace(listing, offset=0)), keep_blank_values=True)
    return {
        "listing": listing,
        "facets": await filters.facet_choices(snapshot, listing, counts),
        "prices": await filters.price_choices(snapshot, listing),
        "hidden_fields": filters.hidden_fields(pairs),
        "chips": filters.chips(pairs),
        "other": filters.shared_query(pairs),
    }


def _paging(operation: Operation, field: str, step: int, total: int) -> dict[str, Any]:
    """Return the numbers of a page, and the query strings of it, of the one before and after.

    field: the parameter that has the place of the page
    """
    offset: int = getattr(operation, field)
    following = offset + step

    def query(offset: int) -> str:
        return format_query(replace(operation, **{field: offset}))

    return {
        "offset": offset,
        "total": total,
        "query": query(offset),
        "previous": query(max(offset - step, 0)) if offset else None,
        "next": query(following) if following < total else None,
    }


def _query_of_all(search: BrowseEndpoints, service_id: str | None = None) -> str:
    """Return the query string of all matches, or of all those of one service."""
    services = search.service if service_id is None else (service_id,)
    return format_query(replace(search, per_service=0, service=services, offset=0))


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
_templates.globals["quantity"] = quantity


def _page(request: Request, template: str, policy: str = PAGE_POLICY, **values: Any) -> Cacheable:
    return Cacheable(_render(request, template, **values), "text/html", _headers(policy))


def _render(request: Request, template: str, **values: Any) -> bytes:
    root = quote(request.scope.get("root_path", "").rstrip("/"), errors="replace")
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


def _headers(policy: str) -> dict[str, str]:
    return {"referrer-policy": "same-origin", "content-security-policy": policy}
