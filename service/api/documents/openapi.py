"""The OpenAPI 3.1 document; its schemas are generated from the types of `service.schema`."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

import msgspec
from msgspec import Struct
from starlette.requests import Request

from service.api.discovery import (
    ListDiscoveryMerchant,
    ListDiscoveryResources,
    SearchDiscoveryResources,
)
from service.api.documents.openapi_parameters import IF_NONE_MATCH, describe, describe_id
from service.api.ecosystem import GetEcosystemOverview, GetEcosystemStats, GetRecentTransactions
from service.api.endpoints import SearchEndpoints
from service.api.listings import ExplainListings
from service.api.query_string import MAX_QUERY, Operation
from service.api.services import ListServices, SearchServices
from service.errors import (
    EngineUnavailable,
    IndexMissing,
    InvalidParameter,
    MethodNotAllowed,
    Overloaded,
    RatecardError,
    ServiceNotFound,
    SnapshotUnavailable,
)
from service.http.context import snapshot_of
from service.http.responses import JSON, Cacheable
from service.schema.demand import DemandEnvelope
from service.schema.discovery import (
    DiscoveryError,
    FoundResources,
    MerchantResources,
    ResourceList,
)
from service.schema.documents import ServiceDocument
from service.schema.ecosystem import OverviewEnvelope, StatsEnvelope, TransactionsEnvelope
from service.schema.listings import ListingPage, ListingReport
from service.schema.records import Service
from service.schema.responses import EndpointList, ServiceEnvelope, ServiceList
from service.schema.snapshots import SnapshotEnvelope
from service.schema.status import ErrorEnvelope, Health, Readiness
from service.schema.values import ID_PATTERN, Json
from service.snapshot import Snapshot

QUERY = "weather forecast"
"""The example of a query, where the snapshot has a service for it."""

DISCOVERY = "Discovery"
TAGS: dict[type[Struct], str] = {
    ServiceList: "Services",
    ServiceEnvelope: "Services",
    DemandEnvelope: "Services",
    ServiceDocument: "Services",
    EndpointList: "Endpoints",
    ListingReport: "Listings",
    ListingPage: "Listings",
    OverviewEnvelope: "Ecosystem",
    StatsEnvelope: "Ecosystem",
    TransactionsEnvelope: "Ecosystem",
    SnapshotEnvelope: "Snapshots",
    ResourceList: DISCOVERY,
    FoundResources: DISCOVERY,
    MerchantResources: DISCOVERY,
    Health: "State",
    Readiness: "State",
}
NOT_CACHEABLE = (Health, Readiness)
ERRORS: dict[type[RatecardError], str] = {
    InvalidParameter: "A parameter is invalid; `parameter` names it.",
    ServiceNotFound: "No service of this snapshot has the id.",
    MethodNotAllowed: "The path answers GET, HEAD and OPTIONS only.",
    RatecardError: "The service failed to answer; asking again may help.",
    SnapshotUnavailable: "There is no snapshot to answer from, the cluster that searches does not "
    "answer, too many requests are waiting, or (at `/readyz` alone) the service is about to stop; "
    "ask again later.",
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

_service = msgspec.json.Decoder(Service)


async def get_openapi(request: Request) -> Cacheable:
    """Return the document, with examples that the snapshot has answers to."""
    root_path = request.scope.get("root_path", "")
    snapshot = snapshot_of(request)
    return Cacheable(document(root_path, *await find_examples(snapshot)))


async def find_examples(snapshot: Snapshot) -> tuple[str, str | None]:
    """Return a query with results, and the id of a service or None for an empty catalogue."""
    best_known = snapshot.list(limit=1).ordinals
    if not best_known:
        return QUERY, None
    service = _service.decode(snapshot.summaries.view(best_known[0]))
    if not (await snapshot.engine.search(QUERY, limit=1)).total:
        return service.name[:MAX_QUERY].strip() or QUERY, service.id
    return QUERY, service.id


def document(
    root_path: str,
    query: str = QUERY,
    service_id: str | None = None,
) -> bytes:
    """Return the document as JSON, for an application that is mounted at `root_path`."""
    examples = {"q": query, "query": query, "id": service_id}
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
            "paths": _paths(examples),
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


def _paths(examples: dict[str, str | None]) -> Json:
    search = _operation(SearchServices, ServiceList, examples)
    listings = _operation(ExplainListings, ListingReport, examples)
    listings["get"]["responses"]["200"]["content"] = _content(ListingReport, ListingPage)
    return {
        "/v1/services": _operation(ListServices, ServiceList, examples),
        "/v1/search/services": search,
        "/v1/services/search": {
            "get": search["get"]
            | {"operationId": "searchServicesToo", "summary": "The same as /v1/search/services"}
        },
        "/v1/services/{id}": _describe(
            "getServiceById",
            "Fetch a service",
            describe_id("service", ID_PATTERN, examples["id"]),
            ServiceEnvelope,
            ServiceNotFound,
        ),
        "/v1/services/{id}/demand": _describe(
            "getServiceDemand",
            "Describe the payments for a service",
            describe_id("service", ID_PATTERN, examples["id"]),
            DemandEnvelope,
            ServiceNotFound,
        ),
        "/v1/services/{id}/openapi.json": _describe(
            "getServiceOpenapi",
            "Describe a service by an OpenAPI document",
            describe_id("service", ID_PATTERN, examples["id"]),
            ServiceDocument,
            ServiceNotFound,
        ),
        "/v1/search/endpoints": _operation(SearchEndpoints, EndpointList, examples),
        "/v1/listings": listings,
        "/v1/ecosystem/overview": _operation(GetEcosystemOverview, OverviewEnvelope, examples),
        "/v1/ecosystem/transactions": _operation(
            GetRecentTransactions, TransactionsEnvelope, examples
        ),
        "/v1/ecosystem/stats": _operation(GetEcosystemStats, StatsEnvelope, examples),
        "/v1/snapshots/current": _describe(
            "getCurrentSnapshot", "Describe the snapshot being served", [], SnapshotEnvelope
        ),
        "/discovery/resources": _operation(ListDiscoveryResources, ResourceList, examples),
        "/discovery/search": _operation(SearchDiscoveryResources, FoundResources, examples),
        "/discovery/merchant": _operation(ListDiscoveryMerchant, MerchantResources, examples),
        "/healthz": _describe("getHealth", "Whether the process is up", [], Health),
        "/readyz": _describe("getReadiness", "The snapshot being served", [], Readiness),
    }


def _operation(
    kind: type[Operation],
    result: type[Struct],
    examples: Mapping[str, str | None],
    *errors: type[RatecardError],
) -> Json:
    name, summary = kind.__name__, (kind.__doc__ or "").rstrip(".")
    parameters = describe(kind, examples)
    return _describe(
        name[0].lower() + name[1:], summary, parameters, result, InvalidParameter, *errors
    )


def _describe(
    operation_id: str,
    summary: str,
    accepted: list[Json],
    result: type[Struct],
    *errors: type[RatecardError],
) -> Json:
    possible: list[type[RatecardError]] = [*errors, MethodNotAllowed, RatecardError]
    if result is not Health:
        possible.append(SnapshotUnavailable)
    prefix = DISCOVERY if TAGS[result] == DISCOVERY else ""
    responses = {error.status: prefix + error.__name__ for error in possible}
    is_cacheable = result not in NOT_CACHEABLE
    headers = CACHEABLE_HEADERS if is_cacheable else COMMON_HEADERS
    if is_cacheable:
        responses[304] = "NotModified"
        accepted = [*accepted, IF_NONE_MATCH]
    return {
        "get": {
            "operationId": operation_id,
            "tags": [TAGS[result]],
            "summary": summary,
            "parameters": accepted,
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
        kinds += [EngineUnavailable, IndexMissing, Overloaded]
    codes = f" Codes: {', '.join(kind.code for kind in kinds)}." if body is ErrorEnvelope else ""
    return {
        "description": ERRORS[error] + codes,
        "headers": _header_refs(*COMMON_HEADERS, *own_headers),
        "content": _content(body),
    }


def _content(*results: type[Struct]) -> Json:
    """Return the content of a response that is one of several types."""
    schemas = [{"$ref": f"#/components/schemas/{result.__name__}"} for result in results]
    return {JSON: {"schema": schemas[0] if len(schemas) == 1 else {"oneOf": schemas}}}


def _header_refs(*names: str) -> Json:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _header(name: str) -> Json:
    return {
        "description": HEADERS[name],
        "required": name != "Ratecard-Snapshot",
        "schema": {"type": "integer" if name == "Retry-After" else "string"},
    }
