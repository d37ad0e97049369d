"""Agentic Resource Discovery (ARD): a registry whose entries are the services of the catalogue.

The catalogue publishes all entries under its own name. Their addresses begin with the `Host` of
the request, so that no shared cache keeps them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Annotated, Literal
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request
from starlette.routing import Route

from service.api.query_string import MAX_QUERY, QUERY, Operation, format_value, parse
from service.api.routes import OperationRoute
from service.api.services import SearchServices, find_service, headers_of
from service.conditions import ServiceConditions, conditions_of
from service.errors import InvalidParameter, RatecardError
from service.http.context import context_of, snapshot_of
from service.http.logs import log_query
from service.http.responses import Cacheable, root_of
from service.schema.values import Json
from service.settings import FQDN, parse_hosts, parse_registries
from service.snapshot import Snapshot
from service.snapshot.cursors import cursor_prefix, parse_cursor

OPENAPI, REGISTRY = "application/openapi+json", "application/ai-registry+json"
DESCRIPTION = "Finds web APIs that anyone can call and pay for per request, with their prices."
EXAMPLES = ["a paid API for weather forecasts", "extract text from an image, for at most a cent"]
METADATA = ("category", "networks", "priceSummary", "endpointCount")
FILTERS = {f"metadata.{each.name}": each.name for each in conditions_of(ServiceConditions)}
FILTERS |= {"tags": "tag", "metadata.networks": "network"}
"""Parameters of searches by the keys of filters."""
KEYS = ", ".join(("type", "publisher", *sorted(FILTERS)))
HALF = 10.0  # the score of a search that is a relevance of 50

_urn = re.compile(r"urn:air:[A-Za-z0-9.-]+(?::[A-Za-z0-9._-]+)+")
Scalar = str | float | bool
Values = Scalar | Annotated[list[Scalar], Meta(min_length=1)]


class ArdQuery(Struct):
    """The words to search for, and values that entries must have: one of those of each key."""

    text: Annotated[str, Meta(max_length=MAX_QUERY, description=QUERY)]
    filter: Annotated[dict[str, Values], Meta(description=f"Keys: {KEYS}.")] = {}


class SearchArd(Operation, frozen=True, kw_only=True):
    """Search services as a registry of Agentic Resource Discovery."""

    query: ArdQuery
    federation: Annotated[
        Literal["auto", "referrals", "none"], Meta(description="No other registry is ever asked.")
    ] = "auto"
    page_size: Annotated[int, Meta(ge=1, description="Over 100 means 100.")] = 10
    page_token: str | None = None


class ArdEntry(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A service, whose `url` is its OpenAPI document, or a registry.

    Only results have `score`, the relevance from 0 to 100, and `source`, the registry.
    """

    identifier: str
    display_name: str
    type: str
    url: str
    description: str = ""
    tags: list[str] = []
    representative_queries: list[str] = []
    metadata: Json = {}
    score: int | UnsetType = UNSET
    source: str | UnsetType = UNSET


class ArdPage(Struct, rename="camel", kw_only=True):
    """A page of entries, best match first; `pageToken` asks for the next one."""

    results: list[ArdEntry]
    referrals: list[ArdEntry] | UnsetType = UNSET
    page_token: str | UnsetType = UNSET


async def search_ard(request: Request, search: SearchArd) -> Cacheable:
    """Return the entries that match, best match first."""
    snapshot, (name, address) = snapshot_of(request), _publisher(request)
    text, given = search.query.text, search.query.filter
    log_query(request, text, search.page_token)
    conditions = {key: each if isinstance(each, list) else [each] for key, each in given.items()}
    is_listed = OPENAPI in conditions.pop("type", [OPENAPI])
    is_listed &= name in conditions.pop("publisher", [name])
    listing = _listing(text, conditions)
    prefix = cursor_prefix(snapshot.id, listing)
    start = parse_cursor(search.page_token, prefix, "pageToken")
    page = ArdPage(results=[])
    if search.federation == "referrals":
        registries = parse_registries(context_of(request).settings.ard_registries)
        page.referrals = [_registry(host, host, url) for url, host in registries.items()]
    if not is_listed:
        return _private(page)
    hits = await snapshot.find_services(text, min(search.page_size, 100), start, listing)
    explanations = iter(hits.explanations or ())  # a cluster explains no scores
    for place, ordinal in enumerate(hits.ordinals, start + 1):
        entry, why = _entry(snapshot, ordinal, name, address), next(explanations, None)
        score = max(why.score, 0.0) if why else 100 / place
        is_exact = why is not None and why.is_exact_name
        entry.score = 100 if is_exact else round(100 * score / (score + HALF))
        entry.source = f"{address}/ard"
        page.results.append(entry)
    if hits.ordinals and (stop := start + len(hits.ordinals)) < hits.total:
        page.page_token = f"{prefix}{stop}"
    return _private(page, headers_of(hits))


