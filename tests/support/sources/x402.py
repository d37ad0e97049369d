"""Resources as discovered, in both versions of x402, and functions that read them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from indexer.catalogue.known_records import KnownRecords
from indexer.catalogue.normaliser import RecordNormaliser
from indexer.catalogue.record import Normalised
from indexer.errors import InvalidRecord
from indexer.intake.records import SourceRecord
from indexer.options import Policy
from indexer.processes.pool import Pool
from indexer.record_store import Spool
from indexer.resources.listing import encode_listing
from indexer.resources.resource import Resource
from indexer.resources.x402 import read_resource
from indexer.sources.decisions import Decisions
from indexer.sources.fact_store import FactStore
from indexer.x402.discovery import Discovery, Grouped, SourceResources
from indexer.x402.readings import Readings
from indexer.x402.rules import Rules, apply_rules
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
    resource = read_resource(text, (rules or RULES).stablecoins)
    apply_rules(resource, rules or RULES)
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


def discover(feeds: Sequence[Feed], decisions: Decisions | None = None) -> Discovery:
    """Return the merged resources of feeds; those that are not listed are passed over."""
    readings = Readings(FactStore(), RULES)
    discovery = Discovery(Spool(), readings, decisions or Decisions())
    for number, feed in enumerate(feeds):
        found = SourceResources(discovery, number, feed.name, feed.trust)
        for index, record in enumerate(feed.records):
            source = SourceRecord(f"items[{index}]", json.dumps(record).encode())
            with suppress(InvalidRecord):
                found.add(source, readings.read(source))
        discovery.accept(found)
    discovery.merge()
    return discovery


def describe(discovery: Discovery) -> Iterator[tuple[Grouped, Json]]:
    """Yield the discovered services with their catalogue records, but for the ids."""
    ids = defaultdict[str, str](lambda: "id")
    with Pool(jobs=1, memory=0) as pool:
        services = RecordNormaliser(KnownRecords(), pool).services(discovery, ids, RULES.policy)
        for grouped, record in services:
            assert isinstance(record, Normalised)
            described = json.loads(record.text)
            del described["id"]
            yield grouped, described
