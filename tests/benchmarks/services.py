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
            file.write(json.dumps(_service(number, document, rng)) + "\n")


def _service(number: int, document: Document, rng: random.Random) -> dict[str, Any]:
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
    calls = int(rng.paretovariate(0.6))
    return {
        "url": f"{base}/{rng.choice(WORDS)}/{rng.choice(WORDS)}",
        "method": rng.choice(("GET", "POST")),
        "description": " ".join(rng.choices(WORDS, k=12)),
        "pricing": {
            "amount": str(rng.randint(1, 500) / 1000),
            "currency": "USDC",
            "network": "Base",
            "scheme": "exact",
        },
        "quality": {"l30DaysTotalCalls": str(calls), "l30DaysUniquePayers": str(1 + calls // 9)},
        "parameters": [_parameter(rng) for _ in range(rng.randint(1, 3))],
    }


def _parameter(rng: random.Random) -> dict[str, Any]:
    return {
        "group": rng.choice(("body", "query", "path")),
        "name": rng.choice(WORDS),
        "type": rng.choice(("string", "number", "boolean")),
        "description": "The " + " ".join(rng.choices(WORDS, k=6)),
        "required": rng.random() < 0.5,
        "example": rng.choice(WORDS),
    }
