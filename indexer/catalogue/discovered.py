"""Discovered services: the catalogue records of groups of resources."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from indexer.catalogue.known_records import (
    NOT_KEPT,
    Known,
    Stored,
    ValidatedRecord,
    encode_normalised,
)
from indexer.catalogue.record import normalise
from indexer.intake.lists import SourceRecord
from indexer.options import Policy
from indexer.x402.discovery import Grouped
from indexer.x402.grouping import GroupedResource, group_resources
from indexer.x402.readings import decode_resource


class Group(Struct, array_like=True):
    """The values on which the record of a discovered service depends.

    limit: the greatest number of endpoints
    members: the bytes or the hash of each resource, and the trust in its source
    """

    id: str
    domain: str
    limit: int
    members: list[tuple[bytes, int]]


_encode = msgspec.msgpack.Encoder().encode
_group = msgspec.msgpack.Decoder(Group)


def encode_group(
    service: Grouped, service_id: str, policy: Policy, member: Callable[[int], bytes]
) -> bytes:
    """Encode a service with the value of `member` for the number of each resource."""
    members = [(member(place.number), place.trust) for place in service.places]
    return _encode(Group(service_id, service.domain, policy.endpoints_per_service, members))


def is_whole(service: Grouped, known: Known) -> bool:
    """Whether the last snapshot has the record of a service, with all of its resources."""
    return (
        isinstance(known, Stored)
        and known.row != NOT_KEPT
        and known.facts.endpoints == len(service.places)
    )


def describe_services(groups: list[bytes]) -> list[ValidatedRecord | None]:
    """Return the records of encoded groups, in a worker or here."""
    return [_describe(_group.decode(encoded)) for encoded in groups]


def _describe(group: Group) -> ValidatedRecord:
    grouped = [GroupedResource(decode_resource(encoded), trust) for encoded, trust in group.members]
    record, listed = group_resources(group.domain, grouped, group.limit)
    text = msgspec.json.encode({"id": group.id} | record)
    normalised = normalise(SourceRecord("", text))
    outputs = [each.output for each in listed]
    normalised.facts.outputs = outputs if any(outputs) else []
    return encode_normalised(normalised, [each.in_record for each in grouped])
