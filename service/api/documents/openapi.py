"""The OpenAPI 3.1 document; its schemas derive from `service.schema` and from operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import Struct
from starlette.requests import Request

from service.api.discovery import (
    ListDiscoveryMerchant,
    ListDiscoveryResources,
    SearchDiscoveryResources,
)
from service.api.ecosystem import GetEcosystemOverview, GetEcosystemStats, GetRecentTransactions
from service.api.endpoints import SearchEndpoints
from service.api.listings import ExplainListings, FindAlternatives
from service.api.query_string import JOINED, MAX_QUERY, Operation, parameters_of
from service.api.services import ListServices, SearchServices
from service.conditions import NO_FILTERS
from service.engines.engine import Search
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
from service.schema.ecosystem import OverviewEnvelope, StatsEnvelope, TransactionsEnvelope
from service.schema.listings import ListingPage, ListingReport
from service.schema.records import Service
from service.schema.responses import EndpointList, ServiceDocument, ServiceEnvelope, ServiceList
from service.schema.status import ErrorEnvelope, Health, Readiness, SnapshotEnvelope
from service.schema.values import ID_PATTERN, Json
from service.snapshot import Snapshot

QUERY = "weather forecast"
"""The example of a query, where the snapshot has a service for it."""


class Path(NamedTuple):
    """The result of a path for the parameters of a kind, or another result.

    name, summary: those of the kind, unless given
    """

    result: type[Struct]
    kind: type[Operation]
    name: str = ""
    summary: str = ""
    other: type[Struct] | None = None

    @property
    def results(self) -> list[type[Struct]]:
        """The possible results."""
        return [self.result] if self.other is None else [self.result, self.other]


DISCOVERY = "Discovery"
SEARCH = Path(ServiceList, SearchServices)
DEMAND = Path(DemandEnvelope, Operation, "getServiceDemand", "Describe the payments for a service")
DESCRIPTION = Path(
    ServiceDocument, Operation, "getServiceOpenapi", "Describe a service by an OpenAPI document"
)
SNAPSHOT = Path(
    SnapshotEnvelope, Operation, "getCurrentSnapshot", "Describe the snapshot being served"
)
PATHS: dict[str, dict[str, Path]] = {
    "Services": {
        "/v1/services": Path(ServiceList, ListServices),
        "/v1/search/services": SEARCH,
        "/v1/services/search": SEARCH._replace(
            name="searchServicesToo", summary="The same as /v1/search/services"
        ),
        "/v1/services/{id}": Path(ServiceEnvelope, Operation, "getServiceById", "Fetch a service"),
        "/v1/services/{id}/demand": DEMAND,
        "/v1/services/{id}/openapi.json": DESCRIPTION,
    },
    "Endpoints": {
        "/v1/search/endpoints": Path(EndpointList, SearchEndpoints),
        "/v1/endpoints/alternatives": Path(EndpointList, FindAlternatives),
    },
    "Listings": {"/v1/listings": Path(ListingReport, ExplainListings, other=ListingPage)},
    "Ecosystem": {
        "/v1/ecosystem/overview": Path(OverviewEnvelope, GetEcosystemOverview),
        "/v1/ecosystem/transactions": Path(TransactionsEnvelope, GetRecentTransactions),
        "/v1/ecosystem/stats": Path(StatsEnvelope, GetEcosystemStats),
    },
    "Snapshots": {"/v1/snapshots/current": SNAPSHOT},
    DISCOVERY: {
        "/discovery/resources": Path(ResourceList, ListDiscoveryResources),
        "/discovery/search": Path(FoundResources, SearchDiscoveryResources),
        "/discovery/merchant": Path(MerchantResources, ListDiscoveryMerchant),
    },
    "State": {
        "/healthz": Path(Health, Operation, "getHealth", "Whether the process is up"),
        "/readyz": Path(Readiness, Operation, "getReadiness", "The snapshot being served"),
    },
}
ERRORS: dict[type[RatecardError], str] = {
    InvalidParameter: "A parameter is invalid; `parameter` names it.",
    ServiceNotFound: "No service of this snapshot has the id, or no endpoint the URL.",
    MethodNotAllowed: "The path answers the methods in `Allow` only.",
    RatecardError: "The service failed to answer; asking again may help.",
    SnapshotUnavailable: "There is no snapshot to answer from, the cluster that searches does not "
    "answer, or too many requests are waiting; ask again later.",
}
HEADERS = {
    "Ratecard-Snapshot": "The snapshot that the response is from; absent when none is loaded.",
    "Ratecard-Similar": "How many of the total match no word, and are similar.",
    "Ratecard-Fit": "How well the first service fits; below 1 none matches well.",
    "X-Request-Id": "The id that the request came with, or a new one.",
    "Cache-Control": "Whether and for how many seconds the response may be reused.",
    "ETag": "Changes with the response; each content coding has its own.",
    "Vary": "The request headers that the response depends on.",
    "Retry-After": "Seconds to wait.",
    "Allow": "The methods that the path answers.",
}
COMMON_HEADERS = ("Ratecard-Snapshot", "X-Request-Id", "Cache-Control")
CACHEABLE_HEADERS = (*COMMON_HEADERS, "ETag", "Vary")
TEXT = {"type": "string"}
IF_NONE_MATCH: Json = {
    "name": "If-None-Match",
    "in": "header",
    "description": "The `ETag` of an earlier response; 304 while it is up to date.",
    "required": False,
    "schema": TEXT,
}
ID: Json = {
    "name": "id",
    "in": "path",
    "description": "The id of a service.",
    "required": True,
    "schema": {"type": "string", "pattern": ID_PATTERN},
}
_service = msgspec.json.Decoder(Service)


async def get_openapi(request: Request) -> Cacheable:
    """Return the document, with examples that the snapshot has answers to."""
    root_path = request.scope.get("root_path", "")
    return Cacheable(document(root_path, *await find_examples(snapshot_of(request))))


async def find_examples(snapshot: Snapshot) -> tuple[str, str | None]:
    """Return a query with results, and the id of a service or None for an empty catalogue."""
    best_known = snapshot.list(limit=1).ordinals
    if not best_known:
        return QUERY, None
    service = _service.decode(snapshot.summaries.text(best_known[0]))
    if not (await snapshot.engine.search_services(Search(QUERY, NO_FILTERS))).matches:
        return service.name[:MAX_QUERY].strip() or QUERY, service.id
    return QUERY, service.id


def document(root_path: str, query: str = QUERY, service_id: str | None = None) -> bytes:
    """Return the document as JSON, for an application that is mounted at `root_path`."""
    examples = {"q": query, "query": query, "id": service_id}
    results = [each for paths in PATHS.values() for path in paths.values() for each in path.results]
    _, schemas = msgspec.json.schema_components(
        [*results, DiscoveryError, ErrorEnvelope], ref_template="#/components/schemas/{name}"
    )
    responses = {
        prefix + error.__name__: _error_response(error, body)
        for prefix, body in (("", ErrorEnvelope), (DISCOVERY, DiscoveryError))
        for error in ERRORS
    }
    responses["NotModified"] = {
        "description": "The response that `If-None-Match` names is up to date.",
        "headers": _header_refs(*CACHEABLE_HEADERS),
    }
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
            "tags": [{"name": tag} for tag in PATHS],
            "paths": {
                path: {"get": _operation(tag, answer, examples, path)}
                for tag, paths in PATHS.items()
                for path, answer in paths.items()
            },
            "components": {
                "schemas": schemas,
                "headers": {
                    name: {
                        "description": text,
                        "required": name not in ("Ratecard-Snapshot", "Ratecard-Fit"),
                        "schema": {"type": "integer"} if name == "Retry-After" else TEXT,
                    }
                    for name, text in HEADERS.items()
                },
                "responses": responses,
            },
        }
    )


def describe(kind: type[Operation], examples: Mapping[str, str | None]) -> list[Json]:
    """Return the parameters of an operation, with examples of some.

    Typical values of others are in their descriptions, since viewers fill an `example` into the
    request that a reader tries, which would find little with all of them.
    """
    return [
        {
            "name": name,
            "in": "query",
            "description": schema["description"],
            "required": "default" not in schema,
            "schema": _accepted(schema),
            **({"style": "form", "explode": False} if name in JOINED else {}),
            **({"example": example} if (example := examples.get(name)) else {}),
        }
        for name, schema in parameters_of(kind).items()
    ]


def _accepted(schema: Json) -> Json:
    """Return the schema of what is accepted: a number as text, and integers over the maximum."""
    own = {name: schema[name] for name in schema if name not in ("description", "maximum")}
    if schema.get("default") in (None, "", ()):
        own.pop("default", None)
    return own | TEXT if own.get("type") == "number" else own


def _operation(tag: str, answer: Path, examples: Mapping[str, str | None], path: str) -> Json:
    name, kind = answer.name or answer.kind.__name__, answer.kind
    errors: list[type[RatecardError]] = [MethodNotAllowed, RatecardError]
    parameters = describe(kind, examples)
    if kind is not Operation:
        errors.append(InvalidParameter)
    if "{id}" in path or kind is FindAlternatives:
        errors.append(ServiceNotFound)
    if "{id}" in path:
        parameters.append(ID | ({"example": examples["id"]} if examples["id"] else {}))
    if answer.result is not Health:
        errors.append(SnapshotUnavailable)
    prefix = DISCOVERY if tag == DISCOVERY else ""
    headers: tuple[str, ...] = COMMON_HEADERS
    responses = {error.status: prefix + error.__name__ for error in errors}
    if tag != "State":
        responses[304], headers = "NotModified", CACHEABLE_HEADERS
        parameters.append(IF_NONE_MATCH)
    if kind is SearchServices:
        headers += ("Ratecard-Similar", "Ratecard-Fit")
    return {
        "operationId": name[0].lower() + name[1:],
        "tags": [tag],
        "summary": answer.summary or (kind.__doc__ or "").rstrip("."),
        "parameters": parameters,
        "responses": {
            "200": {
                "description": (answer.result.__doc__ or "").strip(),
                "headers": _header_refs(*headers),
                "content": {JSON: {"schema": _one_of(answer.results)}},
            },
            **{
                str(status): {"$ref": f"#/components/responses/{response}"}
                for status, response in sorted(responses.items())
            },
        },
    }


def _error_response(error: type[RatecardError], body: type[Struct]) -> Json:
    own_headers = {405: ["Allow"], 503: ["Retry-After"]}.get(error.status, [])
    kinds = [error] if error is RatecardError else [error, *error.__subclasses__()]
    if error is SnapshotUnavailable:
        kinds += [EngineUnavailable, IndexMissing, Overloaded]
    codes = f" Codes: {', '.join(kind.code for kind in kinds)}." if body is ErrorEnvelope else ""
    return {
        "description": ERRORS[error] + codes,
        "headers": _header_refs(*COMMON_HEADERS, *own_headers),
        "content": {JSON: {"schema": _one_of([body])}},
    }


def _one_of(results: list[type[Struct]]) -> Json:
    schemas = [{"$ref": f"#/components/schemas/{result.__name__}"} for result in results]
    return schemas[0] if len(schemas) == 1 else {"oneOf": schemas}


def _header_refs(*names: str) -> Json:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
