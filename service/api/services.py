"""The catalogue: listing, searching and fetching services."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from service.api.listing import find, list_body, splice
from service.api.parameters import parse_listing, parse_search
from service.errors import ServiceNotFound
from service.http.context import context_of, snapshot_of
from service.http.responses import json_response

MAX_SHOWN_ID = 256


async def list_services(request: Request) -> Response:
    """List services, in listing order unless sorted otherwise."""
    listing = parse_listing(request.scope["query_string"])
    if not listing.is_cheap:
        context_of(request).load_shedder.check()
    snapshot = snapshot_of(request)
    return json_response(list_body(snapshot, listing, await find(snapshot, listing)))


async def search_services(request: Request) -> Response:
    """List the services that match a query, best match first."""
    listing = parse_search(request.scope["query_string"])
    context_of(request).load_shedder.check()
    snapshot = snapshot_of(request)
    return json_response(list_body(snapshot, listing, await find(snapshot, listing)))


async def get_service(request: Request) -> Response:
    """Fetch a service by its id."""
    service_id = request.path_params["id"]
    snapshot = snapshot_of(request)
    ordinal = snapshot.id_table.find(service_id)
    if ordinal is None:
        too_long = len(service_id) > MAX_SHOWN_ID
        shown = f"{service_id[:MAX_SHOWN_ID]}…" if too_long else service_id
        raise ServiceNotFound(f"no service has the id `{shown}`; try searching for its name")
    body = splice({"service": snapshot.services.view(ordinal)})
    return json_response(body, snapshot.services.tag(ordinal).decode())
