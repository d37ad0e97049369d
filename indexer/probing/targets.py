"""Targets: the listed endpoints of a snapshot, and the requests that visit them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Struct, field

from indexer.endpoints import split_methods
from indexer.resources.names import registrable_domain
from indexer.resources.parameters import is_template
from service.bodies import encode_body, media_type_of
from service.schema.records import ParameterDescriptor
from service.schema.values import NULL
from service.snapshot.resources import CallFacts
from service.snapshot.snapshot import Snapshot
from service.urls import DEFAULT_PORTS, ParsedUrl, find_url

MAX_BODY = 64 * 1024  # bytes of an example


class Target(Struct, frozen=True):
    """A listed endpoint as an observation names it, with the request that visits it.

    origin, rest: the URL of the request in two parts, of which the second is path and query; empty
        for an endpoint that cannot be visited
    media_type: that of the body, empty without a body
    """

    url: str
    method: str
    host: str = ""
    origin: str = ""
    rest: str = ""
    body: bytes | None = None
    media_type: str = ""


Site = list[list[Target]]
"""The endpoints of one registrable domain, by origin (scheme, host and port)."""


class _Endpoint(Struct, rename="camel"):
    url: str
    method: str
    parameters: list[ParameterDescriptor] = []
    body_type: Any = UNSET
    whole_body: Any = UNSET


class _Facts(CallFacts, kw_only=True):
    endpoint: _Endpoint
    in_record: bool = field(name="inRecord", default=True)


class _Listing(Struct):
    ratecard: _Facts


_endpoint = msgspec.json.Decoder(_Endpoint)
_listing = msgspec.json.Decoder(_Listing)


def find_targets(snapshot: Snapshot, *, post: bool) -> Iterator[Target]:
    """Yield once each endpoint that is called by GET or, with `post`, by POST.

    Templates and bodies without an example, MCP tools, URLs with credentials, and other schemes
    than http and https cannot be visited.
    """
    seen: set[tuple[str, str]] = set()
    for endpoint, facts in _endpoints(snapshot):
        methods = split_methods(endpoint.method)
        method = next((each for each in ("GET", "POST")[: 1 + post] if each in methods), None)
        parsed = _parse(endpoint.url)
        key = (endpoint.url if parsed is None else parsed.identity), method or ""
        if method is not None and key not in seen:
            seen.add(key)
            yield _target(endpoint, method, parsed, facts)


def _target(endpoint: _Endpoint, method: str, parsed: ParsedUrl | None, facts: CallFacts) -> Target:
    """Return the target of an endpoint; a template is visited at its example of the same origin."""
    if parsed is not None and is_template(parsed.rest):
        parsed = _parse(facts.example_url)
    body: tuple[bytes | None, str] | None = None, ""
    if method == "POST":
        media_type, is_whole = media_type_of(endpoint.body_type), endpoint.whole_body is True
        body = example_body(endpoint.parameters, media_type, is_whole=is_whole)
    if parsed is None or body is None or facts.tool is not None:
        return Target(endpoint.url, method)
    host = f"[{parsed.host}]" if ":" in parsed.host else parsed.host
    origin = f"{parsed.scheme}://{host}{'' if parsed.port is None else f':{parsed.port}'}"
    return Target(endpoint.url, method, parsed.host, origin, parsed.rest, *body)


def _endpoints(snapshot: Snapshot) -> Iterator[tuple[_Endpoint, CallFacts]]:
    """Yield the endpoints of all records, then those that are beyond the bounds of a record."""
    endpoints, listings = snapshot.endpoints, snapshot.resources.texts
    for ordinal in range(len(endpoints)):
        yield _endpoint.decode(endpoints.text(ordinal)), endpoints.listing_of(ordinal).ratecard
    for listed in range(len(listings)):
        facts = _listing.decode(listings.view(listed)).ratecard
        if not facts.in_record:
            yield facts.endpoint, facts


def group_by_site(targets: Iterable[Target]) -> list[Site]:
    """Group targets by site, the sites of most endpoints first."""
    sites: dict[str, dict[str, list[Target]]] = defaultdict(lambda: defaultdict(list))
    for target in targets:
        sites[registrable_domain(target.host)][target.origin].append(target)
    found = [[*origins.values()] for origins in sites.values()]
    return sorted(found, key=lambda origins: -sum(map(len, origins)))


def _parse(url: str) -> ParsedUrl | None:
    """Parse a URL that may be requested: of http or https, and without credentials."""
    parsed = find_url(url)
    if parsed is None or parsed.scheme not in DEFAULT_PORTS or parsed.has_credentials:
        return None
    return parsed


def example_body(
    parameters: Iterable[ParameterDescriptor], media_type: str, *, is_whole: bool
) -> tuple[bytes | None, str] | None:
    """Return the declared examples as a body with its media type, None if a required one lacks.

    A body that `encode_body` cannot write is left out of the request.
    """
    fields = [each for each in parameters if each.group == "body"]
    examples = {
        each.name: each.example
        for each in fields
        if each.example is not UNSET and each.example != NULL
    }
    if is_whole and not examples:
        return None
    body = encode_body(media_type, examples, is_whole=is_whole)
    if body is None:
        return None, ""
    if not examples or any(each.required is True and each.name not in examples for each in fields):
        return None
    return None if len(body) > MAX_BODY else (body, media_type)
