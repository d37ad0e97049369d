"""Refusals: how an error becomes a response, always in one shape."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from service.errors import InvalidParameter, MethodNotAllowed, PathNotFound, RatecardError
from service.headers import ALLOW, JSON
from service.records import ErrorBody, ErrorEnvelope
from service.responses import momentary


def refuse(request: Request, error: RatecardError) -> Response:
    """The response that says why a request is not answered."""
    lines = JSON
    if error.retry_after is not None:
        lines += b"retry-after: %d\r\n" % error.retry_after
    if isinstance(error, MethodNotAllowed):
        lines += ALLOW
    return momentary(request, describe(error), error.status, lines)


def describe(error: RatecardError) -> bytes:
    """An error as the JSON that clients are sent."""
    message = str(error).encode("utf-8", "replace").decode()  # it may quote what is no Unicode
    body = ErrorBody(code=error.code, message=message)
    if isinstance(error, InvalidParameter):
        body.parameter = error.parameter
    return msgspec.json.encode(ErrorEnvelope(body))


async def _path_not_found(request: Request, _: Exception) -> Response:
    return refuse(request, PathNotFound("nothing answers at this path; see /openapi.json"))


REFUSALS = {404: _path_not_found}
