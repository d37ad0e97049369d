"""OpenAPI documents of paid services in both dialects, written after those in use."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from typing import Any

from indexer.intake.rules import Rules, check_address
from indexer.options import Policy, SourceOptions
from indexer.resources.assets import find_stablecoins
from indexer.resources.documents import Described, Document
from indexer.resources.openapi import read_openapi
from indexer.resources.resource import Resource
from tests.support.running import Json

CURATED = SourceOptions(name="own", path="own.json", curated=True, trust=1)
SERVER = "https://api.weather.example/v1"
PAID_RESPONSE = {"402": {"description": "Payment required"}}


def document(paths: Json, server: Any = SERVER, **fields: Any) -> Json:
    """Return a document with these paths."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Weather House", "version": "1"},
        "servers": [{"url": server}],
        "paths": paths,
    } | fields


def fixed(amount: Any = "0.05", *protocols: Any, **fields: Any) -> Json:
    """Return an operation with a fixed price in the dialect of x402scan."""
    price = {"mode": "fixed", "currency": "USD", "amount": amount}
    info = {"protocols": list(protocols or ["x402"]), "price": price}
    return {"summary": "Forecast", "x-payment-info": info, "responses": PAID_RESPONSE} | fields


def offered(*offers: Json, **fields: Any) -> Json:
    """Return an operation with offers in the dialect of MPP."""
    return {"summary": "Picture", "x-payment-info": {"offers": [*offers]}} | fields


def charge(amount: Any = "500", method: str = "stripe", currency: str = "usd") -> Json:
    """Return an offer of MPP for one request."""
    return {"intent": "charge", "method": method, "amount": amount, "currency": currency}


FREE: Json = {"summary": "Status", "responses": {"200": {"description": "Fine"}}}
X402SCAN = document(
    {
        "/forecast/{city}": {
            "parameters": [
                {"name": "city", "in": "path", "required": True, "schema": {"type": "string"}}
            ],
            "get": fixed(
                description="Hourly forecast for a city.",
                tags=["weather"],
                parameters=[
                    {"name": "days", "in": "query", "schema": {"type": "integer", "default": 3}},
                    {"name": "X-Key", "in": "header", "schema": {"type": "string"}},
                ],
            ),
            "delete": FREE,
        },
        "/tides": {
            "post": {
                "summary": "Tide tables",
                "x-payment-info": {
                    "protocols": ["x402", {"mpp": {"method": "tempo", "intent": "charge"}}],
                    "price": {"mode": "dynamic", "currency": "USD", "min": "0.01", "max": "1.00"},
                },
                "requestBody": {
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Place"}}
                    }
                },
            }
        },
        "/status": {"get": FREE},
    },
    info={
        "title": "Weather House",
        "version": "1",
        "description": "Forecasts and tide tables for any coast.",
        "x-guidance": "Ask for the forecast first.",
    },
    components={
        "schemas": {
            "Place": {
                "type": "object",
                "required": ["lat"],
                "properties": {
                    "lat": {"type": "number", "description": "degrees north", "example": 59.9},
                    "near": {"$ref": "#/components/schemas/Place"},
                },
            }
        }
    },
    **{"x-discovery": {"ownershipProofs": ["0x01"]}},
)
SERVICE_INFO: Json = {
    "categories": ["compute", "media"],
    "docs": {"homepage": "https://paint.example"},
}
MPP = document(
    {
        "/images": {"post": offered(charge("500"), charge("1000", "tempo", "0x20"))},
        "/videos": {"post": offered(charge(None))},
        "/sounds": {"get": {"x-payment-info": charge("7", "card", "jpy")}},
    },
    "https://paint.example",
    info={"title": "Paint", "version": "2"},
    **{"x-service-info": SERVICE_INFO},
)
DOCUMENTS: dict[str, Json] = {
    "x402scan": X402SCAN,
    "mpp": MPP,
    "price_beside": document(
        {"/a": {"get": {"x-payment-info": {"price": "0.10", "pricingMode": "fixed"}}}}
    ),
    "bounds_beside": document(
        {"/a": {"get": {"x-payment-info": {"minPrice": "0.10", "maxPrice": "2"}}}}
    ),
    "unpriced": document({"/a": {"get": {"responses": PAID_RESPONSE}}}),
    "flag": document({"/a": {"get": {"x-payment-info": True}}}),
    "token": document({"/a": {"get": offered(charge("5", "tempo", "0x20"))}}),
    "session": document({"/a": {"get": offered(charge("5") | {"intent": "session"})}}),
    "version_3_0": document({"/a": {"get": fixed()}}, openapi="3.0.3"),
    "free": document({"/a": {"get": FREE}}),
    "numbers": document({"/a": {"get": fixed(0.05)}, "/b": {"get": fixed(1)}}),
    "variables": document(
        {"/a": {"get": fixed()}},
        servers=[
            {
                "url": "https://{region}.weather.example/{version}/",
                "variables": {"region": {"default": "eu"}, "version": {"default": "v3"}},
            }
        ],
    ),
    "faults": document(
        {
            "/a": {"get": fixed("much"), "post": 7, "put": offered(charge("1.5"))},
            "/b": [],
            "/c": {"$ref": "#/paths/~1a"},
            "/d": {"get": fixed(), "post": {"x-payment-info": []}},
            "x-note": "none of the operations",
        }
    ),
}


def read(
    values: Json | bytes, source: SourceOptions = CURATED, policy: Policy | None = None
) -> list[Described]:
    """Return what a document describes."""
    text = values if isinstance(values, bytes) else json.dumps(values).encode()
    rules = Rules(policy or Policy())
    check = partial(check_address, rules=rules)
    return [
        *read_openapi(Document(text, source, find_stablecoins(rules.policy.stablecoins), check))
    ]


def resources(found: Iterable[Described]) -> dict[str, Resource]:
    """Return the resources of what was read without a fault, by their positions."""
    return {each.position: each.resource for each in found if each.resource is not None}
