"""The tools that search and read: the answers of the HTTP API as compact rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from service.api.query_string import MAX_QUERY
from service.api.services import ServiceSelection, find
from service.conditions import EndpointFilters
from service.engines.engine import Answer
from service.errors import InvalidParameter
from service.http.context import snapshot_of
from service.http.logs import log_query
from service.mcp.rows import (
    MAX_NAME,
    EndpointRow,
    ServiceRow,
    endpoint_of,
    endpoint_row,
    line_of,
    service_row,
)
from service.mcp.texts import clean, decode_printable
from service.schema.demand import DemandFigures
from service.schema.values import format_timestamp
from service.snapshot import Snapshot
from service.snapshot.cursors import cursor_prefix, parse_cursor
from service.snapshot.manager import SnapshotManager

SNAPSHOT_KEY = "ratecard/snapshot"  # of `_meta` of a result
MAX_DESCRIPTION = 1000
MAX_ENDPOINTS = 10  # of a page of a service in brief
MAX_FULL = 48 * 1024  # bytes: some 12,000 tokens, about half of what hosts accept of a tool
MAX_VALUES = 30  # of a facet of the catalogue, the most frequent ones
CATALOGUE_FACETS = {"category": "categories", "network": "networks", "scheme": "schemes"}
ALL_ENDPOINTS = EndpointFilters(per_service=0)
VOLUME_UNIT = {"volumeUnit": "0.000001 USD"}

Content: TypeAlias = BaseModel | dict[str, Any]
ToolCall: TypeAlias = Context[SnapshotManager, Any]
Term = Annotated[str, Field(max_length=200)]
Task = Annotated[
    str, Field(max_length=MAX_QUERY, description="as its seller would say: geocoding, OCR, KYC")
]
MaxPrice = Annotated[float, Field(ge=0, le=1e9, description="US dollars for one request")]
Network = Annotated[Term, Field(description="to pay on: Base, eip155:8453")]
Scheme = Annotated[Term, Field(description="exact or upto")]
Category = Annotated[Term, Field(description="from `catalogue`")]
Method = Annotated[Term, Field(description="HTTP method")]
SignIn = Annotated[bool, Field(description="false: no sign-in")]
RowLimit = Annotated[int, Field(ge=1, le=20, description="rows, up to 20")]
PageCursor = Annotated[Term, Field(description="of the last page")]
Reference = Annotated[str, Field(max_length=2048, description="id of a row, or endpoint URL")]
Detail = Annotated[
    Literal["brief", "full"], Field(description="full: the stored record, often long")
]

_demand = msgspec.json.Decoder(DemandFigures)


class SearchPage(BaseModel):
    """A page of a search; `cursor` is that of the next page, if there is one.

    similar: how many of the total match no word
    fit: of the first row; below 1 nothing matches well, and `warning` says what to do
    """

    total: int
    similar: int = 0
    fit: float | None = None
    warning: str | None = None
    cursor: str = ""


class EndpointPage(SearchPage):
    """A page of endpoints."""

    endpoints: list[EndpointRow]
    left_out: Annotated[int, Field(description="beyond 3 of each service")] = 0


class ServicePage(SearchPage):
    """A page of services."""

    services: list[ServiceRow]


async def search_endpoints(
    call: ToolCall,
    query: Task,
    max_price_usd: MaxPrice | SkipJsonSchema[None] = None,
    network: Network = "",
    scheme: Scheme = "",
    category: Category = "",
    method: Method = "",
    registration: SignIn | SkipJsonSchema[None] = None,
    limit: RowLimit = 5,
    cursor: PageCursor = "",
) -> Annotated[CallToolResult, EndpointPage]:
    """Find API endpoints that anyone can call and pay per request (x402), best match first."""
    snapshot = snapshot_for(call)
    filters = EndpointFilters(
        network=_given(network),
        scheme=_given(scheme),
        category=_given(category),
        method=_given(method),
        max_usd_price=max_price_usd,
        registration=registration,
    )
    prefix = cursor_prefix(snapshot.id, (query, filters))
    start = parse_cursor(cursor or None, prefix)
    hits = await snapshot.find_endpoints(query, limit, start, filters)
    log_query(call.request_context.request, query, cursor)
    stop = start + len(hits.ordinals)
    page = EndpointPage(
        total=hits.total,
        **hits.facts,
        endpoints=[endpoint_row(snapshot, each, filters) for each in hits.ordinals],
        left_out=hits.total - hits.listed,
        cursor=f"{prefix}{stop}" if start < stop < hits.listed else "",
    )
    return result_of(snapshot, page, _text(start, hits, page.cursor, page.endpoints))


async def search_services(
    call: ToolCall,
    query: Task = "",
    category: Category = "",
    limit: RowLimit = 5,
    cursor: PageCursor = "",
) -> Annotated[CallToolResult, ServicePage]:
    """Find providers to compare or browse; without a query the best known ones."""
    snapshot = snapshot_for(call)
    prefix = cursor_prefix(snapshot.id, ("services", query, category))
    start = parse_cursor(cursor or None, prefix)
    search = ServiceSelection(q=query, limit=limit, offset=start, category=_given(category))
    hits = await find(snapshot, search)
    log_query(call.request_context.request, query, cursor)
    stop = start + len(hits.ordinals)
    page = ServicePage(
        total=hits.total,
        **hits.facts,
        services=[service_row(snapshot, each) for each in hits.ordinals],
        cursor=f"{prefix}{stop}" if start < stop < hits.total else "",
    )
    return result_of(snapshot, page, _text(start, hits, page.cursor, page.services))


async def get(
    call: ToolCall,
    id: Reference,  # noqa: A002  # its name for clients
    detail: Detail = "brief",
    cursor: PageCursor = "",
) -> CallToolResult:
    """Read one service or endpoint that a search found."""
    snapshot = snapshot_for(call)
    service = snapshot.id_table.find(id.strip())
    if service is None:
        endpoint = endpoint_of(snapshot, id)
        kind, text = "endpoint", snapshot.endpoints.text(endpoint)
    else:
        kind, text = "service", snapshot.services.text(service)
    if detail == "full" and len(text) > MAX_FULL:
        message = f"detail: the record has {len(text):,} bytes, too many for a tool; send brief"
        raise InvalidParameter("detail", message)
    if detail == "full":
        return result_of(snapshot, {kind: decode_printable(text)})
    if service is not None:
        return result_of(snapshot, _brief(snapshot, service, cursor))
    return result_of(snapshot, endpoint_row(snapshot, endpoint, ALL_ENDPOINTS, MAX_DESCRIPTION))


async def catalogue(call: ToolCall) -> CallToolResult:
    """Get snapshot, age, counts, and the categories, networks and schemes to filter by."""
    snapshot = snapshot_for(call)
    snapshots, manifest = call.request_context.lifespan_context, snapshot.manifest
    age = datetime.now(UTC) - manifest.built_at
    facts: dict[str, Any] = {
        "snapshot": snapshot.id,
        "built_at": format_timestamp(manifest.built_at),
        "checked_at": format_timestamp(snapshots.checked_at(snapshot)),
        "age_hours": round(age.total_seconds() / 3600, 1),
        "counts": msgspec.to_builtins(manifest.counts),
    }
    counted = snapshot.endpoints.filters.count(tuple(CATALOGUE_FACETS), None)
    for facet, name in CATALOGUE_FACETS.items():
        values = counted[facet][:MAX_VALUES]
        facts[name] = {clean(str(each["value"]), MAX_NAME): each["count"] for each in values}
    return result_of(snapshot, facts)


def snapshot_for(call: ToolCall) -> Snapshot:
    """Return the snapshot to answer from: over HTTP the one that the response's headers name."""
    request, snapshots = call.request_context.request, call.request_context.lifespan_context
    return snapshots.current() if request is None else snapshot_of(request)


