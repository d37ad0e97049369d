"""Targets: the listed endpoints of a snapshot, and the requests that visit them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, field

from indexer.errors import InvalidRecord
from indexer.x402.endpoints import pair_endpoints
from indexer.x402.naming import registrable_domain
from indexer.x402.parameters import path_parameters
from indexer.x402.untrusted import decode_object, mapping, text
from service.filtering.offers import NONE
from service.schema.records import ParameterDescriptor
from service.snapshot.snapshot import Snapshot
from service.urls import DEFAULT_PORTS, ParsedUrl, parse_url

MAX_BODY = 64 * 1024  # bytes of an example
NULL = Raw(b"null")


class Listed(Struct, frozen=True):
    """A listed endpoint, as an observation names it."""

    url: str
    method: str


class Target(Listed, frozen=True):
    """An endpoint that can be visited, with the request that does so.

    origin, rest: the URL of the request in two parts, of which the second is path and query
    """

    host: str
    origin: str
    rest: str
    body: bytes | None

    @property
    def request(self) -> str:
        """The URL of the request."""
        return self.origin + self.rest


Site = list[list[Target]]
"""The endpoints of one registrable domain, by origin (scheme, host and port)."""


class _Endpoint(Struct):
    """An endpoint with its listing, which is empty where no feed lists it."""

    url: str
    method: str
    parameters: list[ParameterDescriptor] = []
    listing: bytes = b""


class _Facts(Struct):
    endpoint: _Endpoint
    in_record: bool = field(name="inRecord", default=True)


class _Listing(Struct):
    ratecard: _Facts


_endpoint = msgspec.json.Decoder(_Endpoint)
_listing = msgspec.json.Decoder(_Listing)


def find_targets(snapshot: Snapshot, *, post: bool) -> Iterator[Listed]:
    """Yield each endpoint once that GET calls, or with `post` POST: a Target if it can be visited.

    Templates without an example, other schemes than http and https, URLs with credentials, and
    bodies without an example cannot.
    """
    seen: set[tuple[str, str]] = set()
    for endpoint in _endpoints(snapshot):
        methods = {method for _, method in pair_endpoints([""], endpoint.method)}
        method = next((each for each in ("GET", "POST")[: 1 + post] if each in methods), None)
        if method is None:
            continue
        parsed = _parse(endpoint.url)
        key = (endpoint.url if parsed is None else parsed.identity), method
        if key in seen:
            continue
        seen.add(key)
        body = _example_body(endpoint.parameters) if method == "POST" else None
        visited = _visited(parsed, endpoint.listing) if parsed else None
        if visited is None or (method == "POST" and body is None):
            yield Listed(endpoint.url, method)
        else:
            origin = _origin(visited)
            yield Target(endpoint.url, method, visited.host, origin, visited.rest, body)


def _endpoints(snapshot: Snapshot) -> Iterator[_Endpoint]:
    """Yield the endpoints of all records, then those that are beyond the bounds of a record."""
    endpoints, listings = snapshot.endpoints, snapshot.resources.texts
    for ordinal in range(len(endpoints)):
        endpoint = _endpoint.decode(b"".join(endpoints.item(ordinal, NONE)))
        listed = endpoints.resource_of(ordinal)
        endpoint.listing = b"" if listed is None else listings.text(listed)
        yield endpoint
    for listed in range(len(listings)):
        listing = listings.text(listed)
        facts = _listing.decode(listing).ratecard
        if not facts.in_record:
            facts.endpoint.listing = listing
            yield facts.endpoint


def group_by_site(targets: Iterable[Target]) -> list[Site]:
    """Group targets by site, those of most endpoints first."""
    sites: dict[str, dict[str, list[Target]]] = defaultdict(lambda: defaultdict(list))
    for target in targets:
        sites[registrable_domain(target.host)][target.origin].append(target)
    found = [[*origins.values()] for origins in sites.values()]
    return sorted(found, key=lambda origins: -sum(map(len, origins)))


def _parse(url: str) -> ParsedUrl | None:
    """Parse a URL that may be requested: of http or https, and without credentials."""
    try:
        parsed = parse_url(url)
    except ValueError:
        return None
    return parsed if parsed.scheme in DEFAULT_PORTS and not parsed.has_credentials else None


def _visited(listed: ParsedUrl, listing: bytes) -> ParsedUrl | None:
    """Return the URL to visit: as listed, or for a template the example of the same origin."""
    if not _is_template(listed):
        return listed
    example = _parse(_example_url(listing))
    if example is None or _is_template(example) or _origin(example) != _origin(listed):
        return None
    return example


def _origin(parsed: ParsedUrl) -> str:
    host = f"[{parsed.host}]" if ":" in parsed.host else parsed.host
    return f"{parsed.scheme}://{host}{'' if parsed.port is None else f':{parsed.port}'}"


def _is_template(parsed: ParsedUrl) -> bool:
    return any(mark in parsed.rest for mark in ("{", "%7B")) or bool(path_parameters(parsed.rest))


def _example_url(listing: bytes) -> str:
    """Return the URL that a listing gives as an example of its template, or an empty one."""
    if b'"exampleUrl"' not in listing:
        return ""
    try:
        values: dict[str, Any] = decode_object(listing)
    except InvalidRecord:
        return ""
    return text(mapping(values.get("extensions"), "bazaar").get("exampleUrl"))


def _example_body(parameters: Iterable[ParameterDescriptor]) -> bytes | None:
    """Return the declared examples of a body, None where there are none or a required one lacks."""
    fields = [parameter for parameter in parameters if parameter.group == "body"]
    examples = {each.name: each.example for each in fields if each.example not in (UNSET, NULL)}
    if not examples or any(each.required is True and each.name not in examples for each in fields):
        return None
    body = msgspec.json.encode(examples)
    return body if len(body) <= MAX_BODY else None
