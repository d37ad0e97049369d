"""The pages for people: parse the address, query the snapshot, render a template.

Scripts fetch the same documents, and swap in the parts that differ.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from service.api.endpoints import format_endpoint_query, parse_endpoint_browse
from service.api.listing import find
from service.api.parameters import (
    format_query,
    parse_browse,
    parse_endpoints,
    parse_timeframe,
    parse_transactions,
)
from service.errors import RatecardError, ServiceNotFound
from service.http.context import context_of, snapshot_of
from service.http.responses import SNAPSHOT
from service.records import format_timestamp
from service.snapshot import Snapshot
from service.web import endpoint_filters, filters
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


async def catalogue_page(request: Request) -> Response:
    """Render a page of a listing or search, and its filters with their counts."""
    listing = parse_browse(request.scope["query_string"])
    snapshot = snapshot_of(request)
    context_of(request).load_shedder.check()
    hits = await find(snapshot, listing)
    offset, limit = listing.page.offset, listing.page.limit
    words = (listing.query or "")[:MAX_LINKED]
    return _render(
        request,
        "catalogue.html",
        cards=[card_of(snapshot.summaries.view(ordinal)) for ordinal in hits.ordinals],
        endpoints=await find_in_services(snapshot, listing, hits.ids),
        endpoint_query=urlencode({"q": words}),
        total=hits.total,
        listing=listing,
        query=format_query(listing, offset),
        previous=format_query(listing, max(offset - limit, 0)) if offset else None,
        next=format_query(listing, offset + limit) if offset + limit < hits.total else None,
        categories=await filters.facet_choices(snapshot, listing, "category"),
        networks=await filters.facet_choices(snapshot, listing, "network"),
        prices=await filters.price_choices(snapshot, listing),
        hidden_fields=filters.hidden_fields(listing.filters),
        chips=filters.chips(listing),
        other=endpoint_filters.query_of_endpoints(listing),
        services=snapshot.manifest.counts.services,
    )


async def endpoints_page(request: Request) -> Response:
    """Render a page of the endpoints of all services, and its filters with their counts."""
    search = parse_endpoint_browse(request.scope["query_string"])
    snapshot = snapshot_of(request)
    context_of(request).load_shedder.check()
    offset, limit = search.page.offset, search.page.limit
    counted = endpoint_filters.unselected(search.filters)
    hits = await snapshot.engine.search_endpoints(
        search.query, limit, offset, replace(search.filters, counted=counted)
    )
    is_answered = search.query is not None or search.filters.has_conditions
    query = format_endpoint_query(search, offset)
    following = offset + limit
    return _render(
        request,
        "endpoints.html",
        results=await results_of(snapshot, search, hits),
        hits=hits,
        search=search,
        query=query,
        json_query=query if is_answered else None,
        previous=format_endpoint_query(search, max(offset - limit, 0)) if offset else None,
        next=format_endpoint_query(search, following) if following < hits.listed else None,
        choices=await endpoint_filters.facet_choices(snapshot, search, hits.facets or {}),
        prices=await endpoint_filters.price_choices(snapshot, search),
        hidden_fields=endpoint_filters.hidden_fields(search.filters),
        chips=endpoint_filters.chips(search),
        other=endpoint_filters.query_of_services(search),
        query_of_all=partial(endpoint_filters.query_of_all, search),
        page_size=ENDPOINTS,
        endpoints=snapshot.manifest.counts.endpoints,
    )


async def service_page(request: Request) -> Response:
    """Render a service and a page of its endpoints, those that match the words of `q`."""
    words, offset = parse_endpoints(request.scope["query_string"])
    snapshot = snapshot_of(request)
    service_id = request.path_params["id"]
    ordinal = snapshot.id_table.find(service_id)
    if ordinal is None:
        raise ServiceNotFound("no service has this id; it may have left the catalogue")
    context_of(request).load_shedder.check()
    endpoints = await find_in_service(snapshot, ordinal, service_id, words)
    stop = offset + ENDPOINTS

    def query(offset: int) -> str:
        return urlencode(({"q": words} if words else {}) | ({"offset": offset} if offset else {}))

    return _render(
        request,
        "service.html",
        card=card_of(snapshot.summaries.view(ordinal)),
        endpoints=rows_of(snapshot, ordinal, endpoints[offset:stop]),
        beyond=snapshot.resources.beyond(ordinal),
        total=len(endpoints),
        words=words,
        offset=offset,
        query=query(offset),
        previous=query(max(offset - ENDPOINTS, 0)) if offset else None,
        next=query(stop) if stop < len(endpoints) else None,
    )


async def ecosystem_page(request: Request) -> Response:
    """Render the statistics of a timeframe and a page of payments."""
    days = parse_timeframe(request.scope["query_string"])
    page, _ = parse_transactions(request.scope["query_string"])
    tables = snapshot_of(request).ecosystem
    payments, has_next = payments_of(tables, page, PAYMENTS)

    def query(page: int) -> str:
        return urlencode({"timeframe": days} | ({"page": page} if page else {}))

    return _render(
        request,
        "ecosystem.html",
        statistics=statistics_of(tables, days),
        payments=payments,
        days=days,
        query=query(page),
        previous=query(page - 1) if page else None,
        next=query(page + 1) if has_next else None,
    )


async def docs_page(request: Request) -> Response:
    """Render the viewer of `/openapi.json`."""
    snapshot_of(request)
    return _render(request, "docs.html", policy=DOCS_POLICY)


def error_page(request: Request, error: RatecardError) -> HTMLResponse:
    """Render the page for an error."""
    return _render(request, "error.html", status=error.status, error=error)


PAGES = [
    Route("/", catalogue_page),
    Route("/endpoints", endpoints_page),
    Route("/services/{id}", service_page),
    Route("/ecosystem", ecosystem_page),
    Route("/docs", docs_page),
    Route("/assets/{file:path}", get_static_file),
]


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


def _render(
    request: Request, template: str, status: int = 200, policy: str = PAGE_POLICY, **values: Any
) -> HTMLResponse:
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
    return HTMLResponse(
        text.encode("utf-8", "replace"),
        status,
        {"referrer-policy": "same-origin", "content-security-policy": policy},
    )
