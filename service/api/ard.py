"""Agentic Resource Discovery (ARD): a registry whose entries are the services of the catalogue.

The catalogue publishes all entries under its own name. Their addresses begin with the `Host` of
the request, so that no shared cache keeps them. ARD's own OpenAPI document describes all paths.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from itertools import repeat
from typing import Annotated, Literal
from urllib.parse import urlencode, urlsplit

import msgspec
from msgspec import Meta, Raw, Struct
from starlette.requests import Request
from starlette.routing import Route

from service.api.listing import fitting
from service.api.query_string import MAX_QUERY, Operation, format_value, parse
from service.api.routes import OperationRoute
from service.api.services import SearchServices, find_service, headers_of
from service.conditions import ServiceConditions, conditions_of
from service.errors import InvalidParameter, RatecardError
from service.http.context import context_of, snapshot_of
from service.http.logs import log_query
from service.http.responses import Cacheable, root_of
from service.schema.values import NULL, Json
from service.settings import FQDN, parse_hosts, parse_registries
from service.snapshot import Snapshot
from service.snapshot.cursors import cursor_prefix, parse_cursor

OPENAPI, REGISTRY = "application/openapi+json", "application/ai-registry+json"
EXAMPLES = ["a paid API for weather forecasts", "extract text from an image, for at most a cent"]
FILTERS = {f"metadata.{each.name}": each.name for each in conditions_of(ServiceConditions)}
FILTERS |= {"tags": "tag", "metadata.networks": "network"}
"""Parameters of searches by the keys of filters."""
KEYS = ", ".join(("type", "publisher", *sorted(FILTERS)))
HALF = 10.0  # the score of a search that is a relevance of 50

_urn = re.compile(r"urn:air:[A-Za-z0-9.-]+(?::[A-Za-z0-9._-]+)+")
Scalar = str | float | bool


class ArdService(Struct, rename="camel"):
    """The members of a service that its entry has; decoding skips all others."""

    id: str
    name: str
    description: str
    tags: list[str] = []
    category: str = ""
    networks: list[str] = []
    price_summary: Raw = NULL
    endpoint_count: int = 0


_service = msgspec.json.Decoder(ArdService)


class ArdQuery(Struct):
    """The words to search for, and values that entries must have: one of those of each key."""

    text: Annotated[str, Meta(max_length=MAX_QUERY)]
    filter: dict[str, Scalar | Annotated[list[Scalar], Meta(min_length=1)]] = {}


class SearchArd(Operation, frozen=True, kw_only=True):
    """The body of a search; whatever `federation` says, no other registry is asked."""

    query: ArdQuery
    federation: Literal["auto", "referrals", "none"] = "auto"
    page_size: Annotated[int, Meta(ge=1)] = 10
    page_token: str | None = None


async def search_ard(request: Request, search: SearchArd) -> Cacheable:
    """Return the entries that match, best match first."""
    snapshot, (publisher, address) = snapshot_of(request), _publisher(request)
    text, page = search.query.text, Json(results=[])
    log_query(request, text, search.page_token)
    own, has_own = {"type": OPENAPI, "publisher": publisher}, True
    keys, pairs = {"q": "query.text"}, [("q", text), ("explain", "true")]
    for key, given in search.query.filter.items():
        values = given if isinstance(given, list) else [given]
        if parameter := FILTERS.get(key):
            if (other := keys.setdefault(parameter, key)) != key:
                message = f"query.filter has `{other}` and `{key}`, which are the same; send one"
                raise InvalidParameter("query.filter", message)
            pairs += [(parameter, format_value(value)) for value in values]
        elif key in own:
            has_own &= own[key] in values
        else:
            message = f"query.filter has no key `{key[:100]}`; filter by any of: {KEYS}"
            raise InvalidParameter("query.filter", message)
    try:
        listing = parse(SearchServices, urlencode(pairs).encode())
    except InvalidParameter as error:
        key = keys[error.parameter]
        raise InvalidParameter(key, str(error).replace(error.parameter, key, 1)) from error
    prefix = cursor_prefix(snapshot.id, pairs)
    start = parse_cursor(search.page_token, prefix, "pageToken")
    if search.federation == "referrals":
        urls = parse_registries(context_of(request).settings.ard_registries)
        page["referrals"] = [_registry(urlsplit(url).hostname, url) for url in urls]
    if not has_own:
        return _private(page)
    hits = await snapshot.find_services(text, min(search.page_size, 100), start, listing)
    # Entries have little that their services have not.
    ordinals = hits.ordinals[: fitting([*map(snapshot.summaries.pieces, hits.ordinals)])]
    reasons = hits.explanations or repeat(None)  # a cluster explains nothing
    for place, (ordinal, why) in enumerate(zip(ordinals, reasons, strict=False), start + 1):
        score = max(why.score, 1e6 * why.is_exact_name, 0.0) if why else 100 / place
        result = {"score": round(100 * score / (score + HALF)), "source": f"{address}/ard"}
        page["results"].append(_entry(snapshot, ordinal, publisher, address) | result)
    if ordinals and (stop := start + len(ordinals)) < hits.total:
        page["pageToken"] = f"{prefix}{stop}"
    return _private(page, headers_of(hits))


async def get_ard_entry(request: Request) -> Cacheable:
    """Return the entry of an identifier."""
    identifier, (publisher, address) = request.path_params["identifier"], _publisher(request)
    if not _urn.fullmatch(identifier):
        message = "identifier must be urn:air:HOST:service:ID, as a search has it, percent-encoded"
        raise InvalidParameter("identifier", message)
    snapshot = snapshot_of(request)
    service_id = identifier.removeprefix(_urn_of(publisher, "")).replace("_:_", "~")
    return _private(_entry(snapshot, find_service(snapshot, service_id), publisher, address))


async def get_ard_manifest(request: Request) -> Cacheable:
    """Return the manifest, which names this registry."""
    publisher, address = _publisher(request)
    description = "Finds web APIs that anyone can call and pay for per request, with their prices."
    texts = {"description": description, "representativeQueries": EXAMPLES}
    return _private({"entries": [_registry(publisher, f"{address}/ard") | texts]})


def _entry(snapshot: Snapshot, ordinal: int, publisher: str, address: str) -> Json:
    """Return the entry of a service; `alive` is left out where probers have no verdict."""
    service = _service.decode(snapshot.summaries.text(ordinal))
    facts = {
        "category": service.category,
        "networks": service.networks,
        "priceSummary": service.price_summary,
        "endpointCount": service.endpoint_count,
    }
    metadata = {name: value for name, value in facts.items() if value and value != NULL}
    if verdict := snapshot.filters.arrays["alive"][ordinal]:
        metadata["alive"] = bool(verdict > 0)
    return {
        "identifier": _urn_of(publisher, service.id),
        "displayName": service.name,
        "type": OPENAPI,
        "url": f"{address}/v1/services/{service.id}/openapi.json",
        "description": service.description,
        "tags": service.tags,
        "metadata": metadata,
    }


def _urn_of(publisher: str, service_id: str) -> str:
    """Return the identifier of a service: URNs have no `~`, and ids no colon."""
    return f"urn:air:{publisher}:service:{service_id.replace('~', '_:_')}"


def _registry(host: str | None, url: str) -> Json:
    identifier = f"urn:air:{host}:registry"
    return {"identifier": identifier, "displayName": host, "type": REGISTRY, "url": url}


def _publisher(request: Request) -> tuple[str, str]:
    """Return the first full host name of `mcp_hosts` and the request, and where paths begin."""
    try:
        (host,) = parse_hosts(request.headers.get("host", ""))
    except ValueError as error:
        raise RatecardError("the header Host names no host", "bad_request") from error
    hosts = [*parse_hosts(context_of(request).settings.mcp_hosts), host]
    names = filter(re.compile(FQDN).fullmatch, (each.partition(":")[0] for each in hosts))
    return next(
        names, "ratecard.localhost"
    ), f"{request.url.scheme}://{host}{root_of(request.scope)}"


def _private(content: Json, headers: Mapping[str, str] | None = None) -> Cacheable:
    body = msgspec.json.encode(content)
    etag = blake2b(body, digest_size=8).hexdigest()
    policy = "private, no-cache"
    return Cacheable(body, headers=headers, etag=etag, cache_control=policy, is_kept=False)


ARD = [
    OperationRoute("/ard/search", search_ard, SearchArd, "POST"),
    Route("/ard/agents/{identifier:path}", get_ard_entry),
    Route("/.well-known/ard.json", get_ard_manifest),
]
