"""The OpenAPI 3.1 document, its schemas generated from the types of the records."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import quote

import msgspec

from service.errors import (
    Draining,
    InvalidParameter,
    MethodNotAllowed,
    Overloaded,
    RatecardError,
    ServiceNotFound,
    SnapshotUnavailable,
)
from service.facets import FACETS
from service.params import (
    BOOLEANS,
    DEFAULT_LIMIT,
    DEFAULT_TIMEFRAME,
    ENDPOINTS,
    INTEGRATION_TYPES,
    MATCHES,
    MAX_LIMIT,
    MAX_QUERY,
    PRICE,
    SORTS,
)
from service.records import (
    ID_PATTERN,
    ErrorEnvelope,
    Health,
    OverviewEnvelope,
    Readiness,
    ServiceEnvelope,
    ServiceList,
    StatsEnvelope,
    TransactionsEnvelope,
)

Json = dict[str, Any]

RESPONSES = (
    ServiceList,
    ServiceEnvelope,
    OverviewEnvelope,
    StatsEnvelope,
    TransactionsEnvelope,
    Health,
    Readiness,
    ErrorEnvelope,
)
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
NOT_BLANK = r"[^\s\x1c-\x1f\x85]|\ufeff"  # Python and ECMA 262 differ in what is space
EVERY_ANSWER = ("Ratecard-Snapshot", "X-Request-Id", "Cache-Control")
KEPT_ANSWER = (*EVERY_ANSWER, "ETag", "Vary")


def document(root_path: str) -> bytes:
    """The document as JSON, for an application that is mounted at `root_path`.

    Where an application is mounted may be up to its clients, so that nothing is kept of it.
    """
    server = quote(root_path.rstrip("/"), errors="replace") or "/"
    return b'%b,"servers":%b}' % (_document()[:-1], msgspec.json.encode([{"url": server}]))


@cache
def _document() -> bytes:
    _, schemas = msgspec.json.schema_components(
        RESPONSES, ref_template="#/components/schemas/{name}"
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
            "paths": _paths(),
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


def _paths() -> Json:
    page = [_limit("services"), _offset(), *_narrowing()]
    search = [_query(), *page, _choice("match", MATCHES, "Whether any term suffices, or all must.")]
    timeframe = [_timeframe()]
    listing = _operation("listServices", "List services, best known first", page, ServiceList)
    overview = _operation("getEcosystemOverview", "Totals", timeframe, OverviewEnvelope)
    by_day = "Totals by UTC day, or by hour for a timeframe of one day"
    stats = _operation("getEcosystemStats", by_day, timeframe, StatsEnvelope)
    transactions = _operation(
        "getRecentTransactions",
        "The newest payments, newest first",
        [_integer("page", 0, 0, "Which page."), _limit("payments")],
        TransactionsEnvelope,
    )
    service = _operation(
        "getServiceById", "One service", [_id()], ServiceEnvelope, refuses=(ServiceNotFound,)
    )
    return {
        "/v1/services": listing,
        "/v1/search/services": _operation(
            "searchServices", "Search services, best match first", search, ServiceList
        ),
        "/v1/services/search": _operation(
            "searchServicesToo", "The same as /v1/search/services", search, ServiceList
        ),
        "/v1/services/{id}": service,
        "/v1/ecosystem/overview": overview,
        "/v1/ecosystem/transactions": transactions,
        "/v1/ecosystem/stats": stats,
        "/healthz": _operation("getHealth", "The process is up", [], Health, refuses=()),
        "/readyz": _operation("getReadiness", "What is being served", [], Readiness, refuses=()),
    }


def _operation(
    operation_id: str,
    summary: str,
    parameters: list[Json],
    answer: type[msgspec.Struct],
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
            "summary": summary,
            "parameters": parameters + [_if_none_match()] * kept,
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


def _content(answer: type[msgspec.Struct]) -> Json:
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


def _query() -> Json:
    meaning = "Plain text: no operators. The first 64 distinct terms count."
    schema = {"type": "string", "minLength": 1, "maxLength": MAX_QUERY, "pattern": NOT_BLANK}
    return _parameter("q", meaning, schema, required=True, example="weather forecast")


def _limit(items: str) -> Json:
    meaning = f"How many {items} at most; over {MAX_LIMIT} means {MAX_LIMIT}."
    return _integer("limit", DEFAULT_LIMIT, 1, meaning)


def _offset() -> Json:
    meaning = "How many services to pass over; past the end the page is empty."
    return _integer("offset", 0, 0, meaning)


def _narrowing() -> list[Json]:
    facets = [
        _parameter(
            name,
            f"Only services with this {name}, or with any of several.",
            {"type": "array", "items": {"type": "string"}},
        )
        for name in FACETS
        if name != "integrationType"
    ]
    types = {"type": "array", "items": {"type": "string", "enum": list(INTEGRATION_TYPES)}}
    counted = {"type": "array", "items": {"type": "string", "enum": list(FACETS)}}
    return [
        *facets,
        _parameter("integrationType", "Only services of this type, or of any of several.", types),
        _choice("enriched", BOOLEANS, "Only services that are curated, or that are not."),
        _parameter(
            "maxPrice",
            "The most that the cheapest price of a service may be, in units of its currency.",
            {"type": "string", "pattern": f"^{PRICE.pattern}$"},
            example="0.05",
        ),
        _choice("sort", SORTS, "The order; relevance of a listing is best known first."),
        _parameter("facets", "Facets to count over all matches.", counted)
        | {"style": "form", "explode": False},
        _choice("endpoints", ENDPOINTS, "Whether services have their endpoints, or their number."),
    ]


def _choice(name: str, allowed: tuple[str, ...], description: str) -> Json:
    return _parameter(name, description, {"type": "string", "enum": list(allowed)})


def _timeframe() -> Json:
    meaning = "Days of 24 hours, up to and including the newest payment."
    return _integer("timeframe", DEFAULT_TIMEFRAME, 1, meaning)


def _id() -> Json:
    schema = {"type": "string", "pattern": ID_PATTERN}
    return _parameter("id", "The id of a service.", schema, required=True) | {"in": "path"}


def _if_none_match() -> Json:
    meaning = "The `ETag` of an earlier answer; 304 while it is still the answer."
    return _parameter("If-None-Match", meaning, {"type": "string"}) | {"in": "header"}


def _integer(name: str, default: int, minimum: int, description: str) -> Json:
    schema = {"type": "integer", "minimum": minimum, "default": default}
    return _parameter(name, description, schema)


def _parameter(
    name: str, description: str, schema: Json, *, required: bool = False, example: str | None = None
) -> Json:
    parameter = {
        "name": name,
        "in": "query",
        "description": description,
        "required": required,
        "schema": schema,
    }
    return parameter if example is None else parameter | {"example": example}
