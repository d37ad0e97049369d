"""Directories of MPP, written after those in use."""

from __future__ import annotations

import json
from typing import Any

from indexer.options import SourceOptions
from indexer.resources.documents import Described, Document
from indexer.resources.mpp import read_directory
from tests.support.running import Json

CURATED = SourceOptions(name="directory", path="directory.json", curated=True, trust=1)
USDC_E = "0x20c000000000000000000000b9537d11c60e8b50"
CHARGE: Json = {"intent": "charge", "method": "stripe", "amount": "50", "currency": "usd"}
TEMPO: Json = {"intent": "charge", "method": "tempo", "currency": USDC_E, "decimals": 6}
RECIPIENT = "0x" + "4b" * 20


def endpoint(path: str = "/search", payment: Any = CHARGE, **fields: Any) -> Json:
    """Return an endpoint of a service."""
    return {"method": "GET", "path": path, "payment": payment} | fields


def service(name: str = "Maps", *endpoints: Any, **fields: Any) -> Json:
    """Return a service below a host that others share."""
    return {
        "id": name.lower(),
        "name": name,
        "serviceUrl": f"https://mpp.example/{name.lower()}",
        "methods": {"stripe": {"intents": ["charge"]}},
        "endpoints": list(endpoints),
    } | fields


def directory(*services: Any, **fields: Any) -> Json:
    """Return a directory."""
    return {"version": 1, "services": list(services)} | fields


def read(values: Any, source: SourceOptions = CURATED) -> list[Described]:
    """Return what a directory describes."""
    return [*read_directory(Document(json.dumps(values).encode(), source))]


MAPS = service(
    "Maps",
    endpoint("/search", TEMPO | {"amount": "5000", "recipient": RECIPIENT}, description="Places"),
    endpoint("/places/:id", TEMPO | {"dynamic": True, "amountHint": "by size"}),
    endpoint("/health", None),
    url="https://maps.example",
    description="Maps for agents",
    icon="https://maps.example/icon.png",
    categories=["data", "web"],
    integration="third-party",
    tags=["geo"],
    status="beta",
    docs={"homepage": "https://docs.maps.example", "llmsTxt": "https://maps.example/llms.txt"},
    methods={"tempo": {"intents": ["charge", "session"], "assets": [USDC_E]}},
    realm="mpp.example",
    provider={"name": "Maps Inc.", "url": "https://maps.example"},
)
TALK = service(
    "Talk",
    {"route": "POST /say", "payment": TEMPO | {"amount": "20", "unitType": "character"}},
    {"route": "POST /hear", "payment": CHARGE},
    description="Speech of texts",
    status="active",
)
EMPTY = service("Empty")
