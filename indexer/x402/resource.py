"""Discovered resources: one entry of an x402 discovery feed, read and judged.

Both versions of the protocol: `maxAmountRequired`, names of networks and `outputSchema`, or
`amount`, CAIP-2 identifiers and `extensions.bazaar`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from indexer.errors import InvalidRecord
from indexer.options import Policy
from indexer.sources.records import SourceRecord
from indexer.text import decode_or_invalid
from indexer.urls import LONGEST_URL, Address, read_address
from indexer.x402.metadata import Metadata, read_metadata
from indexer.x402.parameters import DeclaredInput, read_input
from indexer.x402.prices import Accepted, Notice, read_accepts
from indexer.x402.untrusted import decoded, mapping
from service.records import Endpoint, EndpointQuality, GivenTime, format_timestamp

# What a resource says of itself, besides how it is paid and called.
SAID = (
    *("serviceName", "description", "category", "tags", "iconUrl", "metadata"),
    *("quality", "lastUpdated"),
)
GREATEST_COUNT = 2**63 - 1
NEVER = -1
# Unix time in seconds reaches this in the year 5138; what is greater is in milliseconds.
MOST_SECONDS = 10**11

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

_fields = msgspec.json.Decoder(dict[str, Raw])
_time = msgspec.json.Decoder(GivenTime)
_route = re.compile(r"/[A-Za-z0-9_/:.~%-]+")
_count = re.compile(r"[0-9]{1,19}")


class Unlisted(Exception):  # it describes a record, not a failure of the program
    """A well-formed resource that is not wanted: under which policy, where and why."""

    def __init__(self, policy: str, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.policy = policy
        self.path = path
        self.reason = reason


class DiscoveredEndpoint(Endpoint, rename="camel", kw_only=True):
    """An endpoint, with what its resource says beyond the public schema."""

    pay_to: str | UnsetType = UNSET
    tool: str | UnsetType = UNSET


class Usage(Struct):
    """Use in the last 30 days as the feed counts it; None or empty where it does not."""

    calls: int | None
    payers: int | None
    last_called: str


class Resource(Struct):
    """A resource fit to be listed.

    `identity`, `method` and `tool` tell it from others; `domain` says which service it is of.
    `updated` is in microseconds of Unix time, or NEVER. `networks` are labels.
    """

    identity: str
    method: str
    tool: str
    domain: str
    updated: int
    endpoint: Raw
    networks: list[str]
    metadata: Metadata
    usage: Usage
    notices: list[Notice]


def read_resource(source: SourceRecord, policy: Policy) -> Resource:
    """Read one resource; raises InvalidRecord, or Unlisted when policy excludes it."""
    fields = _decode(source)
    path, given, described = _resource(fields)
    address = _judge(path, given, policy)
    accepted = read_accepts(fields.get("accepts"))
    _judge_price(accepted, policy)
    extension = mapping(decoded(fields.get("extensions")), "bazaar")
    url = _with_route(given, extension.get("routeTemplate"))
    if url != given:
        address = read_address(url)
    declared = read_input(extension, _output_schema(accepted), url)
    said = {key: decoded(fields.get(key)) for key in SAID}
    entries = [{"description": decoded(each.get("description"))} for each in accepted.entries]
    extra = decoded(accepted.priced.get("extra"))
    tool = {"description": declared.description}
    metadata = read_metadata([tool, said, described, said.get("metadata"), extra, *entries])
    usage = _usage(said.get("quality"))
    return Resource(
        identity=address.identity,
        method=declared.method,
        tool=declared.tool,
        domain=address.domain,
        updated=_moment(said.get("lastUpdated")),
        endpoint=_endpoint(url, declared, accepted, metadata, usage),
        networks=accepted.networks,
        metadata=metadata,
        usage=usage,
        notices=accepted.notices,
    )


def _decode(source: SourceRecord) -> dict[str, Raw]:
    if source.fault:
        raise InvalidRecord("$", source.fault)
    return decode_or_invalid(_fields, source.text)


def _resource(fields: dict[str, Raw]) -> tuple[str, str, dict[str, Any]]:
    """Where the URL stands, the URL, and the object around it, empty where there is none."""
    resource = decoded(fields.get("resource"))
    path, described = "$.resource", {}
    if isinstance(resource, dict):
        path, described, resource = "$.resource.url", resource, resource.get("url")
    if not isinstance(resource, str):
        raise InvalidRecord(
            path, "there is no URL" if resource is None else "is no URL: it is no text"
        )
    return path, resource, described


def _judge(path: str, url: str, policy: Policy) -> Address:
    try:
        address = read_address(url)
    except ValueError as error:
        raise InvalidRecord(path, str(error)) from error
    if address.scheme not in {"http", "https"}:
        raise Unlisted("resources not over https", path, f"is a resource of {address.scheme}:")
    if address.is_private and not policy.allow_private:
        raise Unlisted("private addresses", path, f"{address.host} is not on the public internet")
    if address.has_credentials:
        raise Unlisted("URLs with credentials", path, "names a user before the host")
    if address.scheme == "http" and not policy.allow_http:
        raise Unlisted("http resources", path, "is not encrypted")
    return address


def _judge_price(accepted: Accepted, policy: Policy) -> None:
    if accepted.amount is not None and accepted.amount > policy.max_price:
        price = f"{accepted.amount:f} {accepted.pricing.currency}"
        reason = f"{price} is more than the {policy.max_price:f} that a request plausibly costs"
        raise Unlisted("implausible prices", f"$.accepts[{accepted.place}]", reason)


def _with_route(url: str, route: Any) -> str:
    """The URL with the template of its path, when there is one and the path fits it."""
    split = urlsplit(url)
    if not isinstance(route, str) or not _route.fullmatch(route):
        return url
    template, path = route.split("/"), split.path.split("/")
    fits = len(template) == len(path) and all(
        part == given or (part[:1] == ":" and given)
        for part, given in zip(template, path, strict=True)
    )
    templated = split._replace(path=route).geturl()
    is_fit = fits and ".." not in unquote(route) and len(templated) <= LONGEST_URL
    return templated if is_fit else url


def _output_schema(accepted: Accepted) -> Any:
    """The schema of the priced entry, else of the first that declares an input."""
    schemas = (decoded(e.get("outputSchema")) for e in [accepted.priced, *accepted.entries])
    return next((schema for schema in schemas if mapping(schema, "input")), None)


def _usage(quality: Any) -> Usage:
    said = quality if isinstance(quality, dict) else {}
    return Usage(
        calls=_counted(said.get("l30DaysTotalCalls")),
        payers=_counted(said.get("l30DaysUniquePayers")),
        last_called=_timestamp(said.get("lastCalledAt")),
    )


def _counted(value: Any) -> int | None:
    if isinstance(value, str) and _count.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= GREATEST_COUNT else None


def _read_time(value: Any) -> datetime | None:
    try:
        return _time.decode(msgspec.json.encode(value)).astimezone(UTC)
    except (msgspec.MsgspecError, OverflowError):
        return None


def _timestamp(value: Any) -> str:
    moment = _read_time(value) if isinstance(value, str) else None
    return "" if moment is None else format_timestamp(moment)


def _moment(value: Any) -> int:
    """A time in microseconds: version 2 writes Unix time, feeds in use write ISO 8601."""
    if isinstance(value, str):
        moment = _read_time(value)
        return NEVER if moment is None or moment < EPOCH else (moment - EPOCH) // MICROSECOND
    if not isinstance(value, (int, Decimal)) or isinstance(value, bool):
        return NEVER
    if not 0 <= value < MOST_SECONDS * 1000:
        return NEVER
    return int(value * (10**6 if value < MOST_SECONDS else 1000))


def _endpoint(
    url: str, declared: DeclaredInput, accepted: Accepted, metadata: Metadata, usage: Usage
) -> Raw:
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
    return Raw(msgspec.json.encode(endpoint))


def _quality(usage: Usage) -> EndpointQuality | UnsetType:
    """What was used; without use in the last 30 days there is nothing to say."""
    if not usage.calls and not usage.payers:
        return UNSET
    return EndpointQuality(
        l30_days_total_calls=UNSET if usage.calls is None else str(usage.calls),
        l30_days_unique_payers=UNSET if usage.payers is None else str(usage.payers),
    )
