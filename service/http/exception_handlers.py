"""Exceptions to responses, all of one shape."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from service.errors import MethodNotAllowed, RangeNotSatisfiable, RatecardError
from service.http.context import context_of
from service.http.responses import no_store, root_of
from service.schema.discovery import PREFIXES, DiscoveryError
from service.schema.status import ErrorBody, ErrorEnvelope

GET_METHODS = "GET, HEAD, OPTIONS"
POST_METHODS = "POST, OPTIONS"
DISCOVERY = tuple(f"{prefix or '/discovery'}/" for prefix in PREFIXES)
ARD = ("/ard/", "/.well-known/ard.json")
ERROR_TYPES = {404: "not_found", 500: "internal_server_error", 503: "service_unavailable"}
"""Types of errors of the hosted discovery API by status; 400 and 405 are `invalid_request`."""


def error_response(request: Request, error: RatecardError) -> Response:
    """Respond with an error: JSON, or for a browser the page of the context's `error_page`.

    API paths answer browsers in JSON, too. Errors of the discovery API and of ARD have the shapes
    that their clients read.
    """
    scope, context = request.scope, context_of(request)
    headers: dict[str, str] = {}
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    if isinstance(error, MethodNotAllowed):
        headers["allow"] = methods_of(scope["route"])
    if isinstance(error, RangeNotSatisfiable):
        headers["content-range"] = f"bytes */{error.size}"
    path: str = scope["path"]
    own_path = path.removeprefix(scope.get("root_path", ""))
    is_discovery, is_ard = own_path.startswith(DISCOVERY), own_path.startswith(ARD)
    is_operation = getattr(scope.get("route"), "path", "") in context.api_paths
    is_api = is_discovery or is_ard or is_operation or "/v1/" in path
    if context.error_page and not is_api and "text/html" in request.headers.get("accept", ""):
        page = context.error_page(request, error)
        page.headers.update({"cache-control": "no-store"} | headers)
        return page
    # A message may quote a lone surrogate, which cannot be encoded.
    message = error.message(root_of(scope)).encode("utf-8", "replace").decode()
    envelope = _discovery_error if is_discovery else _ard_error if is_ard else _envelope
    return no_store(msgspec.json.encode(envelope(error, message)), error.status, headers)


def _envelope(error: RatecardError, message: str) -> ErrorEnvelope:
    return ErrorEnvelope(ErrorBody(code=error.code, message=message, parameter=error.parameter))


def _discovery_error(error: RatecardError, message: str) -> DiscoveryError:
    kind = ERROR_TYPES.get(error.status, "invalid_request")
    return DiscoveryError(
        error=message, error_type=kind, error_message=message, parameter=error.parameter
    )


def _ard_error(error: RatecardError, message: str) -> dict[str, str]:
    code = "INVALID_ARGUMENT" if error.status < 500 else "INTERNAL_ERROR"
    return {"errorCode": "NOT_FOUND" if error.status == 404 else code, "message": message}


def path_not_found() -> RatecardError:
    """Return the error of a path that is none of the documented ones."""
    return RatecardError("no resource has this path", "path_not_found", see="/openapi.json")


def methods_of(route: BaseRoute) -> str:
    """Return the methods that a path answers, as in `Allow`."""
    return POST_METHODS if "POST" in getattr(route, "methods", ()) else GET_METHODS


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
