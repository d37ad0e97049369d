"""Discovered resources: entries of x402 discovery feeds, read and checked against the policy.

Version 1 of the protocol has `maxAmountRequired`, names of networks and `outputSchema`; version 2
has `amount`, CAIP-2 identifiers and `extensions.bazaar`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import UNSET, Struct, UnsetType

from indexer.errors import InvalidRecord
from indexer.options import Policy
from indexer.sources.records import SourceRecord
from indexer.urls import MAX_URL, ParsedUrl, parse_url
from indexer.x402.listing import MAX_ENTRIES, MAX_LISTING, Listing, make_listing
from indexer.x402.metadata import Metadata, read_metadata
from indexer.x402.parameters import DeclaredInput, read_input
from indexer.x402.prices import Accepted, Notice, read_accepts
from indexer.x402.untrusted import decode_object, mapping
from service.discovery_records import ListedEndpoint
from service.records import Endpoint, EndpointQuality, format_timestamp

MAX_COUNT = 2**63 - 1
NEVER = -1
MAX_SECONDS = 10**11  # a greater Unix time is in milliseconds: in seconds this is the year 5138

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

_time = msgspec.json.Decoder(datetime)
_route = re.compile(r"/[A-Za-z0-9_/:.~%-]+")
_digits = re.compile(r"[0-9]{1,19}")


class Unlisted(Exception):
    """A valid resource that a policy leaves out: which policy, the JSON path and the reason."""

    def __init__(self, policy: str, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.policy = policy
        self.path = path
        self.reason = reason


class DiscoveredEndpoint(Endpoint, rename="camel", kw_only=True):
    """An endpoint with the fields of its resource beyond the public schema."""

    pay_to: str | UnsetType = UNSET
    tool: str | UnsetType = UNSET


class Usage(Struct):
    """Use in the last 30 days as stated by the feed; None or empty where it does not."""

    calls: int | None
    payers: int | None
    last_called: str


class Resource(Struct):
    """A resource that is indexed.

    given: its normalised URL
    identity, method, tool: what distinguishes it from other resources; `identity` is the
        normalised URL, with its route template if it has one
    domain: what the resources of one service share
    updated: microseconds of Unix time, or NEVER
    endpoint: the JSON of a DiscoveredEndpoint
    networks: labels
    """

    given: str
    identity: str
    method: str
    tool: str
    domain: str
    updated: int
    endpoint: bytes
    networks: list[str]
    metadata: Metadata
    usage: Usage
    notices: list[Notice]

    @property
    def key(self) -> tuple[str, str, str]:
        """The key that no other resource has, and that orders the listings of a service."""
        return self.identity, self.method, self.tool


def read_resource(source: SourceRecord, policy: Policy) -> tuple[Resource, Listing | None]:
    """Read one resource, and how it is listed: not at all without an entry of `accepts`.

    Raises InvalidRecord, or Unlisted if a policy leaves it out.
    """
    if source.fault:
        raise InvalidRecord("$", source.fault)
    values = decode_object(source.text)
    path, given_url, described = _url(values)
    parsed = _check_url(path, given_url, policy)
    accepted = read_accepts(values.get("accepts"), source.text)
    _check_size(source.text, accepted)
    _check_price(accepted, policy)
    extension = mapping(values.get("extensions"), "bazaar")
    url, given = _with_route(given_url, extension.get("routeTemplate")), parsed.identity
    if url != given_url:
        parsed = parse_url(url)
    declared = read_input(extension, _output_schema(accepted), url)
    metadata = _metadata(values, described, accepted, declared)
    usage = _usage(values.get("quality"))
    updated = _microseconds(values.get("lastUpdated") or described.get("lastUpdated"))
    listing = None
    if accepted.entries:
        listing = make_listing(
            source.text,
            values,
            given_url,
            ListedEndpoint(url, declared.method),
            accepted,
            tool=declared.tool,
            description=metadata.description,
            updated=None if updated == NEVER else EPOCH + updated * MICROSECOND,
        )
    resource = Resource(
        given=given,
        identity=parsed.identity,
        method=declared.method,
        tool=declared.tool,
        domain=parsed.domain,
        updated=updated,
        endpoint=_endpoint(url, declared, accepted, metadata, usage),
        networks=accepted.networks,
        metadata=metadata,
        usage=usage,
        notices=accepted.notices,
    )
    return resource, listing


def _url(values: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Return the JSON path of the URL, the URL, and the object around it, if there is one."""
    resource = values.get("resource")
    path, described = "$.resource", {}
    if isinstance(resource, dict):
        path, described, resource = "$.resource.url", resource, resource.get("url")
    if resource is None:
        raise InvalidRecord(path, "there is no URL")
    if not isinstance(resource, str):
        raise InvalidRecord(path, "is not a URL: it is not a string")
    return path, resource, described


