"""Agentic Resource Discovery (ARD): a registry whose entries are the services of the catalogue.

The catalogue publishes all entries under its own name. Their addresses begin with the `Host` of
the request, so that no shared cache keeps them.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from service.api.query_string import MAX_QUERY, QUERY, parse
from service.api.routes import BodyRoute
from service.api.services import SearchServices, find_service
from service.conditions import ServiceConditions, conditions_of
from service.errors import InvalidParameter, RatecardError, ServiceNotFound
from service.http.context import context_of, snapshot_of
from service.http.logs import log_search
from service.http.responses import Cacheable, no_store, root_of
from service.prices import format_decimal
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


class ArdQuery(Struct):
    """The words to search for, and values that entries must have: one of those of each key."""

    text: Annotated[str, Meta(max_length=MAX_QUERY, description=QUERY)]
    filter: Annotated[dict[str, Scalar | list[Scalar]], Meta(description=f"Keys: {KEYS}.")] = {}
    context: Any = field(name="@context", default=None)


class SearchArd(Struct, rename="camel"):
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


async def search_ard(request: Request, search: SearchArd) -> Response:
    """Return the entries that match, best match first."""
    text, snapshot = search.query.text, snapshot_of(request)
    log_search(request, q=text, pageToken=search.page_token)
    if not text.strip():
        raise InvalidParameter("query.text", "query.text is required: the words to search for")
    name, address = _publisher(request)
    own, page = {"type": OPENAPI, "publisher": name}, ArdPage(results=[])
    pairs = [("q", text), ("explain", "true")]
    is_excluded = False
    for key, given in search.query.filter.items():
        values = [*map(_text_of, given if isinstance(given, list) else [given])]
        if not values:
            raise InvalidParameter("query.filter", f"query.filter has no value of `{key[:100]}`")
        if key in own:
            is_excluded |= own[key] not in values
        elif key in FILTERS:
            pairs += [(FILTERS[key], value) for value in values]
        else:
            reason = f"has no key `{key[:100]}`; filter by any of: {KEYS}"
            raise InvalidParameter("query.filter", f"query.filter {reason}")
    listing = parse(SearchServices, urlencode(pairs).encode())
    prefix = cursor_prefix(snapshot.id, pairs)
    start = parse_cursor(search.page_token, prefix, "pageToken")
    if search.federation == "referrals":
        registries = parse_registries(context_of(request).settings.ard_registries)
        page.referrals = [_registry(host, host, url) for url, host in registries.items()]
    if not is_excluded:
        hits = await snapshot.find_services(text, min(search.page_size, 100), start, listing)
        explanations = iter(hits.explanations or ())  # a cluster explains no scores
        for place, ordinal in enumerate(hits.ordinals, start + 1):
            why = next(explanations, None)
            entry = _entry(snapshot, ordinal, name, address)
            score = max(why.score, 0.0) if why else 10 * HALF / place
            is_exact = why is not None and why.is_exact_name
            entry.score = 100 if is_exact else round(100 * score / (score + HALF))
            entry.source = f"{address}/ard"
            page.results.append(entry)
        stop = start + len(page.results)
        page.page_token = f"{prefix}{stop}" if page.results and stop < hits.total else UNSET
    return no_store(msgspec.json.encode(page))


async def get_ard_entry(request: Request) -> Cacheable:
    """Return the entry of an identifier."""
    identifier, (name, address) = request.path_params["identifier"], _publisher(request)
    if not _urn.fullmatch(identifier):
        message = "identifier must be urn:air:HOST:service:ID, as a search has it, percent-encoded"
        raise InvalidParameter("identifier", message)
    snapshot = snapshot_of(request)
    service_id = identifier.removeprefix(_urn_of(name, "")).replace("_:_", "~")
    if identifier != _urn_of(name, service_id):
        raise ServiceNotFound(f"all entries here begin with {_urn_of(name, '')}; search for one")
    return _private(_entry(snapshot, find_service(snapshot, service_id), name, address))


async def get_ard_manifest(request: Request) -> Cacheable:
    """Return the manifest, which names this registry."""
    name, address = _publisher(request)
    entry = _registry(name, "Ratecard", f"{address}/ard")
    entry.description, entry.representative_queries = DESCRIPTION, EXAMPLES
    return _private({"entries": [entry]})


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


def _text_of(value: Scalar) -> str:
    """Return a value as a query string has it."""
    if isinstance(value, str):
        return value
    return format_decimal(value) if isinstance(value, float) else str(value).lower()


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
    name = next((each for each in names if re.fullmatch(FQDN, each)), "ratecard.localhost")
    return name, f"{request.url.scheme}://{host}{root_of(request.scope)}"


def _private(content: ArdEntry | Json) -> Cacheable:
    body = msgspec.json.encode(content)
    etag = blake2b(body, digest_size=8).hexdigest()
    return Cacheable(body, etag=etag, cache_control="private, no-cache", is_kept=False)


ARD = [
    BodyRoute("/ard/search", search_ard, SearchArd),
    Route("/ard/agents/{identifier:path}", get_ard_entry),
    Route("/.well-known/ard.json", get_ard_manifest),
]
