"""Bytes that the server costs a conversation: definitions, and answers to real queries."""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from indexer.__main__ import main
from service.app import create_app
from service.settings import Settings
from tests.support.clients.mcp import ERAS, call, headers_of, message_of
from tests.support.running import SHARED, serve

MAX_DEFINITIONS = 4992
MAX_STRUCTURED = 1800
MAX_TEXT = 1200
QUERIES = 25  # of each judged set
CATALOGUES = [*sorted((SHARED / "bazaar").glob("*.json")), *(SHARED / "agentic").glob("*.json")]
JUDGED = sorted((SHARED / "relevance").glob("*/queries.jsonl"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a service with a catalogue of real services."""
    if not (CATALOGUES and JUDGED):
        pytest.skip(f"{SHARED} is missing: it has the real services and queries")
    artifacts = tmp_path_factory.mktemp("sizes") / "artifacts"
    assert main(["build", *map(str, CATALOGUES), "--out", str(artifacts)]) == 0
    with serve(artifacts, "--mcp") as client:
        yield client


@pytest.fixture(scope="module")
def queries() -> list[str]:
    """Real queries, some of each set, evenly chosen."""
    chosen = []
    for path in JUDGED:
        lines = path.read_text().splitlines()
        chosen += lines[:: max(len(lines) // QUERIES, 1)]
    return [json.loads(line)["query"] for line in chosen]


@pytest.mark.parametrize("era", ERAS)
def test_all_definitions_fit_as_a_client_receives_them(sample: Path, era: str) -> None:
    """Measure the bodies of the responses, with their envelopes."""
    app = create_app(Settings(artifacts=str(sample), mcp=True))
    methods = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")

    async def list_all() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return [
                await client.post(
                    "/mcp", json=message_of(era, method), headers=headers_of(era, method)
                )
                for method in methods
            ]

    tools, *others = asyncio.run(list_all())
    assert len(tools.json()["result"]["tools"]) == 5
    assert len(tools.content) <= MAX_DEFINITIONS
    for method, response in zip(methods[1:], others, strict=True):
        (definitions,) = (each for each in response.json()["result"].values() if type(each) is list)
        assert len(definitions) == 1, method
        assert size(definitions) < 500


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("search_endpoints", {}),
        ("search_endpoints", {"max_price_usd": 0.01, "network": "Base"}),
        ("search_services", {}),
    ],
)
def test_five_rows_for_real_queries_are_small(
    served: httpx.Client, queries: list[str], name: str, arguments: dict[str, Any]
) -> None:
    structured, texts = [], []
    for query in queries:
        result = call(served, name, query=query, **arguments)
        page = result["structuredContent"]
        rows = page.get("endpoints") or page.get("services")
        if rows is None or len(rows) < 5:
            continue
        (content,) = result["content"]
        structured.append(size(page))
        texts.append(len(content["text"].encode()))
        assert sum(line.startswith("[") for line in content["text"].splitlines()) == 5
    assert len(structured) > len(queries) // 2
    assert percentile_90(structured) <= MAX_STRUCTURED
    assert percentile_90(texts) <= MAX_TEXT


def size(value: Any) -> int:
    """Return the bytes of a value as compact JSON."""
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def percentile_90(sizes: list[int]) -> float:
    return statistics.quantiles(sizes, n=10)[-1]
