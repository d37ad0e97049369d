"""Refusals: how an error becomes a response, always in one shape."""

from __future__ import annotations

from typing import cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from service.errors import InvalidParameter, MethodNotAllowed, PathNotFound, RatecardError
from service.records import ErrorBody, ErrorEnvelope
from service.responses import JSON, Header, momentary

METHODS = "GET, HEAD, OPTIONS"
ALLOW: Header = (b"allow", METHODS.encode())


def refuse(request: Request, error: RatecardError, headers: tuple[Header, ...] = ()) -> Response:
    """The response that says why a request is not answered."""
    if error.retry_after is not None:
        headers = (*headers, (b"retry-after", b"%d" % error.retry_after))
    return momentary(request, describe(error), error.status, (JSON, *headers))


def describe(error: RatecardError) -> bytes:
    """An error as the JSON that clients are sent."""
    message = str(error).encode("utf-8", "replace").decode()  # it may quote what is no Unicode
    body = ErrorBody(code=error.code, message=message)
    if isinstance(error, InvalidParameter):
        body.parameter = error.parameter
    return msgspec.json.encode(ErrorEnvelope(body))


async def _refused(request: Request, error: Exception) -> Response:
    return refuse(request, cast("RatecardError", error))


async def _path_not_found(request: Request, _: Exception) -> Response:
    return refuse(request, PathNotFound("nothing answers at this path; see /openapi.json"))


async def _method_not_allowed(request: Request, _: Exception) -> Response:
    error = MethodNotAllowed(f"{request.method} is not answered here; use {METHODS}")
    return refuse(request, error, (ALLOW,))


async def _internal_error(request: Request, _: Exception) -> Response:
    return refuse(request, RatecardError("the service failed to answer; its log says why"))


REFUSALS = {
    404: _path_not_found,
    405: _method_not_allowed,
    RatecardError: _refused,
    Exception: _internal_error,
}