async def get_ard_entry(request: Request) -> Cacheable:
    """Return the entry of an identifier."""
    identifier, (name, address) = request.path_params["identifier"], _publisher(request)
    if not _urn.fullmatch(identifier):
        message = "identifier must be urn:air:HOST:service:ID, as a search has it, percent-encoded"
        raise InvalidParameter("identifier", message)
    snapshot = snapshot_of(request)
    service_id = identifier.removeprefix(_urn_of(name, "")).replace("_:_", "~")
    return _private(_entry(snapshot, find_service(snapshot, service_id), name, address))


async def get_ard_manifest(request: Request) -> Cacheable:
    """Return the manifest, which names this registry."""
    name, address = _publisher(request)
    entry = _registry(name, "Ratecard", f"{address}/ard")
    entry.description, entry.representative_queries = DESCRIPTION, EXAMPLES
    return _private({"entries": [entry]})


def _listing(text: str, conditions: Mapping[str, list[Scalar]]) -> SearchServices:
    """Return the search for services with these conditions; raises InvalidParameter."""
    keys, pairs = {"q": "query.text"}, [("q", text), ("explain", "true")]
    for key, values in conditions.items():
        if key not in FILTERS:
            message = f"query.filter has no key `{key[:100]}`; filter by any of: {KEYS}"
            raise InvalidParameter("query.filter", message)
        keys[FILTERS[key]] = key
        pairs += [(FILTERS[key], format_value(value)) for value in values]
    try:
        return parse(SearchServices, urlencode(pairs).encode())
    except InvalidParameter as error:
        key = keys[error.parameter]
        raise InvalidParameter(key, str(error).replace(error.parameter, key, 1)) from error


def _entry(snapshot: Snapshot, ordinal: int, name: str, address: str) -> ArdEntry:
    """Return the entry of a service; `alive` is left out where probers have no verdict."""
    service: Json = msgspec.json.decode(snapshot.summaries.text(ordinal))
    metadata = {key: service[key] for key in METADATA if service.get(key)}
    if verdict := snapshot.filters.arrays["alive"][ordinal]:
        metadata["alive"] = bool(verdict > 0)
    return ArdEntry(
        identifier=_urn_of(name, service["id"]),
        display_name=service["name"],
        type=OPENAPI,
        url=f"{address}/v1/services/{service['id']}/openapi.json",
        description=service["description"],
        tags=service.get("tags", []),
        metadata=metadata,
    )


def _urn_of(name: str, service_id: str) -> str:
    """Return the identifier of a service: URNs have no `~`, and ids no colon."""
    return f"urn:air:{name}:service:{service_id.replace('~', '_:_')}"


def _registry(host: str, name: str, url: str) -> ArdEntry:
    identifier = f"urn:air:{host}:registry"
    return ArdEntry(identifier=identifier, display_name=name, type=REGISTRY, url=url)


def _publisher(request: Request) -> tuple[str, str]:
    """Return the name that entries are published under, and the address that paths follow.

    The name is the first full host name of `mcp_hosts`, or else that of the request.
    """
    try:
        (host,) = parse_hosts(request.headers.get("host", ""))
    except ValueError as error:
        raise RatecardError("the header Host names no host", "bad_request") from error
    hosts = [*parse_hosts(context_of(request).settings.mcp_hosts), host]
    names = [each.partition(":")[0] for each in hosts]
    name = next(filter(re.compile(FQDN).fullmatch, names), "ratecard.localhost")
    return name, f"{request.url.scheme}://{host}{root_of(request.scope)}"


def _private(content: object, headers: Mapping[str, str] | None = None) -> Cacheable:
    body = msgspec.json.encode(content)
    etag = blake2b(body, digest_size=8).hexdigest()
    policy = "private, no-cache"
    return Cacheable(body, headers=headers, etag=etag, cache_control=policy, is_kept=False)


ARD = [
    OperationRoute("/ard/search", search_ard, SearchArd, "POST"),
    Route("/ard/agents/{identifier:path}", get_ard_entry),
    Route("/.well-known/ard.json", get_ard_manifest),
]
