"""Discovered resources of both versions of x402, and reading them."""

from __future__ import annotations

import json
from typing import Any

from indexer.options import Policy
from indexer.sources.records import SourceRecord
from indexer.x402.resource import Resource, read_resource
from tests.support.running import Json

USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
PLAY_USDC = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"
SOLANA_USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
URL = "https://api.weather-data.example/v1/forecast"


def accept(amount: Any = "10000", **fields: Any) -> Json:
    """An entry of `accepts` of version 2."""
    entry = {"scheme": "exact", "network": "eip155:8453", "asset": USDC, "payTo": "0xPay"}
    return entry | {"amount": amount} | fields


PLAY = accept("7", network="base-sepolia", asset=PLAY_USDC, payTo="0xPlay")


def resource(url: Any = URL, *accepts: Json, **fields: Any) -> Json:
    """A resource of version 2."""
    return {"resource": url, "type": "http", "accepts": list(accepts) or [accept()]} | fields


def v1(described: Json, **fields: Any) -> Json:
    """A resource of version 1 that describes its input; `fields` are of its price."""
    entry = {"network": "base", "asset": USDC, "maxAmountRequired": "2500", "scheme": "exact"}
    schema = {"input": {"type": "http"} | described, "output": None}
    accepts = [entry | {"outputSchema": schema} | fields]
    return {"resource": URL, "type": "http", "x402Version": 1, "accepts": accepts}


def v2(declared: Json, schema: Json | None = None, **fields: Any) -> Json:
    """A resource of version 2 that declares its input; `fields` are of the extension."""
    properties = {"properties": {"input": {"properties": schema or {}}}}
    bazaar = {"info": {"input": {"type": "http"} | declared}, "schema": properties}
    return resource(extensions={"bazaar": bazaar | fields})


def read(record: Json | bytes, policy: Policy | None = None) -> Resource:
    """Read a resource."""
    text = record if isinstance(record, bytes) else json.dumps(record).encode()
    return read_resource(SourceRecord("items[0]", text), policy or Policy())


def endpoint_of(record: Json | bytes) -> Json:
    """The endpoint that a resource becomes."""
    endpoint: Json = json.loads(bytes(read(record).endpoint))
    return endpoint
