"""The pages for people: parse the address, query the snapshot, render a template.

Scripts fetch the same documents, and swap in the parts that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from service.api.endpoints import (
    EndpointRequest,
    find_endpoints,
    format_endpoint_query,
    parse_endpoint_browse,
)
from service.api.listing import find
from service.api.parameters import (
    ListRequest,
    format_query,
    parse_browse,
    parse_endpoints,
    parse_timeframe,
    parse_transactions,
)
from service.api.query_string import Page
from service.errors import RatecardError, ServiceNotFound
from service.filtering.facets import FacetCounts
from service.http.cache import CachedRoute
from service.http.context import context_of, snapshot_of
from service.http.responses import SNAPSHOT, Cacheable
from service.records import format_timestamp
from service.snapshot import Snapshot
from service.web import filters
from service.web.card import card_of, quantity
from service.web.ecosystem import payments_of, statistics_of
from service.web.endpoint_search import find_in_service, find_in_services, results_of, rows_of
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


async def services_page(request: Request) -> Response:
    """Render a page of a listing or search, and its filters with their counts."""
    listing = parse_browse(request.scope["query_string"])
    snapshot = snapshot_of(request)
    context_of(request).load_shedder.check()
    hits = await find(snapshot, filters.count_unselected(listing))
    return _render(
        request,
        "services.html",
        results=[card_of(snapshot.summaries.view(ordinal)) for ordinal in hits.ordinals],
        matches=await find_in_services(snapshot, listing, hits.ids),
        matches_query=urlencode({"q": (listing.query or "")[:MAX_LINKED]}),
        size=snapshot.manifest.counts.services,
        **await _list(snapshot, listing, partial(format_query, listing), hits.total, hits.facets),
    )


async def endpoints_page(request: Request) -> Response:
    """Render a page of the endpoints of all services, and its filters with their counts."""
    listing = parse_endpoint_browse(request.scope["query_string"])
    snapshot = snapshot_of(request)
    context_of(request).load_shedder.check()
    hits = await find_endpoints(snapshot, filters.count_unselected(listing))
    query = partial(format_endpoint_query, listing)
    return _render(
        request,
        "endpoints.html",
        results=await results_of(snapshot, listing, hits),
        omitted=hits.total - hits.listed,
        size=snapshot.manifest.counts.endpoints,
        page_size=ENDPOINTS,
        query_of_all=partial(_query_of_all, listing),
        **await _list(snapshot, listing, query, hits.listed, hits.facets),
    )


async def service_page(request: Request) -> Response:
    """Render a service and a page of its endpoints, those that match the words of `q`."""
    words, offset = parse_endpoints(request.scope["query_string"])
    snapshot = snapshot_of(request)
    ordinal = snapshot.id_table.find(request.path_params["id"])
    if ordinal is None:
        raise ServiceNotFound("no service has this id; it may have left the catalogue")
    context_of(request).load_shedder.check()
    total, endpoints = await find_in_service(snapshot, ordinal, words, Page(ENDPOINTS, offset))
    found = {"q": words} if words else {}
    return _render(
        request,
        "service.html",
        card=card_of(snapshot.summaries.view(ordinal)),
        endpoints=rows_of(snapshot, ordinal, endpoints),
        beyond=snapshot.resources.beyond(ordinal),
        words=words,
        **_paging(partial(_query, "offset", found), offset, ENDPOINTS, total),
    )


async def ecosystem_page(request: Request) -> Response:
    """Render the statistics of a timeframe and a page of payments."""
    days = parse_timeframe(request.scope["query_string"])
    page, _ = parse_transactions(request.scope["query_string"])
    tables = snapshot_of(request).ecosystem
    payments, has_next = payments_of(tables, page, PAYMENTS)
    query = partial(_query, "page", {"timeframe": days})
    return _render(
        request,
        "ecosystem.html",
        statistics=statistics_of(tables, days),
        payments=payments,
        days=days,
        **_paging(query, page, 1, page + 1 + has_next),
    )


async def docs_page(request: Request) -> Response:
    """Render the viewer of `/openapi.json`."""
    snapshot_of(request)
    return _render(request, "docs.html", policy=DOCS_POLICY)


def error_page(request: Request, error: RatecardError) -> HTMLResponse:
    """Render the page for an error."""
    page = _render(request, "error.html", error=error)
    return HTMLResponse(page.body, error.status, page.headers)


PAGES = [
    Route("/", services_page),
    Route("/endpoints", endpoints_page),
    Route("/services/{id}", service_page),
    Route("/ecosystem", ecosystem_page),
    CachedRoute("/docs", docs_page),
    CachedRoute("/assets/{file:path}", get_static_file),
]


async def _list(
    snapshot: Snapshot,
    listing: ListRequest | EndpointRequest,
    query: Callable[[int], str],
    total: int,
    facets: FacetCounts | None,
) -> dict[str, Any]:
    """Return the values that lists of services and of endpoints share."""
    limit, offset = listing.page
    first = query(0)
    return {
        "listing": listing,
        "facets": await filters.facet_choices(snapshot, listing, facets),
        "prices": await filters.price_choices(snapshot, listing),
        "hidden_fields": filters.hidden_fields(first),
        "chips": filters.chips(first),
        "other": filters.shared_query(first),
        **_paging(query, offset, limit, total),
    }


def _paging(query: Callable[[int], str], offset: int, limit: int, total: int) -> dict[str, Any]:
    """Return the numbers of a page, and the query strings of it, of the one before and after."""
    following = offset + limit
    return {
        "offset": offset,
        "total": total,
        "query": query(offset),
        "previous": query(max(offset - limit, 0)) if offset else None,
        "next": query(following) if following < total else None,
    }


def _query(name: str, fields: Mapping[str, object], offset: int) -> str:
    return urlencode({**fields, name: offset} if offset else fields)


def _query_of_all(search: EndpointRequest, service_id: str | None = None) -> str:
    """Return the query string of all matches, or of all those of one service."""
    conditions = replace(search.filters, per_service=0)
    if service_id is not None:
        conditions = replace(conditions, services=[service_id])
    return format_endpoint_query(replace(search, filters=conditions))


def _strip_bidi_controls(value: object) -> object:
    """Strip bidirectional controls from text; markup and text escaped by `|e` keep them."""
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return str(value).translate(_BIDI_CONTROLS) if is_text else value


_templates = Environment(
    loader=PackageLoader("service.web"),
    autoescape=True,
    finalize=_strip_bidi_controls,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.globals["quantity"] = quantity


def _render(request: Request, template: str, policy: str = PAGE_POLICY, **values: Any) -> Cacheable:
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
    return Cacheable(
        text.encode("utf-8", "replace"),
        "text/html",
        {"referrer-policy": "same-origin", "content-security-policy": policy},
    )
