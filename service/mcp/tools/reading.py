"""The tools that read one service, one endpoint, or the catalogue as a whole."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from service.api.curl import escape_json
from service.errors import InvalidParameter, ServiceNotFound
from service.mcp.tools.arguments import Get
from service.mcp.tools.rows import (
    MAX_URL,
    EndpointRow,
    ServiceRow,
    endpoint_line,
    endpoint_row,
    endpoint_text,
    find_endpoint,
    service_line,
    service_row,
)
from service.mcp.tools.texts import clean, decode_printable
from service.records import Counts, Endpoint, Service, Timestamp, format_timestamp
from service.snapshot import Snapshot
from service.snapshot.endpoints import EndpointFilters

MAX_DESCRIPTION = 1000
MAX_ENDPOINTS = 10
"""Endpoints of a service that a brief answer lists."""
MAX_FULL = 48 * 1024
"""Bytes of a full record: some 12,000 tokens, about half of what hosts accept of a tool."""
MAX_RESOURCE = 1 << 20
"""Bytes of a record that is read as a resource, which a host need not show to a model."""
MAX_VALUES = 30
"""Values of a facet that the catalogue lists, the most frequent ones."""
FACETS = ("category", "network", "scheme")
UNKNOWN = "nothing has the id or URL `{}`; search for it"
ALL_ENDPOINTS = EndpointFilters()

Answer = tuple[Any, str]
"""Structured content, and the same as text."""


class ServiceDetails(Struct, kw_only=True, omit_defaults=True):
    """A service with the first of its endpoints."""

    service: ServiceRow
    seller_says: str
    category: str
    first_endpoints: list[EndpointRow]
    endpoints_left_out: int = 0


class CatalogueFacts(Struct, kw_only=True):
    """The served snapshot; counts of values are endpoints."""

    snapshot: str
    built_at: Timestamp
    checked_at: Timestamp
    age_hours: float
    counts: Counts
    categories: dict[str, int]
    networks: dict[str, int]
    schemes: dict[str, int]


class _WithEndpoints(Struct):
    """The part of a record that a full answer may cut."""

    endpoints: list[Raw]


_service = msgspec.json.Decoder(Service)
_endpoint = msgspec.json.Decoder(Endpoint)
_with_endpoints = msgspec.json.Decoder(_WithEndpoints)
_members = msgspec.json.Decoder(dict[str, Raw])


def get(snapshot: Snapshot, wanted: Get) -> Answer:
    """Return a service or an endpoint, in brief or as it is stored."""
    service = snapshot.ordinal_of(wanted.id)
    if service is not None:
        if wanted.detail == "full":
            return _stored("service", record_text(snapshot, service, MAX_FULL))
        return _brief_service(snapshot, service)
    endpoint = endpoint_of(snapshot, wanted.id)
    if wanted.detail == "full":
        return _stored("endpoint", _bounded(endpoint_text(snapshot, endpoint)))
    row = endpoint_row(snapshot, endpoint, ALL_ENDPOINTS, is_first=True)
    description = _endpoint.decode(endpoint_text(snapshot, endpoint)).description
    row.seller_says = clean(description or row.seller_says, MAX_DESCRIPTION)
    line = endpoint_line(row, MAX_URL, MAX_DESCRIPTION)
    lines = [line, *row.parameters, row.curl]
    return row, "\n".join(filter(None, lines))


def endpoint_of(snapshot: Snapshot, reference: str) -> int:
    """Return the ordinal of an endpoint by its id or URL; raises ServiceNotFound."""
    ordinal = find_endpoint(snapshot, reference)
    if ordinal is None:
        name = clean(reference, 100)
        if snapshot.ordinal_of(reference) is not None:
            raise ServiceNotFound(f"`{name}` is a service; `get` it to see its endpoints")
        raise ServiceNotFound(UNKNOWN.format(name))
    return ordinal


def record_text(snapshot: Snapshot, ordinal: int, size: int) -> bytes:
    """Return the stored JSON of a service, without the last endpoints where it is too large.

    `endpointsLeftOut` counts these. Raises InvalidParameter where all the rest is too large.
    """
    text = snapshot.services.text(ordinal)
    if len(text) <= size:
        return text
    kept: list[Raw] = []
    endpoints = _with_endpoints.decode(text).endpoints
    room = size - len(text) + sum(len(bytes(each)) + 1 for each in endpoints)
    for each in endpoints:
        room -= len(bytes(each)) + 1
        if room < 0:
            break
        kept.append(each)
    members: dict[str, Any] = _members.decode(text)
    members |= {"endpoints": kept, "endpointsLeftOut": len(endpoints) - len(kept)}
    return _bounded(msgspec.json.encode(members), size + 100)


def read_catalogue(snapshot: Snapshot, checked_at: datetime) -> Answer:
    """Return the facts of the catalogue."""
    hits = snapshot.endpoints.search(None, 1, 0, EndpointFilters(sort="price", counted=FACETS))
    counted = hits.facets or {}
    values = {
        name: {
            clean(str(each["value"]), 60): int(each["count"]) for each in counted[name][:MAX_VALUES]
        }
        for name in FACETS
    }
    built_at = snapshot.manifest.built_at
    facts = CatalogueFacts(
        snapshot=snapshot.id,
        built_at=format_timestamp(built_at),
        checked_at=format_timestamp(checked_at),
        age_hours=round((datetime.now(UTC) - built_at).total_seconds() / 3600, 1),
        counts=snapshot.manifest.counts,
        categories=values["category"],
        networks=values["network"],
        schemes=values["scheme"],
    )
    counts = facts.counts
    lines = [
        f"snapshot {facts.snapshot}, built {facts.built_at} ({facts.age_hours} hours ago)",
        f"{counts.services} services, {counts.endpoints} endpoints",
        *(f"{name}: {_listed(each)}" for name, each in values.items()),
    ]
    return facts, "\n".join(lines)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{value or '(none)'} {count}" for value, count in counts.items())


def _brief_service(snapshot: Snapshot, ordinal: int) -> Answer:
    record = _service.decode(snapshot.summaries.view(ordinal))
    own = snapshot.endpoints.of_service(ordinal)
    rows = [endpoint_row(snapshot, each, ALL_ENDPOINTS) for each in own[:MAX_ENDPOINTS]]
    row = service_row(snapshot, ordinal)
    details = ServiceDetails(
        service=replace(row, seller_says=""),
        seller_says=clean(record.description, MAX_DESCRIPTION),
        category=clean(record.category or "", 60) if record.category is not UNSET else "",
        first_endpoints=rows,
        endpoints_left_out=len(own) - len(rows),
    )
    described = replace(row, seller_says=details.seller_says)
    lines = [service_line(described, MAX_DESCRIPTION)]
    lines += map(endpoint_line, rows)
    if details.endpoints_left_out:
        lines.append(f"{details.endpoints_left_out} more endpoints; detail=full has as many as fit")
    return details, "\n".join(lines)


def _bounded(text: bytes, size: int = MAX_FULL) -> bytes:
    if len(text) > size:
        message = f"the record has {len(text):,} bytes, more than a tool returns; ask for brief"
        raise InvalidParameter("detail", message)
    return text


def _stored(name: str, text: bytes) -> Answer:
    return {name: decode_printable(text)}, escape_json(text.decode())
