"""Bytes that the server costs a conversation: definitions, and five rows of searches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from service.app import create_app
from service.settings import Settings
from tests.support.clients.mcp import ERAS, headers_of, message_of, run_client, text_of
from tests.support.running import in_process

MAX_DEFINITIONS = 4800
MAX_ROWS = 900
MAX_STRUCTURED = 1230
QUERIES = (
    *("weather forecast", "tide table", "text from an image", "price of gold", "translate speech"),
    *("news", "maps", "web search", "send an email", "pdf", "image generation", "bank holidays"),
)


@pytest.mark.parametrize("era", ERAS)
def test_all_definitions_fit_as_a_client_receives_them(sample: Path, era: str) -> None:
    """Measure the body of the response, with its envelope."""
    app = create_app(Settings(artifacts=str(sample), mcp=True))
    message, headers = message_of(era, "tools/list"), headers_of(era, "tools/list")
    with in_process(app) as client:
        response = client.post("http://localhost/mcp", json=message, headers=headers)
    assert len(response.json()["result"]["tools"]) == 5
    assert len(response.content) <= MAX_DEFINITIONS


@pytest.mark.parametrize("name", ["search_endpoints", "search_services"])
def test_five_rows_of_a_search_are_small(sample: Path, name: str) -> None:
    async def use(client: Any) -> list[tuple[int, int]]:
        sizes = []
        for query in QUERIES:
            result = await client.call_tool(name, {"query": query})
            text = text_of(result)
            assert sum(line.startswith("[") for line in text.splitlines()) == 5
            content = json.dumps(result.structured_content, separators=(",", ":"))
            sizes.append((len(text.encode()), len(content)))
        return sizes

    for text, structured in run_client(sample, use):
        assert text <= MAX_ROWS
        assert structured <= (MAX_STRUCTURED if name == "search_endpoints" else 2 * MAX_ROWS)
