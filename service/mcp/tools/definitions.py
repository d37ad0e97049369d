"""The tools: their definitions, and the functions that answer them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from mcp.types import Tool, ToolAnnotations
from msgspec import Struct

from service.mcp.tools.arguments import EndpointSearch, Get, HowToCall, ReadCatalogue, ServiceSearch
from service.mcp.tools.calling import how_to_call
from service.mcp.tools.reading import ToolAnswer, get
from service.mcp.tools.rows import endpoint_id, read_summary
from service.mcp.tools.schemas import schema_of
from service.mcp.tools.searching import EndpointPage, ServicePage, search_endpoints, search_services
from service.snapshot import Snapshot

ANNOTATIONS = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
EXAMPLE_ID = "weather-example"


class ToolSpec(Struct, frozen=True, kw_only=True):
    """A tool: its definition, and the types of its arguments and of its result.

    example: returns the arguments of a correct call
    run: answers a call; None for `catalogue`, which also needs to know when a build last ran
    """

    title: str
    description: str
    arguments: type[Struct]
    example: Callable[[Snapshot | None], dict[str, Any]]
    run: Callable[..., Awaitable[ToolAnswer]] | None = None
    result: type[Struct] | None = None


def _best_known(snapshot: Snapshot | None) -> str:
    ids = snapshot.list(limit=1).ids if snapshot else []
    return ids[0] if ids else EXAMPLE_ID


def _first_endpoint(snapshot: Snapshot | None) -> str:
    if snapshot is None or not len(snapshot.endpoints):
        return f"{EXAMPLE_ID}/0-5f0a3c"
    return endpoint_id(snapshot, 0, read_summary(snapshot, 0))


TOOLS: Mapping[str, ToolSpec] = MappingProxyType(
    {
        "search_endpoints": ToolSpec(
            title="Search paid endpoints",
            description="Find API endpoints that anyone can call and pay per request (x402), best "
            "match first; the first row says how to call it. left_out counts what price or "
            "network hide.",
            arguments=EndpointSearch,
            example=lambda _: {"query": "weather forecast", "max_price_usd": 0.01},
            run=search_endpoints,
            result=EndpointPage,
        ),
        "search_services": ToolSpec(
            title="Search providers",
            description="Find services to compare or browse. To call something, "
            "search_endpoints is shorter.",
            arguments=ServiceSearch,
            example=lambda _: {"query": "weather"},
            run=search_services,
            result=ServicePage,
        ),
        "get": ToolSpec(
            title="Read a record",
            description="Read one service or endpoint that a search found.",
            arguments=Get,
            example=lambda snapshot: {"id": _best_known(snapshot)},
            run=get,
        ),
        "how_to_call": ToolSpec(
            title="How to call and pay",
            description="Get a filled curl command, all parameters, accepted payments and "
            "libraries that pay. Calls and pays nothing itself.",
            arguments=HowToCall,
            example=lambda snapshot: {"endpoint": _first_endpoint(snapshot)},
            run=how_to_call,
        ),
        "catalogue": ToolSpec(
            title="About the catalogue",
            description="Get snapshot, age, counts, and the categories, networks and schemes to "
            "filter by.",
            arguments=ReadCatalogue,
            example=lambda _: {},
        ),
    }
)

DEFINITIONS = [
    Tool(
        name=name,
        title=tool.title,
        description=tool.description,
        input_schema=schema_of(tool.arguments),
        output_schema=schema_of(tool.result) if tool.result else None,
        annotations=ANNOTATIONS,
    )
    for name, tool in TOOLS.items()
]


def example_of(name: str, snapshot: Snapshot | None) -> str:
    """Return a correct call of a tool, with ids of the snapshot if there is one."""
    return f"{name} {msgspec.json.encode(TOOLS[name].example(snapshot)).decode()}"
