"""The OpenAPI 3.1 document, its schemas generated from the types of the records."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote

import msgspec
from msgspec import Struct

from service.api import openapi_parameters as inputs
from service.api.examples import USUAL, Examples
from service.api.openapi_parameters import Json
from service.errors import (
    Draining,
    InvalidParameter,
    MethodNotAllowed,
    Overloaded,
    RatecardError,
    ServiceNotFound,
    SnapshotUnavailable,
)
from service.records import (
    ErrorEnvelope,
    Health,
    OverviewEnvelope,
    Readiness,
    ServiceEnvelope,
    ServiceList,
    StatsEnvelope,
    TransactionsEnvelope,
)

TAGS: dict[type[Struct], str] = {
    ServiceList: "Services",
    ServiceEnvelope: "Services",
    OverviewEnvelope: "Ecosystem",
    StatsEnvelope: "Ecosystem",
    TransactionsEnvelope: "Ecosystem",
    Health: "State",
    Readiness: "State",
}
# What a reader of the document needs to know of each.
ERRORS: dict[type[RatecardError], str] = {
    InvalidParameter: "A parameter cannot be honoured; `parameter` names it.",
    ServiceNotFound: "No service of this snapshot has the id.",
    MethodNotAllowed: "The path answers GET, HEAD and OPTIONS only.",
    RatecardError: "The service failed to answer; asking again may help.",
    SnapshotUnavailable: "There is no snapshot to answer from, too many searches are waiting, or "
    "(as `/readyz` alone says) the service is about to stop; ask again later.",
}
HEADERS = {
    "Ratecard-Snapshot": "The snapshot that answered; absent when none is loaded.",
    "X-Request-Id": "The id that the request came with, or one that it was given.",
    "Cache-Control": "Whether and for how many seconds the answer may be kept.",
    "ETag": "Stays the same until the answer changes; each content coding has its own.",
    "Vary": "The request headers that the answer depends on.",
    "Retry-After": "Seconds to wait.",
    "Allow": "What is answered.",
}
EVERY_ANSWER = ("Ratecard-Snapshot", "X-Request-Id", "Cache-Control")
KEPT_ANSWER = (*EVERY_ANSWER, "ETag", "Vary")


def document(root_path: str, shown: Examples = USUAL) -> bytes:
    """The document as JSON, for an application that is mounted at `root_path`.

    Where an application is mounted may be up to its clients, so that nothing is kept of it.
    """
    server = quote(root_path.rstrip("/"), errors="replace") or "/"
    return b'%b,"servers":%b}' % (_document(shown)[:-1], msgspec.json.encode([{"url": server}]))


@lru_cache(maxsize=1)
def _document(shown: Examples) -> bytes:
    _, schemas = msgspec.json.schema_components(
        [*TAGS, ErrorEnvelope], ref_template="#/components/schemas/{name}"
    )
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Ratecard",
                "version": "1.0.0",
                "description": "Discovery of web APIs that are paid for by the request. "
                "All numbers of a response come from the snapshot that its "
                "`Ratecard-Snapshot` header names.",
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "tags": [{"name": name} for name in dict.fromkeys(TAGS.values())],
            "paths": _paths(shown),
            "components": {
                "schemas": schemas,
                "headers": {name: _header(name) for name in HEADERS},
                "responses": {
                    "NotModified": {
                        "description": "What `If-None-Match` names is still the answer.",
                        "headers": _headers(*KEPT_ANSWER),
                    },
                    **{error.__name__: _error_response(error) for error in ERRORS},
                },
            },
        }
    )


def _paths(shown: Examples) -> Json:
    search, timeframe = inputs.search(shown), inputs.timeframe()
    by_day = "Totals by UTC day, or by hour for a timeframe of one day"
    return {
        "/v1/services": _operation(
            "listServices", "List services, best known first", inputs.listing(), ServiceList
        ),
        "/v1/search/services": _operation(
            "searchServices", "Search services, best match first", search, ServiceList
        ),
        "/v1/services/search": _operation(
            "searchServicesToo", "The same as /v1/search/services", search, ServiceList
        ),
        "/v1/services/{id}": _operation(
            "getServiceById",
            "One service",
            inputs.service(shown),
            ServiceEnvelope,
            refuses=(ServiceNotFound,),
        ),
        "/v1/ecosystem/overview": _operation(
            "getEcosystemOverview", "Totals", timeframe, OverviewEnvelope
        ),
        "/v1/ecosystem/transactions": _operation(
            "getRecentTransactions",
            "The newest payments, newest first",
            inputs.payments(),
            TransactionsEnvelope,
        ),
        "/v1/ecosystem/stats": _operation("getEcosystemStats", by_day, timeframe, StatsEnvelope),
        "/healthz": _operation("getHealth", "The process is up", [], Health, refuses=()),
        "/readyz": _operation("getReadiness", "What is being served", [], Readiness, refuses=()),
    }


def _operation(
    operation_id: str,
    summary: str,
    parameters: list[Json],
    answer: type[Struct],
    refuses: tuple[type[RatecardError], ...] = (InvalidParameter,),
) -> Json:
    refusals: list[type[RatecardError]] = [*refuses, MethodNotAllowed, RatecardError]
    if answer is not Health:
        refusals.append(SnapshotUnavailable)
    named = {error.status: error.__name__ for error in refusals}
    kept = answer not in (Health, Readiness)
    if kept:
        named[304] = "NotModified"
    return {
        "get": {
            "operationId": operation_id,
            "tags": [TAGS[answer]],
            "summary": summary,
            "parameters": parameters + [inputs.if_none_match()] * kept,
            "responses": {
                "200": {
                    "description": (answer.__doc__ or "").strip(),
                    "headers": _headers(*(KEPT_ANSWER if kept else EVERY_ANSWER)),
                    "content": _content(answer),
                },
                **{
                    str(status): {"$ref": f"#/components/responses/{name}"}
                    for status, name in sorted(named.items())
                },
            },
        }
    }


def _content(answer: type[Struct]) -> Json:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{answer.__name__}"}}}


def _error_response(error: type[RatecardError]) -> Json:
    own = {405: ["Allow"], 503: ["Retry-After"]}.get(error.status, [])
    kinds = [error] if error is RatecardError else [error, *error.__subclasses__()]
    if error is SnapshotUnavailable:
        kinds += [Overloaded, Draining]
    return {
        "description": f"{ERRORS[error]} Codes: {', '.join(kind.code for kind in kinds)}.",
        "headers": _headers(*EVERY_ANSWER, *own),
        "content": _content(ErrorEnvelope),
    }


def _headers(*names: str) -> Json:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _header(name: str) -> Json:
    return {
        "description": HEADERS[name],
        "required": name != "Ratecard-Snapshot",
        "schema": {"type": "integer" if name == "Retry-After" else "string"},
    }
