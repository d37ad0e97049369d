"""The tools that read one service, one endpoint, or the catalogue as a whole."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from service.api.documents.curl import escape_json
from service.conditions import EndpointFilters
from service.errors import InvalidParameter
from service.mcp.tools.arguments import Get
from service.mcp.tools.rows import (
    CALL,
    MAX_LINE_SAYS,
    MAX_URL,
    MORE,
    EndpointRow,
    ServiceRow,
    endpoint_line,
    endpoint_of,
    endpoint_row,
    operator_text,
    service_line,
    service_row,
)
from service.mcp.tools.texts import (
    clean,
    decode_printable,
    escape_ignorable,
    first_fitting,
)
from service.schema.demand import StoredDemand
from service.schema.records import MAX_STATUS, Service
from service.schema.status import Counts
from service.schema.values import Timestamp, format_timestamp
from service.snapshot import Snapshot
from service.snapshot.cursors import cursor_prefix, parse_cursor

MAX_DESCRIPTION = 1000
MAX_ENDPOINTS = 10
"""Endpoints of a page of a brief answer."""
MAX_FULL = 48 * 1024
"""Bytes of a full record: some 12,000 tokens, about half of what hosts accept of a tool."""
MAX_RESOURCE = 1 << 20
"""Bytes of a record that is read as a resource, which a host need not show to a model."""
MAX_VALUES = 30
"""Values of a facet that the catalogue lists, the most frequent ones."""
CATALOGUE_FACETS = ("category", "network", "scheme")
CURSOR_UNUSED = "cursor is for the endpoints of a service in brief; leave it out"
PAID = (
    "30 days: {0.payments} payments of {0.payers} payers, {0.returning_payers} came again; "
    "top payer {0.top_payer_share:.0%}; {0.in_cycles} in cycles"
)
ALL_ENDPOINTS = EndpointFilters(per_service=0)

ToolAnswer = tuple[Any, str]
"""Structured content, and the same as text."""


class PaymentFacts(Struct, kw_only=True):
    """The payments for a service in 30 days: who paid, and the share of the payer of most."""

    payments: int
    payers: int
    returning_payers: int
    top_payer_share: float
    in_cycles: int


class ServiceDetails(Struct, kw_only=True, omit_defaults=True):
    """A service with a page of its endpoints; the first page also describes it."""

    service: ServiceRow
    seller_says: str = ""
    category: str = ""
    status: str = ""
    payments_30d: PaymentFacts | None = None
    endpoints: list[EndpointRow]
    cursor: str = ""


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


_service = msgspec.json.Decoder(Service)
_demand = msgspec.json.Decoder(StoredDemand)
_endpoints = msgspec.json.Decoder(list[Raw])
_members = msgspec.json.Decoder(dict[str, Raw])


async def get(snapshot: Snapshot, call: Get) -> ToolAnswer:
    """Return a service or an endpoint, in brief or as it is stored."""
    service = snapshot.id_table.find(call.id)
    if call.cursor is not None and (service is None or call.detail == "full"):
        raise InvalidParameter("cursor", CURSOR_UNUSED)
    if service is not None:
        if call.detail == "full":
            return _stored("service", record_text(snapshot, service, MAX_FULL))
        return await _brief_service(snapshot, service, call.cursor)
    endpoint = endpoint_of(snapshot, call.id)
    if call.detail == "full":
        return _stored("endpoint", _bounded(snapshot.endpoints.text(endpoint)))
    row = endpoint_row(snapshot, endpoint, ALL_ENDPOINTS, MAX_DESCRIPTION, is_first=True)
    lines = [endpoint_line(row, MAX_URL, MAX_DESCRIPTION)]
    if row.parameters:
        lines.append(f"parameters; seller: {'; '.join(row.parameters)}")
    if row.curl:
        lines.append(CALL.format("it", row.curl))
    return row, "\n".join(lines)


def record_text(snapshot: Snapshot, ordinal: int, size: int) -> bytes:
    """Return the stored JSON of a service, without the last endpoints where it is too large.

    `endpointsLeftOut` counts these. Raises InvalidParameter where all the rest is too large.
    """
    text = snapshot.services.text(ordinal)
    if len(text) <= size:
        return text
    members: dict[str, Any] = _members.decode(text)
    endpoints = _endpoints.decode(members["endpoints"])
    room = size - len(text) + sum(map(_size_with_comma, endpoints))
    fitting = first_fitting(endpoints, room, _size_with_comma)
    members |= {"endpoints": fitting, "endpointsLeftOut": len(endpoints) - len(fitting)}
    return _bounded(msgspec.json.encode(members), size + 100)


def _size_with_comma(endpoint: Raw) -> int:
    return len(bytes(endpoint)) + 1


def read_catalogue(snapshot: Snapshot, checked_at: datetime) -> ToolAnswer:
    """Return the facts of the catalogue."""
    counted = snapshot.endpoints.filters.count(CATALOGUE_FACETS, None)
    values = {
        name: {
            clean(str(each["value"]), 60): int(each["count"]) for each in counted[name][:MAX_VALUES]
        }
        for name in CATALOGUE_FACETS
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
        *(f"{name}; seller: {_listed(each)}" for name, each in values.items()),
    ]
    return facts, "\n".join(lines)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{value or '(none)'} {count}" for value, count in counts.items())


async def _brief_service(snapshot: Snapshot, ordinal: int, cursor: str | None) -> ToolAnswer:
    row = await service_row(snapshot, ordinal)
    prefix = cursor_prefix(snapshot.id, ("endpoints", row.id))
    start = parse_cursor(cursor, prefix)
    ordinals = snapshot.endpoints.of_service(ordinal)
    page = ordinals[start : start + MAX_ENDPOINTS]
    rows = [endpoint_row(snapshot, each, ALL_ENDPOINTS) for each in page]
    lines = list(map(endpoint_line, rows))
    for each in rows:
        each.seller_says = clean(each.seller_says, MAX_LINE_SAYS)
    stop = start + len(rows)
    details = ServiceDetails(
        service=replace(row, seller_says=""),
        endpoints=rows,
        cursor=f"{prefix}{stop}" if rows and stop < len(ordinals) else "",
    )
    if start:
        head = f"{start + 1}–{stop} of" if rows else "none after"
        lines.insert(0, f"[{row.id}] {head} {len(ordinals)} endpoints")
    else:
        record = _service.decode(snapshot.summaries.view(ordinal))
        details.seller_says = clean(record.description, MAX_DESCRIPTION)
        details.category = clean(record.category or "", 60) if record.category is not UNSET else ""
        details.status = clean(record.notable_status, MAX_STATUS)
        profile = operator_text(snapshot.profiles.services.read(ordinal), MAX_DESCRIPTION)
        details.service.operator_says = profile
        words = filter(None, (details.status, details.seller_says))
        described = replace(row, seller_says="; ".join(words), operator_says=profile)
        lines.insert(0, service_line(described, MAX_DESCRIPTION))
        if facts := _payments(snapshot, ordinal):
            details.payments_30d = facts
            lines.insert(1, PAID.format(facts))
    if details.cursor:
        lines.append(MORE.format(details.cursor))
    return details, "\n".join(lines)


def _payments(snapshot: Snapshot, ordinal: int) -> PaymentFacts | None:
    demand = _demand.decode(snapshot.demand.of_service(ordinal))
    if not demand.payments:
        return None
    return PaymentFacts(
        payments=demand.payments,
        payers=demand.payers,
        returning_payers=demand.returning_payers,
        top_payer_share=demand.top_payer_share.calls,
        in_cycles=demand.cycle_payments,
    )


def _bounded(text: bytes, size: int = MAX_FULL) -> bytes:
    if len(text) > size:
        message = f"the record has {len(text):,} bytes, more than a tool returns; ask for brief"
        raise InvalidParameter("detail", message)
    return text


def _stored(name: str, text: bytes) -> ToolAnswer:
    line = escape_ignorable(escape_json(text.decode()))
    return {name: decode_printable(text)}, f"{name}; seller: {line}"
