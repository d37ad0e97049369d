"""The OpenAPI 3.1 document, its schemas generated from the types of the records."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import quote

import msgspec

from service.errors import (
    InvalidParameter,
    MethodNotAllowed,
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
    SnapshotUnavailable: "There is no snapshot to answer from; ask again later.",
}


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
                "headers": {
                    "Ratecard-Snapshot": {
                        "description": "The snapshot that answered; absent when none is loaded.",
                        "schema": {"type": "string"},
                    }
                },
                "responses": {
                    error.__name__: _error_response(error, meaning)
                    for error, meaning in ERRORS.items()
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
    stats = _operation(
        "getEcosystemStats",
        "Totals by UTC day, or by hour for a timeframe of one day",
        timeframe,
        StatsEnvelope,
    )
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
    refusals: set[type[RatecardError]] = {*refuses, MethodNotAllowed, RatecardError}
    if answer is not Health:
        refusals.add(SnapshotUnavailable)
    return {
        "get": {
            "operationId": operation_id,
            "summary": summary,
            "parameters": parameters,
            "responses": {
                "200": {
                    "description": (answer.__doc__ or "").strip(),
                    "headers": _snapshot_header(),
                    "content": _content(answer),
                },
                **{
                    str(error.status): {"$ref": f"#/components/responses/{error.__name__}"}
                    for error in sorted(refusals, key=lambda error: error.status)
                },
            },
        }
    }


def _error_response(error: type[RatecardError], meaning: str) -> Json:
    headers = _snapshot_header()
    if error is SnapshotUnavailable:
        headers["Retry-After"] = {
            "description": "Seconds to wait.",
            "schema": {"type": "integer"},
        }
    if error is MethodNotAllowed:
        headers["Allow"] = {"description": "What is answered.", "schema": {"type": "string"}}
    codes = [error.code, *(special.code for special in error.__subclasses__())]
    if error is RatecardError:
        codes = [error.code]
    return {
        "description": f"{meaning} Codes: {', '.join(codes)}.",
        "headers": headers,
        "content": _content(ErrorEnvelope),
    }


def _content(answer: type[msgspec.Struct]) -> Json:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{answer.__name__}"}}}


def _snapshot_header() -> Json:
    return {"Ratecard-Snapshot": {"$ref": "#/components/headers/Ratecard-Snapshot"}}


def _query() -> Json:
    return _parameter(
        "q",
        "Plain text: no operators. The first 64 distinct terms count.",
        {"type": "string", "minLength": 1, "maxLength": MAX_QUERY, "pattern": r"\S"},
        required=True,
        example="weather forecast",
    )


def _limit(items: str) -> Json:
    return _integer(
        "limit", DEFAULT_LIMIT, 1, f"How many {items} at most; over {MAX_LIMIT} means {MAX_LIMIT}."
    )


def _offset() -> Json:
    return _integer(
        "offset", 0, 0, "How many services to pass over; past the end the page is empty."
    )


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
    return _integer(
        "timeframe",
        DEFAULT_TIMEFRAME,
        1,
        "Days of 24 hours, up to and including the newest payment.",
    )


def _id() -> Json:
    parameter = _parameter(
        "id", "The id of a service.", {"type": "string", "pattern": ID_PATTERN}, required=True
    )
    return parameter | {"in": "path"}


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
