"""The pages for people: parse the address, query the snapshot, render a template.

Scripts fetch the same documents, and swap in the parts that differ.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from service.api.listing import find
from service.api.parameters import (
    format_query,
    parse_browse,
    parse_endpoints,
    parse_timeframe,
    parse_transactions,
)
from service.errors import RatecardError, ServiceNotFound
from service.http.responses import SNAPSHOT, snapshot_of
from service.records import format_timestamp
from service.snapshot import Snapshot
from service.web.card import card_of, find_endpoints, quantity, row_of
from service.web.ecosystem import payments_of, statistics_of
from service.web.filters import chips, facet_choices, hidden_fields, price_choices
from service.web.static_files import VERSION, get_static_file

ENDPOINTS = 50  # on a page
PAYMENTS = 12  # on a page

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
    request.app.state.load_shedder.check()
    hits = find(snapshot, listing)
    offset, limit = listing.page.offset, listing.page.limit
    return _render(
        request,
        "catalogue.html",
        cards=[card_of(snapshot.summaries.view(ordinal)) for ordinal in hits.ordinals],
        total=hits.total,
        listing=listing,
        query=format_query(listing, offset),
        previous=format_query(listing, max(offset - limit, 0)) if offset else None,
        next=format_query(listing, offset + limit) if offset + limit < hits.total else None,
        categories=facet_choices(snapshot, listing, "category"),
        networks=facet_choices(snapshot, listing, "network"),
        prices=price_choices(snapshot, listing),
        hidden_fields=hidden_fields(listing.filters),
        chips=chips(listing),
        services=snapshot.manifest.counts.services,
    )


async def service_page(request: Request) -> Response:
    """Render a service and a page of its endpoints, filtered by the words of `q`."""
    words, offset = parse_endpoints(request.scope["query_string"])
    snapshot = snapshot_of(request)
    ordinal = snapshot.ordinal_of(request.path_params["id"])
    if ordinal is None:
        raise ServiceNotFound("no service has this id; it may have left the catalogue")
    request.app.state.load_shedder.check()
    endpoints = find_endpoints(snapshot.services.view(ordinal), words)
    stop = offset + ENDPOINTS

    def query(offset: int) -> str:
        return urlencode(({"q": words} if words else {}) | ({"offset": offset} if offset else {}))

    return _render(
        request,
        "service.html",
        card=card_of(snapshot.summaries.view(ordinal)),
        endpoints=[row_of(endpoint) for endpoint in endpoints[offset:stop]],
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
        **values,
    )
    return HTMLResponse(
        text.encode("utf-8", "replace"),
        status,
        {"referrer-policy": "same-origin", "content-security-policy": policy},
    )
