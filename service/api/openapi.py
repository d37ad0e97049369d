"""The OpenAPI 3.1 document; its schemas are generated from the types of `service.records`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from service.api.parameters import (
    BOOLEANS,
    DEFAULT_LIMIT,
    DEFAULT_MERCHANT,
    DEFAULT_RESOURCES,
    DEFAULT_TIMEFRAME,
    ENDPOINTS,
    INTEGRATION_TYPES,
    MATCHES,
    MAX_LIMIT,
    MAX_QUERY,
    MAX_RESOURCES,
    PRICE,
    SORTS,
)
from service.errors import (
    Draining,
    InvalidParameter,
    MethodNotAllowed,
    Overloaded,
    RatecardError,
    ServiceNotFound,
    SnapshotUnavailable,
)
from service.http.responses import json_response, snapshot_of
from service.records import (
    ID_PATTERN,
    DiscoveryError,
    ErrorEnvelope,
    Health,
    MerchantResources,
    OverviewEnvelope,
    Readiness,
    ResourceList,
    ServiceEnvelope,
    ServiceList,
    StatsEnvelope,
    TransactionsEnvelope,
)
from service.search.filters import FACETS
from service.snapshot import Snapshot

Json = dict[str, Any]

QUERY = "weather forecast"
"""The example of a query, where the snapshot has a service for it."""
NOT_BLANK = r"[^\s\x1c-\x1f\x85]|\ufeff"  # Python and ECMA 262 disagree about white space

DISCOVERY = "Discovery"
TAGS: dict[type[Struct], str] = {
    ServiceList: "Services",
    ServiceEnvelope: "Services",
    OverviewEnvelope: "Ecosystem",
    StatsEnvelope: "Ecosystem",
    TransactionsEnvelope: "Ecosystem",
    ResourceList: DISCOVERY,
    MerchantResources: DISCOVERY,
    Health: "State",
    Readiness: "State",
}
ERRORS: dict[type[RatecardError], str] = {
    InvalidParameter: "A parameter is invalid; `parameter` names it.",
    ServiceNotFound: "No service of this snapshot has the id.",
    MethodNotAllowed: "The path answers GET, HEAD and OPTIONS only.",
    RatecardError: "The service failed to answer; asking again may help.",
    SnapshotUnavailable: "There is no snapshot to answer from, too many requests are waiting, or "
    "(at `/readyz` alone) the service is about to stop; ask again later.",
}
HEADERS = {
    "Ratecard-Snapshot": "The snapshot that the response is from; absent when none is loaded.",
    "X-Request-Id": "The id that the request came with, or a new one.",
    "Cache-Control": "Whether and for how many seconds the response may be reused.",
    "ETag": "Changes with the response; each content coding has its own.",
    "Vary": "The request headers that the response depends on.",
    "Retry-After": "Seconds to wait.",
    "Allow": "The methods that the path answers.",
}
COMMON_HEADERS = ("Ratecard-Snapshot", "X-Request-Id", "Cache-Control")
CACHEABLE_HEADERS = (*COMMON_HEADERS, "ETag", "Vary")


async def get_openapi(request: Request) -> Response:
    """Return the document, with examples that the snapshot has answers to."""
    root_path = request.scope.get("root_path", "")
    return json_response(document(root_path, *find_examples(snapshot_of(request))))


def find_examples(snapshot: Snapshot) -> tuple[str, str | None]:
    """Return a query with results, and the id of a service or None for an empty catalogue."""
    best_known = snapshot.list(limit=1).ordinals
    if not best_known:
        return QUERY, None
    service = _summary.decode(snapshot.summaries.view(best_known[0]))
    if not snapshot.search(QUERY, limit=1).total:
        return service.name[:MAX_QUERY].strip() or QUERY, service.id
    return QUERY, service.id


def document(root_path: str, query: str = QUERY, service_id: str | None = None) -> bytes:
    """Return the document as JSON, for an application that is mounted at `root_path`."""
    _, schemas = msgspec.json.schema_components(
        [*TAGS, DiscoveryError, ErrorEnvelope], ref_template="#/components/schemas/{name}"
    )
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Ratecard",
                "version": "1.0.0",
                "description": "Discovery of web APIs that are paid for by the request. "
                "Everything in a response is from the snapshot that its `Ratecard-Snapshot` "
                "header names.",
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": quote(root_path.rstrip("/"), errors="replace") or "/"}],
            "tags": [{"name": name} for name in dict.fromkeys(TAGS.values())],
            "paths": _paths(query, service_id),
            "components": {
                "schemas": schemas,
                "headers": {name: _header(name) for name in HEADERS},
                "responses": {
                    "NotModified": {
                        "description": "The response that `If-None-Match` names is up to date.",
                        "headers": _header_refs(*CACHEABLE_HEADERS),
                    },
                    **{error.__name__: _error_response(error) for error in ERRORS},
                    **{
                        DISCOVERY + error.__name__: _error_response(error, DiscoveryError)
                        for error in ERRORS
                    },
                },
            },
        }
    )


def _paths(query: str, service_id: str | None) -> Json:
    listing = [
        _limit("services"),
        _integer("offset", 0, 0, "Number of services to skip; past the end the page is empty."),
        *_filters(),
    ]
    search = [_query(query), *listing, _match()]
    by_id = _parameter("id", "The id of a service.", {"type": "string", "pattern": ID_PATTERN})
    by_id |= {"in": "path", "required": True} | ({"example": service_id} if service_id else {})
    days = "Days of 24 hours, up to and including the newest payment."
    timeframe = [_integer("timeframe", DEFAULT_TIMEFRAME, 1, days)]
    payments = [_integer("page", 0, 0, "Number of the page."), _limit("payments")]
    return {
        "/v1/services": _operation(
            "listServices", "List services, best known first", listing, ServiceList
        ),
        "/v1/search/services": _operation(
            "searchServices", "Search services, best match first", search, ServiceList
        ),
        "/v1/services/search": _operation(
            "searchServicesToo", "The same as /v1/search/services", search, ServiceList
        ),
        "/v1/services/{id}": _operation(
            "getServiceById", "Fetch a service", [by_id], ServiceEnvelope, (ServiceNotFound,)
        ),
        "/v1/ecosystem/overview": _operation(
            "getEcosystemOverview", "Totals", timeframe, OverviewEnvelope
        ),
        "/v1/ecosystem/transactions": _operation(
            "getRecentTransactions", "The newest payments first", payments, TransactionsEnvelope
        ),
        "/v1/ecosystem/stats": _operation(
            "getEcosystemStats",
            "Totals by UTC day, or by hour for a timeframe of one day",
            timeframe,
            StatsEnvelope,
        ),
        "/discovery/resources": _operation(
            "listDiscoveryResources",
            "List resources of x402 feeds as they came; also below /v2/x402 and /platform/v2/x402",
            [*_resource_page(DEFAULT_RESOURCES), *_resource_filters()],
            ResourceList,
        ),
        "/discovery/merchant": _operation(
            "listDiscoveryMerchant",
            "List the resources that pay to an address; also below the same prefixes",
            [_pay_to() | {"required": True}, *_resource_page(DEFAULT_MERCHANT)],
            MerchantResources,
        ),
        "/healthz": _operation("getHealth", "Whether the process is up", [], Health, ()),
        "/readyz": _operation("getReadiness", "The snapshot being served", [], Readiness, ()),
    }


def _operation(
    operation_id: str,
    summary: str,
    parameters: list[Json],
    result: type[Struct],
    errors: tuple[type[RatecardError], ...] = (InvalidParameter,),
) -> Json:
    possible: list[type[RatecardError]] = [*errors, MethodNotAllowed, RatecardError]
    if result is not Health:
        possible.append(SnapshotUnavailable)
    prefix = DISCOVERY if TAGS[result] == DISCOVERY else ""
    responses = {error.status: prefix + error.__name__ for error in possible}
    is_cacheable = result not in (Health, Readiness)
    headers = CACHEABLE_HEADERS if is_cacheable else COMMON_HEADERS
    if is_cacheable:
        responses[304] = "NotModified"
        known = "The `ETag` of an earlier response; 304 while it is up to date."
        header = _parameter("If-None-Match", known, {"type": "string"}) | {"in": "header"}
        parameters = [*parameters, header]
    return {
        "get": {
            "operationId": operation_id,
            "tags": [TAGS[result]],
            "summary": summary,
            "parameters": parameters,
            "responses": {
                "200": {
                    "description": (result.__doc__ or "").strip(),
                    "headers": _header_refs(*headers),
                    "content": _content(result),
                },
                **{
                    str(status): {"$ref": f"#/components/responses/{name}"}
                    for status, name in sorted(responses.items())
                },
            },
        }
    }


def _error_response(error: type[RatecardError], body: type[Struct] = ErrorEnvelope) -> Json:
    own_headers = {405: ["Allow"], 503: ["Retry-After"]}.get(error.status, [])
    kinds = [error] if error is RatecardError else [error, *error.__subclasses__()]
    if error is SnapshotUnavailable:
        kinds += [Overloaded, Draining]
    codes = f" Codes: {', '.join(kind.code for kind in kinds)}." if body is ErrorEnvelope else ""
    return {
        "description": ERRORS[error] + codes,
        "headers": _header_refs(*COMMON_HEADERS, *own_headers),
        "content": _content(body),
    }


def _content(result: type[Struct]) -> Json:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{result.__name__}"}}}


def _header_refs(*names: str) -> Json:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _header(name: str) -> Json:
    return {
        "description": HEADERS[name],
        "required": name != "Ratecard-Snapshot",
        "schema": {"type": "integer" if name == "Retry-After" else "string"},
    }


def _query(example: str) -> Json:
    meaning = "Plain text without operators. The first 64 distinct terms count."
    schema = {"type": "string", "minLength": 1, "maxLength": MAX_QUERY, "pattern": NOT_BLANK}
    return _parameter("q", meaning, schema) | {"required": True, "example": example}


def _match() -> Json:
    return _choice("match", MATCHES, "Whether one term suffices, or every term must match.")


def _filters() -> list[Json]:
    # Typical values are in the descriptions, since viewers fill an `example` into the request that
    # a reader tries, which would find little with all of them.
    typical = {"category": "Data", "network": "base", "scheme": "exact", "tag": "weather"}
    price = "The most that the cheapest price may be, in units of its currency, such as `0.05`."
    types = "Only services of this type, or of any of several."
    return [
        *(
            _array(name, f"Only services with this {name}, such as `{value}`, or any of several.")
            for name, value in typical.items()
        ),
        _array("integrationType", types, INTEGRATION_TYPES),
        _choice("enriched", BOOLEANS, "Only services that are curated, or that are not."),
        _parameter("maxPrice", price, {"type": "string", "pattern": f"^{PRICE.pattern}$"}),
        _choice("sort", SORTS, "The order; relevance of the listing is best known first."),
        _array("facets", "Facets to count over all matches.", FACETS)
        | {"style": "form", "explode": False},
        _choice("endpoints", ENDPOINTS, "Whether services have their endpoints, or the number."),
    ]


def _resource_page(default: int) -> list[Json]:
    limit = f"Maximum number of resources; over {MAX_RESOURCES:,} means {MAX_RESOURCES:,}."
    offset = "Number of resources to skip; past the end the page is empty."
    return [_integer("limit", default, 1, limit), _integer("offset", 0, 0, offset)]


def _resource_filters() -> list[Json]:
    return [
        _text("type", "Only resources of this type, such as `http` or `mcp`."),
        _text("network", "Only with this network, as the entry of `accepts` has it."),
        _text("scheme", "Only with this scheme, on the same entry of `accepts`."),
        _pay_to(),
        _text("extensions", "Only with this key in `extensions`."),
    ]


def _pay_to() -> Json:
    return _text("payTo", "Only paid to this address, in any case, on the same entry of `accepts`.")


def _text(name: str, description: str) -> Json:
    return _parameter(name, description, {"type": "string", "minLength": 1})


def _limit(items: str) -> Json:
    meaning = f"Maximum number of {items}; over {MAX_LIMIT} means {MAX_LIMIT}."
    return _integer("limit", DEFAULT_LIMIT, 1, meaning)


def _integer(name: str, default: int, minimum: int, description: str) -> Json:
    schema = {"type": "integer", "minimum": minimum, "default": default}
    return _parameter(name, description, schema)


def _choice(name: str, allowed: tuple[str, ...], description: str) -> Json:
    return _parameter(name, description, {"type": "string", "enum": list(allowed)})


def _array(name: str, description: str, allowed: Iterable[str] = ()) -> Json:
    choices = list(allowed)
    items = {"type": "string"} | ({"enum": choices} if choices else {})
    return _parameter(name, description, {"type": "array", "items": items})


def _parameter(name: str, description: str, schema: Json) -> Json:
    return {
        "name": name,
        "in": "query",
        "description": description,
        "required": False,
        "schema": schema,
    }


class _Summary(Struct):
    id: str
    name: str


_summary = msgspec.json.Decoder(_Summary)
