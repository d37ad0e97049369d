"""Exceptions to responses, all of one shape."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from service.errors import MethodNotAllowed, RatecardError
from service.http.context import context_of
from service.http.responses import no_store, path_of, root_of
from service.schema.discovery import PREFIXES, DiscoveryError
from service.schema.status import ArdError, ErrorBody, ErrorEnvelope

GET_METHODS = "GET, HEAD, OPTIONS"
POST_METHODS = "POST, OPTIONS"
DISCOVERY = tuple(f"{prefix or '/discovery'}/" for prefix in PREFIXES)
ARD = "/ard/"
ERROR_TYPES = {404: "not_found", 500: "internal_server_error", 503: "service_unavailable"}
"""Types of errors of the hosted discovery API by status; 400 and 405 are `invalid_request`."""


def error_response(request: Request, error: RatecardError) -> Response:
    """Respond with an error: JSON, or for a browser the page of the context's `error_page`.

    API paths answer browsers in JSON, too. Errors of the discovery API and of ARD have the shapes
    that their clients read.
    """
    headers: dict[str, str] = {}
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    if isinstance(error, MethodNotAllowed):
        headers["allow"] = methods_of(request.scope["route"])
    root = root_of(request.scope)
    if path_of(request.scope).startswith(DISCOVERY):
        return no_store(_encode_discovery_error(error, root), error.status, headers)
    if path_of(request.scope).startswith(ARD):
        code = "INVALID_ARGUMENT" if error.status < 500 else "INTERNAL_ERROR"
        body = ArdError("NOT_FOUND" if error.status == 404 else code, _encodable(error, root))
        return no_store(msgspec.json.encode(body), error.status, headers)
    render = context_of(request).error_page
    wants_page = "text/html" in request.headers.get("accept", "")
    if render is not None and wants_page and not _is_of_api(request):
        page = render(request, error)
        page.headers.update({"cache-control": "no-store"} | headers)
        return page
    return no_store(encode_error(error, root), error.status, headers)


def path_not_found() -> RatecardError:
    """Return the error of a path that is none of the documented ones."""
    return RatecardError("no resource has this path", "path_not_found", see="/openapi.json")


def methods_of(route: BaseRoute) -> str:
    """Return the methods that a path answers, as in `Allow`."""
    return POST_METHODS if "POST" in getattr(route, "methods", ()) else GET_METHODS


def _is_of_api(request: Request) -> bool:
    route = request.scope.get("route")
    is_operation = route is not None and route.path in context_of(request).api_paths
    return is_operation or "/v1/" in request.scope["path"]


def encode_error(error: RatecardError, root: str = "") -> bytes:
    """Encode an error as the JSON that clients receive."""
    body = ErrorBody(code=error.code, message=_encodable(error, root), parameter=error.parameter)
    return msgspec.json.encode(ErrorEnvelope(body))


def _encode_discovery_error(error: RatecardError, root: str) -> bytes:
    message = _encodable(error, root)
    body = DiscoveryError(
        error=message,
        error_type=ERROR_TYPES.get(error.status, "invalid_request"),
        error_message=message,
        parameter=error.parameter,
    )
    return msgspec.json.encode(body)


def _encodable(error: RatecardError, root: str) -> str:
    """Return the message, which may quote a lone surrogate, as text that can be encoded."""
    return error.message(root).encode("utf-8", "replace").decode()


async def _handle_ratecard_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RatecardError)  # noqa: S101  # as registered
    return error_response(request, error)


async def _handle_not_found(request: Request, _: Exception) -> Response:
    return error_response(request, path_not_found())


async def _handle_method_not_allowed(request: Request, _: Exception) -> Response:
    methods = methods_of(request.scope["route"])
    message = f"{request.method} is not allowed here; use {methods}"
    return error_response(request, MethodNotAllowed(message))


EXCEPTION_HANDLERS = {
    RatecardError: _handle_ratecard_error,
    404: _handle_not_found,
    405: _handle_method_not_allowed,
}
