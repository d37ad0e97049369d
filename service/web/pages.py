"""The page for people: documents that scripts of theirs fill from the public API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from service.api.listing import find
from service.api.parameters import browse, written
from service.errors import RatecardError, ServiceNotFound
from service.http.responses import from_cache, tagged
from service.http.serving import Serving
from service.records import format_timestamp
from service.snapshot.snapshot import Snapshot
from service.web.card import BLANK, card_of, facts_of
from service.web.static_files import VERSION, asset

_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
)
_HEADERS = (
    b"content-type: text/html; charset=utf-8\r\nreferrer-policy: same-origin\r\n"
    b"content-security-policy: %b%b\r\n"
)
HTML = _HEADERS % (
    _POLICY,
    b"img-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'",
)
DOCS = _HEADERS % (_POLICY, b"img-src 'self' data:")
"""The viewer draws its icons from data, and writes markup of its own."""

_templates = Environment(
    loader=PackageLoader("service.web"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


async def catalogue_page(request: Request) -> Response:
    """The services that the address asks for, so that it works before and without scripts."""
    asked, key = browse(request.scope["query_string"])
    snapshot: Snapshot = request.scope["serving"].snapshot

    def render() -> tuple[bytes, bytes]:
        if asked.query is not None:
            request.app.state.overload.check()
        hits = find(snapshot, asked)
        return _document(
            request,
            "catalogue.html",
            cards=[card_of(snapshot.summaries.view(ordinal)) for ordinal in hits.ordinals],
            blank=BLANK,
            total=hits.total,
            asked=asked,
            others=written(asked),
            services=snapshot.manifest.counts.services,
        )

    return _from_cache(request, b"catalogue %b" % key, render)


async def service_page(request: Request) -> Response:
    """One service; its endpoints are filled in by the script."""
    service_id = request.scope["path_params"]["id"]
    snapshot: Snapshot = request.scope["serving"].snapshot
    ordinal = snapshot.ordinal_of(service_id)
    if ordinal is None:
        raise ServiceNotFound("no service has this id; it may have left the catalogue")

    def render() -> tuple[bytes, bytes]:
        summary = snapshot.summaries.view(ordinal)
        card, facts = card_of(summary), facts_of(summary)
        return _document(request, "service.html", card=card, facts=facts)

    return _from_cache(request, b"page of %d" % ordinal, render)


async def ecosystem_page(request: Request) -> Response:
    """What was paid, drawn by the script."""
    return _from_cache(request, b"ecosystem", lambda: _document(request, "ecosystem.html"))


async def docs_page(request: Request) -> Response:
    """The API to read and to try, in a viewer of `/openapi.json`."""
    return _from_cache(request, b"docs", lambda: _document(request, "docs.html"), DOCS)


ASSETS = "/assets/{file:path}"
PAGES = [
    Route("/", catalogue_page),
    Route("/services/{id}", service_page),
    Route("/ecosystem", ecosystem_page),
    Route("/docs", docs_page),
    Route(ASSETS, asset),
]


def refusal_page(request: Request, error: RatecardError) -> bytes:
    """The page that says why there is nothing else to see."""
    body, _ = _document(request, "error.html", error=error)
    return body


def _from_cache(
    request: Request,
    key: bytes,
    render: Callable[[], tuple[bytes, bytes]],
    lines: bytes = HTML,
) -> Response:
    root = _root_of(request).encode()
    return from_cache(request, b"%b at %b" % (key, root), render, lines)


def _document(request: Request, template: str, **shown: Any) -> tuple[bytes, bytes]:
    """A document as bytes, and its tag."""
    root = _root_of(request)
    serving: Serving | None = request.scope.get("serving")
    text = _templates.get_template(template).render(
        root=root,
        assets=f"{root}/assets/{VERSION}",
        snapshot=serving.snapshot.id if serving else "",
        built_at=format_timestamp(serving.snapshot.manifest.built_at) if serving else "",
        **shown,
    )
    return tagged(text.encode("utf-8", "replace"))


def _root_of(request: Request) -> str:
    """The prefix of all addresses, as it is written in them."""
    return quote(request.scope.get("root_path", "").rstrip("/"), errors="replace")
