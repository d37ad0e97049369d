"""Manifests of hosts in the three shapes, written after those in use."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from indexer.options import SourceOptions
from indexer.resources.documents import Described, Document
from indexer.resources.manifest import read_manifest
from tests.support.json_values import json_values
from tests.support.running import Json
from tests.support.sources.x402 import accept

HOST = "https://api.weather.example"
FETCHED = SourceOptions(name="url", url=f"{HOST}/.well-known/x402")
INSTRUCTIONS = "Ask for the forecast first."


def urls(*entries: Any, **fields: Any) -> Json:
    """Return a manifest of URLs."""
    return {"version": 1, "resources": [*entries], "ownershipProofs": ["0x01"]} | fields


def objects(*entries: Any, **fields: Any) -> Json:
    """Return a manifest of the extension `discovery`."""
    return {"x402Version": 1, "kind": "x402-discovery", "resources": [*entries]} | fields


def items(*entries: Any, **fields: Any) -> Json:
    """Return a manifest of described resources."""
    return {"x402Version": 2, "lastUpdated": 1781555511, "items": [*entries]} | fields


def pointer(path: str = "/tides", **fields: Any) -> Json:
    """Return a bare entry of the extension `discovery`."""
    return {"url": HOST + path, "method": "GET", "description": f"Tables at {path}"} | fields


def described(path: str = "/v1/forecast/oslo", **fields: Any) -> Json:
    """Return a complete entry with an object `resource`."""
    return {
        "resource": {
            "url": HOST + path,
            "description": "Hourly forecast",
            "mimeType": "application/json",
            "serviceName": "Weather House",
            "tags": ["weather"],
        },
        "type": "http",
        "accepts": [accept("50000")],
        "input": {
            "method": "GET",
            "routeTemplate": "/v1/forecast/:city",
            "pathParams": {
                "type": "object",
                "properties": {"city": {"type": "string", "description": "a city"}},
            },
        },
        "output": {"type": "json", "example": {"celsius": 7}},
        "requires": ["sign-in-with-x"],
    } | fields


URLS = urls(f"{HOST}/forecast", "POST /tides", instructions=INSTRUCTIONS)
OBJECTS = objects(pointer(), pointer("/surges", accepts=[accept("20000")]), updated="2026-05-01")
ITEMS = items(described(), described("/v1/now", accepts=[], input={"method": "POST"}))
MANIFESTS: dict[str, Json] = {"urls": URLS, "objects": OBJECTS, "items": ITEMS}


KEYS = (
    *("url", "method", "description", "resource", "accepts", "input", "output", "requires"),
    *(
        "routeTemplate",
        "pathParams",
        "extensions",
        "bazaar",
        "endpoints",
        "price",
        "payment",
        "payTo",
        "network",
        "path",
        "outputSchema",
    ),
)
TEXTS = (f"{HOST}/a", "POST /a", "a", "//[", "GET", "https://other.example/a", " ")
values = json_values(
    *TEXTS,
    keys=st.sampled_from(KEYS) | st.text(max_size=3),
    text=st.text(max_size=5),
    leaves=25,
)
entries = st.one_of(
    values,
    st.builds(pointer, st.just("/a"), accepts=values, method=values, description=values),
    st.builds(described, st.just("/a"), accepts=values, input=values, output=values),
)


def read(manifest: Any, source: SourceOptions = FETCHED) -> list[Described]:
    """Return what a manifest describes."""
    text = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
    return [*read_manifest(Document(text, source))]