def result_of(snapshot: Snapshot, content: Content, text: str = "") -> CallToolResult:
    """Return structured content, and its text: as JSON, all of it marked as the seller's."""
    if isinstance(content, BaseModel):
        content = content.model_dump(exclude_defaults=True)
    text = text or f"seller: {json.dumps(content, ensure_ascii=False, separators=(',', ':'))}"
    return CallToolResult(
        content=[TextContent(text=text)],
        structured_content=content,
        _meta={SNAPSHOT_KEY: snapshot.id},
    )


def _given(value: str) -> tuple[str, ...]:
    return (value,) if value else ()  # hosts fill what they leave out with empty texts


def _text(start: int, hits: Answer, cursor: str, rows: Sequence[EndpointRow | ServiceRow]) -> str:
    """Return a page as lines of text."""
    head = f"{start + 1}–{start + len(rows)} of {hits.total}" if rows else "nothing found"
    more = f"more: repeat with cursor {cursor}" if cursor else None
    lines = [head + hits.note, hits.warning, *map(line_of, rows), more]
    return "\n".join(filter(None, lines))


def _brief(snapshot: Snapshot, ordinal: int, cursor: str) -> dict[str, Any]:
    """Return a service with a page of its endpoints."""
    row = service_row(snapshot, ordinal, MAX_DESCRIPTION)
    prefix = cursor_prefix(snapshot.id, ("endpoints", row.id))
    start = parse_cursor(cursor or None, prefix)
    ordinals = snapshot.endpoints.of_service(ordinal)
    stop = min(start + MAX_ENDPOINTS, len(ordinals))
    rows = [endpoint_row(snapshot, each, ALL_ENDPOINTS) for each in ordinals[start:stop]]
    demand = _demand.decode(snapshot.ecosystem.demand_of(ordinal))
    optional = {
        "payments_30d": VOLUME_UNIT | msgspec.to_builtins(demand) if demand.payments else {},
        "cursor": f"{prefix}{stop}" if start < stop < len(ordinals) else "",
    }
    return {
        "service": row.model_dump(exclude_defaults=True),
        "endpoints": [each.model_dump(exclude_defaults=True) for each in rows],
        **{name: each for name, each in optional.items() if each},
    }
