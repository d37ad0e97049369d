"""The pages for people: documents, filled and completed by scripts from the public API."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from service.api.listing import find
from service.api.parameters import format_query, parse_browse
from service.errors import RatecardError, ServiceNotFound
from service.http.responses import SNAPSHOT, snapshot_of
from service.records import format_timestamp
from service.snapshot import Snapshot
from service.web.card import BLANK, card_of, facts_of
from service.web.static_files import VERSION, get_static_file

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
)
PAGE_POLICY = f"{POLICY}img-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
DOCS_POLICY = f"{POLICY}img-src 'self' data:"
"""Swagger UI draws its icons from data: URLs, and writes markup of its own."""

_templates = Environment(
    loader=PackageLoader("service.web"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


async def catalogue_page(request: Request) -> Response:
    """Render the services that the address asks for, so that the page works without scripts."""
    listing = parse_browse(request.scope["query_string"])
    snapshot = snapshot_of(request)
    if not listing.is_cheap:
        request.app.state.load_shedder.check()
    hits = find(snapshot, listing)
    return _render(
        request,
        "catalogue.html",
        cards=[card_of(snapshot.summaries.view(ordinal)) for ordinal in hits.ordinals],
        blank=BLANK,
        total=hits.total,
        asked=listing,
        others=format_query(listing),
        services=snapshot.manifest.counts.services,
    )


async def service_page(request: Request) -> Response:
    """Render one service; the script adds its endpoints."""
    snapshot = snapshot_of(request)
    ordinal = snapshot.ordinal_of(request.path_params["id"])
    if ordinal is None:
        raise ServiceNotFound("no service has this id; it may have left the catalogue")
    summary = snapshot.summaries.view(ordinal)
    return _render(request, "service.html", card=card_of(summary), facts=facts_of(summary))


async def ecosystem_page(request: Request) -> Response:
    """Render the statistics of payments; the script draws them."""
    snapshot_of(request)
    return _render(request, "ecosystem.html")


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
