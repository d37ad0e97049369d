"""Resources as discovered, in both versions of x402, and functions that read them."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple

import msgspec

from indexer.catalogue.merge import Merger
from indexer.catalogue.reading import apply_rules
from indexer.catalogue.services import HostItems, describe_services
from indexer.catalogue.table import ItemTable, decode_resource, encode_resource, row_of
from indexer.decisions import Decisions
from indexer.errors import InvalidRecord
from indexer.intake.findings import Conflict, Findings
from indexer.intake.rules import Rules
from indexer.options import Policy
from indexer.processes.pool import Pool
from indexer.resources.assets import find_stablecoins
from indexer.resources.listing import encode_listing
from indexer.resources.resource import Resource
from indexer.resources.x402 import read_resource
from tests.support.running import Json

USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
TEST_USDC = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"
SOLANA_USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
URL = "https://api.weather-data.example/v1/forecast"
TOOL = "mcp://tool/forecast"
SERVER = "https://mcp.weather-data.example/mcp"
RULES = Rules(Policy())
"""The rules of a build without options and without a date."""


def accept(amount: Any = "10000", **fields: Any) -> Json:
    """Return an entry of `accepts` of version 2."""
    entry = {"scheme": "exact", "network": "eip155:8453", "asset": USDC, "payTo": "0xPay"}
    return entry | {"amount": amount} | fields


TEST_NETWORK_PRICE = accept("7", network="base-sepolia", asset=TEST_USDC, payTo="0xPlay")


def resource(url: Any = URL, *accepts: Json, **fields: Any) -> Json:
    """Return a resource of version 2."""
    return {"resource": url, "type": "http", "accepts": list(accepts) or [accept()]} | fields


def v1(declaration: Json, **fields: Any) -> Json:
    """Return a resource of version 1 that describes its input; `fields` belong to its price."""
    entry = {"network": "base", "asset": USDC, "maxAmountRequired": "2500", "scheme": "exact"}
    schema = {"input": {"type": "http"} | declaration, "output": None}
    accepts = [entry | {"outputSchema": schema} | fields]
    return {"resource": URL, "type": "http", "x402Version": 1, "accepts": accepts}


def v2(declaration: Json, schema: Json | None = None, **fields: Any) -> Json:
    """Return a resource of version 2 that declares its input; `fields` belong to the extension."""
    properties = {"properties": {"input": {"properties": schema or {}}}}
    bazaar = {"info": {"input": {"type": "http"} | declaration}, "schema": properties}
    return resource(extensions={"bazaar": bazaar | fields})


def tool(
    *accepts: Json, server: str = "", url: str = TOOL, name: str = "forecast", **fields: Any
) -> Json:
    """Return a listing of a paid MCP tool, with its server where one is given."""
    schema = {"properties": {"city": {"type": "string"}}, "required": ["city"]}
    declared: Json = {"type": "mcp", "toolName": name, "description": "Tomorrow's weather"}
    declared |= {"inputSchema": schema} | ({"serverUrl": server} if server else {})
    bazaar = {"info": {"input": declared}}
    return resource({"url": url}, *accepts, type="mcp", extensions={"bazaar": bazaar}) | fields


def read(record: Json | bytes, rules: Rules | None = None) -> Resource:
    """Read a resource."""
    text = record if isinstance(record, bytes) else json.dumps(record).encode()
    resource = read_resource(text, find_stablecoins((rules or RULES).policy.stablecoins))
    apply_rules(resource, rules or RULES)
    (rules or RULES).check_age(resource.updated)
    return resource


def listing_of(record: Json | bytes) -> Json:
    """Return the JSON of a resource as `/discovery` lists it."""
    listed: Json = json.loads(encode_listing(read(record), "weather"))
    return listed


def endpoint_of(record: Json | bytes) -> Json:
    """Return the endpoint of a resource."""
    endpoint: Json = json.loads(msgspec.json.encode(read(record).to_endpoint()))
    return endpoint


class Feed(NamedTuple):
    """The resources of one source."""

    records: Sequence[Json]
    name: str = "feed"
    trust: int = 0


class Discovery(NamedTuple):
    """The merged items of feeds, and what was found."""

    table: ItemTable
    findings: Findings
    conflicts: list[Conflict]

    def groups(self) -> Iterator[tuple[HostItems, Json]]:
        """Yield the discovered services with their catalogue records, but for the ids."""
        ids, paths = defaultdict[str, str](lambda: "id"), self.table.paths()
        limit = RULES.policy.endpoints_per_service
        with Pool(jobs=1, memory=0) as pool:
            for group, found in describe_services(pool, self.table, paths, ids, limit):
                described = json.loads(found.record.text)
                del described["id"]
                yield group, described

    def listings(self, group: HostItems) -> list[Resource]:
        """Return the listings of a service."""
        return [decode_resource(resource) for row, resource in group.members if row.is_listed]


def discover(
    feeds: Sequence[Feed],
    decisions: Decisions | None = None,
    rules: Rules = RULES,
    file: BinaryIO | None = None,
) -> Discovery:
    """Return the merged items of feeds; those that are not listed are passed over.

    file: gets the findings
    """
    table = ItemTable(sqlite3.connect(":memory:", isolation_level=None))
    findings = Findings(file)
    for number, feed in enumerate(feeds):
        findings.tally(feed.name)
        for index, record in enumerate(feed.records):
            text = json.dumps(record).encode()
            with suppress(InvalidRecord):
                found = read_resource(text, find_stablecoins(rules.policy.stablecoins))
                apply_rules(found, rules)
                row = row_of(found, number, feed.trust, f"items[{index}]")
                table.put_item(row, text, encode_resource(found))
    merger = Merger(table, decisions or Decisions(), rules, findings)
    merger.merge()
    return Discovery(table, findings, merger.conflicts)
