"""Catalogue records of realistic size: about 3 KB of JSON with five endpoints each."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.benchmarks.corpus import Document

ENDPOINTS = 5
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
