"""Refusals: how an error becomes a response, always in one shape."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from service.errors import InvalidParameter, MethodNotAllowed, PathNotFound, RatecardError
from service.http.headers import ALLOW, JSON
from service.http.responses import momentary
from service.records import ErrorBody, ErrorEnvelope
from service.settings import Settings
from service.web.pages import HTML, refusal_page


def refuse(request: Request, error: RatecardError) -> Response:
    """The response that says why a request is not answered: JSON, or a page for people."""
    if _asks_for_page(request):
        body, lines = refusal_page(request, error), HTML
    else:
        body, lines = describe(error), JSON
    if error.retry_after is not None:
        lines += b"retry-after: %d\r\n" % error.retry_after
    if isinstance(error, MethodNotAllowed):
        lines += ALLOW
    return momentary(request, body, error.status, lines)


def describe(error: RatecardError) -> bytes:
    """An error as the JSON that clients are sent."""
    message = str(error).encode("utf-8", "replace").decode()  # it may quote what is no Unicode
    body = ErrorBody(code=error.code, message=message)
    if isinstance(error, InvalidParameter):
        body.parameter = error.parameter
    return msgspec.json.encode(ErrorEnvelope(body))


def _asks_for_page(request: Request) -> bool:
    settings: Settings = request.app.state.settings
    wanted = "text/html" in request.headers.get("accept", "")
    return wanted and settings.page and "/v1/" not in request.scope["path"]


async def _path_not_found(request: Request, _: Exception) -> Response:
    return refuse(request, PathNotFound("nothing answers at this path; see /openapi.json"))


REFUSALS = {404: _path_not_found}