def _check_url(path: str, url: str, policy: Policy) -> ParsedUrl:
    try:
        parsed = parse_url(url)
    except ValueError as error:
        raise InvalidRecord(path, str(error)) from error
    if parsed.scheme not in {"http", "https"}:
        raise Unlisted("resources not over https", path, f"is a resource of {parsed.scheme}:")
    if parsed.is_private and not policy.allow_private:
        raise Unlisted("private addresses", path, f"{parsed.host} is not on the public internet")
    if parsed.has_credentials:
        raise Unlisted("URLs with credentials", path, "names a user before the host")
    if parsed.scheme == "http" and not policy.allow_http:
        raise Unlisted("http resources", path, "is not encrypted")
    return parsed


def _check_size(text: bytes, accepted: Accepted) -> None:
    """Leave out what would make pages of the listing huge."""
    policy = "oversized resources"
    if len(text) > MAX_LISTING:
        raise Unlisted(policy, "$", f"has {len(text):,} bytes; at most {MAX_LISTING:,} are listed")
    if (count := len(accepted.entries)) > MAX_ENTRIES:
        reason = f"has {count:,} entries; at most {MAX_ENTRIES:,} are listed"
        raise Unlisted(policy, "$.accepts", reason)


def _check_price(accepted: Accepted, policy: Policy) -> None:
    if accepted.amount is not None and accepted.amount > policy.max_price:
        price = f"{accepted.amount:f} {accepted.pricing.currency}"
        reason = f"{price} is more than {policy.max_price:f}, the maximum price of a request"
        raise Unlisted("implausible prices", f"$.accepts[{accepted.index}]", reason)


def _with_route(url: str, route: Any) -> str:
    """Replace the path of a URL by its route template, such as `/v1/:id`, if the path matches."""
    if not isinstance(route, str) or not _route.fullmatch(route) or ".." in unquote(route):
        return url
    split = urlsplit(url)
    template, path = route.split("/"), split.path.split("/")
    matches = len(template) == len(path) and all(
        part == given or (part.startswith(":") and given)
        for part, given in zip(template, path, strict=True)
    )
    templated = split._replace(path=route).geturl()
    return templated if matches and len(templated) <= MAX_URL else url


def _output_schema(accepted: Accepted) -> Any:
    """Return the schema of the chosen entry, or of the first entry that declares an input."""
    schemas = (entry.get("outputSchema") for entry in [accepted.chosen, *accepted.entries])
    return next((schema for schema in schemas if mapping(schema, "input")), None)


def _metadata(
    values: dict[str, Any], described: dict[str, Any], accepted: Accepted, declared: DeclaredInput
) -> Metadata:
    return read_metadata(
        [
            {"description": declared.description},
            values,
            described,
            values.get("metadata"),
            accepted.chosen.get("extra"),
            *({"description": entry.get("description")} for entry in accepted.entries),
        ]
    )


def _usage(quality: Any) -> Usage:
    stated = quality if isinstance(quality, dict) else {}
    last_called = stated.get("lastCalledAt")
    moment = _parse_time(last_called) if isinstance(last_called, str) else None
    return Usage(
        calls=_count(stated.get("l30DaysTotalCalls")),
        payers=_count(stated.get("l30DaysUniquePayers")),
        last_called="" if moment is None else format_timestamp(moment),
    )


def _count(value: Any) -> int | None:
    if isinstance(value, str) and _digits.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= MAX_COUNT else None


def _parse_time(text: str) -> datetime | None:
    """Parse ISO 8601, in UTC where it names no zone."""
    try:
        moment = _time.decode(msgspec.json.encode(text))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (msgspec.MsgspecError, OverflowError):
        return None


def _microseconds(value: Any) -> int:
    """Return a time in microseconds, from ISO 8601, or from Unix time as in version 2."""
    if isinstance(value, str):
        moment = _parse_time(value)
        return NEVER if moment is None or moment < EPOCH else (moment - EPOCH) // MICROSECOND
    if not isinstance(value, (int, Decimal)) or isinstance(value, bool):
        return NEVER
    if not 0 <= value < MAX_SECONDS * 1000:
        return NEVER
    return int(value * (10**6 if value < MAX_SECONDS else 1000))


def _endpoint(
    url: str, declared: DeclaredInput, accepted: Accepted, metadata: Metadata, usage: Usage
) -> bytes:
    endpoint = DiscoveredEndpoint(
        url=url,
        method=declared.method,
        pricing=accepted.pricing,
        description=metadata.description or UNSET,
        quality=_quality(usage),
        parameters=declared.parameters or UNSET,
        service_name=metadata.service_name or UNSET,
        tags=metadata.tags or UNSET,
        pay_to=accepted.pay_to or UNSET,
        tool=declared.tool or UNSET,
    )
    return msgspec.json.encode(endpoint)


def _quality(usage: Usage) -> EndpointQuality | UnsetType:
    """Return the counts, which are omitted without use in the last 30 days."""
    if not usage.calls and not usage.payers:
        return UNSET
    return EndpointQuality(
        l30_days_total_calls=UNSET if usage.calls is None else str(usage.calls),
        l30_days_unique_payers=UNSET if usage.payers is None else str(usage.payers),
    )
