"""Catalogue records of realistic size: about 3 KB of JSON with five endpoints each."""

from __future__ import annotations

import json
import random
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.benchmarks.corpus import Document

ENDPOINTS = 5
USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
_WORDS = """
query limit offset symbol address city country language format token prompt model width height text
image url date start end currency amount chain period sort order filter page
"""
WORDS = _WORDS.split()


def write_services(path: Path, documents: list[Document]) -> None:
    """Write a catalogue record for each document, as JSON lines."""
    rng = random.Random(5)
    with path.open("w") as file:
        for number, document in enumerate(documents):
            file.write(json.dumps(make_service(number, document, rng)) + "\n")


def write_resources(source: Path, path: Path) -> None:
    """Write each endpoint of the services of a file as a resource of a discovery feed."""
    with source.open() as lines, path.open("w") as file:
        for line in lines:
            service = json.loads(line)
            file.writelines(
                json.dumps(make_resource(service, endpoint)) + "\n"
                for endpoint in service["endpoints"]
            )


def change_services(source: Path, changed: Path, share: float, documents: list[Document]) -> None:
    """Write services of a file with a share of them changed, chosen at random.

    A changed service has the description of another document, another description of its first
    endpoint, and other calls.
    """
    rng = random.Random(f"change {share}")
    count = len(documents)
    chosen = set(rng.sample(range(count), round(count * share)))
    with source.open() as lines, changed.open("w") as file:
        for number, line in enumerate(lines):
            if number not in chosen:
                file.write(line)
                continue
            service = json.loads(line)
            change_service(service, rng.choice(documents).description, rng)
            file.write(json.dumps(service) + "\n")


def call_services(source: Path, called: Path) -> None:
    """Write services of a file with other calls of every endpoint, and the same texts."""
    rng = random.Random("calls")
    with source.open() as lines, called.open("w") as file:
        for line in lines:
            service = json.loads(line)
            for endpoint in service["endpoints"]:
                endpoint["quality"] = _quality(rng)
            file.write(json.dumps(service) + "\n")


def change_resources(source: Path, changed: Path, share: float) -> None:
    """Write resources of a file with another description of a share of them, chosen at random."""
    rng = random.Random(f"change {share}")
    with source.open() as lines, changed.open("w") as file:
        for line in lines:
            if rng.random() >= share:
                file.write(line)
                continue
            resource = json.loads(line)
            resource["description"] = _endpoint_description(rng)
            file.write(json.dumps(resource) + "\n")


def change_service(service: dict[str, Any], description: str, rng: random.Random) -> None:
    """Change the description of a service, and the description and calls of its first endpoint."""
    service["description"] = description
    endpoint = service["endpoints"][0]
    endpoint["description"] = _endpoint_description(rng)
    endpoint["quality"] = _quality(rng)


def make_service(number: int, document: Document, rng: random.Random) -> dict[str, Any]:
    """Return the catalogue record of a document."""
    host = f"api{number}.example"
    return {
        "id": f"service-{number}",
        "name": document.name,
        "description": document.description,
        "domain": host,
        "provider": document.name.title(),
        "providerUrl": f"https://{host}",
        "category": document.category,
        "networks": ["Base", "Solana"],
        "enriched": rng.random() < 0.05,
        "integrationType": rng.choice(("1P", "3P", "")),
        "isNew": False,
        "tags": rng.sample(WORDS, 3),
        "endpoints": [_endpoint(f"https://{host}/v{n}", rng) for n in range(ENDPOINTS)],
    }


def make_resource(service: dict[str, Any], endpoint: dict[str, Any]) -> dict[str, Any]:
    """Return an endpoint of a service as a discovery feed of version 2 lists it."""
    host = service["domain"]
    parameters = endpoint["parameters"]
    group = "queryParams" if endpoint["method"] == "GET" else "body"
    examples = {each["name"]: each["example"] for each in parameters}
    properties = {
        each["name"]: {"type": each["type"], "description": each["description"]}
        for each in parameters
    }
    required = [each["name"] for each in parameters if each["required"]]
    schema = {"type": "object", "properties": properties, "required": required}
    return {
        "resource": endpoint["url"],
        "type": "http",
        "x402Version": 2,
        "accepts": [
            {
                "scheme": "exact",
                "network": "eip155:8453",
                "asset": USDC,
                "payTo": f"0x{sha256(host.encode()).hexdigest()[:40]}",
                "amount": str(round(float(endpoint["pricing"]["amount"]) * 10**6)),
                "maxTimeoutSeconds": 60,
            }
        ],
        "lastUpdated": "2026-01-01T00:00:00.000Z",
        "serviceName": service["name"],
        "description": endpoint["description"],
        "tags": service["tags"],
        "metadata": {"category": service["category"]},
        "quality": endpoint["quality"],
        "extensions": {
            "bazaar": {
                "info": {
                    "input": {"type": "http", "method": endpoint["method"], group: examples},
                    "output": {"type": "json", "example": {"description": service["description"]}},
                },
                "schema": {"properties": {"input": {"properties": {group: schema}}}},
            }
        },
    }


def _endpoint(base: str, rng: random.Random) -> dict[str, Any]:
    return {
        "url": f"{base}/{rng.choice(WORDS)}/{rng.choice(WORDS)}",
        "method": rng.choice(("GET", "POST")),
        "description": _endpoint_description(rng),
        "pricing": {
            "amount": str(rng.randint(1, 500) / 1000),
            "currency": "USDC",
            "network": "Base",
            "scheme": "exact",
        },
        "quality": _quality(rng),
        "parameters": [_parameter(rng) for _ in range(rng.randint(1, 3))],
    }


def _endpoint_description(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=12))


def _quality(rng: random.Random) -> dict[str, str]:
    calls = int(rng.paretovariate(0.6))
    return {"l30DaysTotalCalls": str(calls), "l30DaysUniquePayers": str(1 + calls // 9)}


def _parameter(rng: random.Random) -> dict[str, Any]:
    return {
        "group": rng.choice(("body", "query", "path")),
        "name": rng.choice(WORDS),
        "type": rng.choice(("string", "number", "boolean")),
        "description": "The " + " ".join(rng.choices(WORDS, k=6)),
        "required": rng.random() < 0.5,
        "example": rng.choice(WORDS),
    }
