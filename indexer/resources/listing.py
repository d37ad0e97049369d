"""Resources as `/discovery` lists them: as they came, with the members that clients require."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile
from typing import Any

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import asdict, replace

from indexer.resources.entries import Entry
from indexer.resources.resource import Resource
from indexer.untrusted import MICROSECOND, NEVER, items, mapping, raw_items, raw_members, text
from service.schema.discovery import ListedEndpoint, ResourceFacts, ToolFacts
from service.schema.probes import NO_PROBE_FACTS, ProbeFacts
from service.schema.profiles import Profile
from service.schema.values import EPOCH, format_timestamp

MAX_LISTING = 256 * 1024  # bytes
MAX_ENTRIES = 200  # of `accepts`
MAX_DESCRIPTION = 1000  # characters, where a description is added to `metadata`
VERSIONS = (1, 2)  # of the protocol

_rfc_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")


def are_of_version_1(entries: Iterable[dict[str, Any]]) -> bool:
    """Whether all entries of `accepts` have the shape of version 1 of the protocol."""
    return all("maxAmountRequired" in each and "amount" not in each for each in entries)


def list_resource(resource: Resource, given: bytes, values: dict[str, Any]) -> None:
    """Fill in how a resource that has entries of `accepts` is listed.

    given, values: its valid JSON, and the same decoded

    The members of an object `resource` move up to the resource; its URL takes its place.
    """
    fields = raw_members(msgspec.json.format(given, indent=-1))
    lifted = mapping(values, "resource")
    members = raw_members(fields["resource"]) if lifted else {}
    for name in ("ratecard", "url"):
        members.pop(name, None)
    fields["resource"] = _raw(resource.stated_url)
    resource.displaced = {
        name: bytes(raw) for name, raw in members.items() if fields.setdefault(name, raw) != raw
    }
    values = lifted | values
    fields.pop("ratecard", None)
    resource.listed_type = text(values.get("type"))
    if not resource.listed_type or resource.tool_url:
        resource.listed_type = "mcp" if resource.tool else "http"
        fields["type"] = _raw(resource.listed_type)
    version = values.get("x402Version")
    if type(version) is not int or version not in VERSIONS:  # true equals 1 in Python
        fields["x402Version"] = _raw(1 if are_of_version_1(values["accepts"]) else 2)
    if resource.updated == NEVER:
        fields.pop("lastUpdated", None)
    elif not _rfc_3339.fullmatch(text(values.get("lastUpdated"))):
        fields["lastUpdated"] = _raw(format_timestamp(EPOCH + resource.updated * MICROSECOND))
    for name in ("extensions", "metadata"):
        if name in fields and not isinstance(values[name], dict):
            del fields[name]  # clients with types refuse a page that has it
    metadata = mapping(values, "metadata")
    if resource.description and not isinstance(metadata.get("description"), str):
        members = raw_members(fields["metadata"]) if metadata else {}
        members["description"] = _raw(resource.description[:MAX_DESCRIPTION])
        fields["metadata"] = _raw(members)
    tagged = values if "tags" in values else mapping(mapping(values, "extensions"), "bazaar")
    resource.listed_tags = [each for each in items(tagged, "tags") if isinstance(each, str)]
    resource.extensions = [*mapping(values, "extensions")]
    _write(resource, fields)


def forget_dates(resource: Resource, latest: int) -> None:
    """Remove the dates after a moment, which are in the future."""
    if resource.called > latest:
        resource.called = NEVER
    if resource.updated > latest:
        resource.updated = NEVER
        if resource.text:
            fields = raw_members(resource.text)
            fields.pop("lastUpdated", None)
            _write(resource, fields)


def encode_listing(
    resource: Resource,
    service_id: str,
    probed: ProbeFacts = NO_PROBE_FACTS,
    *,
    in_record: bool = True,
    profile: Profile | None = None,
    service_profile: Profile | None = None,
) -> bytes:
    """Return the JSON of the resource of a service, whose record may not have it."""
    price = resource.pricing
    tool = ToolFacts(
        name=resource.tool, transport=resource.transport, server=resource.server or UNSET
    )
    facts = ResourceFacts(
        **asdict(probed),
        service=service_id,
        endpoint=ListedEndpoint(resource.url, resource.method),
        in_record=UNSET if in_record else False,
        price=price if price.amount or price.max_amount else UNSET,
        payment_offers=[each.to_offer() for each in resource.offers] or UNSET,
        example_url=resource.example_url or UNSET,
        tool=tool if resource.tool else UNSET,
        requires=resource.requires or UNSET,
        body_type=resource.body_type or UNSET,
        whole_body=resource.is_whole_body or UNSET,
        resource={name: Raw(each) for name, each in resource.displaced.items()} or UNSET,
        profile=profile or UNSET,
        service_profile=service_profile or UNSET,
    )
    return b'%b,"ratecard":%b}' % (resource.text[:-1], msgspec.json.encode(facts))


def _write(resource: Resource, fields: dict[str, Raw]) -> None:
    """Encode the members of a resource, and note where its entries of `accepts` stand."""
    stop = len(b'{"accepts":')
    for name in takewhile("accepts".__ne__, fields):
        stop += len(msgspec.json.encode(name)) + len(b":,") + _length(fields[name])
    entries: list[Entry] = []
    for entry, raw in zip(resource.entries, raw_items(fields["accepts"]), strict=True):
        start = stop + 1  # after the bracket or a comma
        stop = start + _length(raw)
        entries.append(replace(entry, start=start, stop=stop))
    resource.entries = entries
    resource.text = msgspec.json.encode(fields)


def _length(raw: Raw) -> int:
    return memoryview(raw).nbytes


def _raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))
