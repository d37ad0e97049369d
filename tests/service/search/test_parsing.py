"""A request parses its query once, however many searches it makes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.app import create_app
from service.search import query as query_module
from service.search.query import QueryParser
from service.settings import Settings
from service.snapshot import open_snapshot
from tests.support.running import in_process

PATHS = (
    "/",
    "/endpoints",
    "/v1/search/services",
    "/v1/search/endpoints",
    "/discovery/search?query=weather+forecast",
)
FILTERS = "network=base&category=Weather&maxPrice=0.5&facets=category,network&explain=true"


class Spy:
    """Counts the queries that are cut into words, expanded and encoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts = dict.fromkeys(("query_words", "expand", "encode_query"), 0)
        for name in ("query_words", "encode_query"):
            monkeypatch.setattr(query_module, name, self._wrap(name, vars(query_module)[name]))
        monkeypatch.setattr(QueryParser, "expand", self._wrap("expand", QueryParser.expand))

    def _wrap(self, name: str, function: Any) -> Any:
        def counted(*arguments: Any) -> Any:
            self.counts[name] += 1
            return function(*arguments)

        return counted


@pytest.fixture(scope="module")
def client(sample: Path) -> Iterator[httpx.Client]:
    with in_process(create_app(Settings(artifacts=str(sample)))) as client:
        client.get("/v1/services")  # opens the snapshot, and warms it up
        yield client


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    return Spy(monkeypatch)


@pytest.mark.parametrize("filters", ["", FILTERS])
@pytest.mark.parametrize("path", PATHS)
def test_a_request_parses_its_query_once(
    client: httpx.Client, spy: Spy, path: str, filters: str
) -> None:
    query = f"&{filters}" if "?" in path else f"?q=weather+forecast&{filters}"
    assert client.get(path + query).status_code == 200
    assert spy.counts == {"query_words": 1, "expand": 1, "encode_query": 1}


def test_a_page_of_a_service_parses_its_query_once(
    client: httpx.Client, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service_id = open_snapshot(sample).search("weather").ids[0]
    spy = Spy(monkeypatch)
    assert client.get(f"/services/{service_id}?q=tide+tables").status_code == 200
    assert spy.counts["expand"] <= 1


@pytest.mark.parametrize("tool", ["search_endpoints", "search_services"])
def test_a_call_of_a_tool_parses_its_query_once(sample: Path, spy: Spy, tool: str) -> None:
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    from tests.support.clients.mcp import structured  # noqa: PLC0415  # an optional dependency

    arguments = {"max_price_usd": 0.001, "network": "base"} if tool == "search_endpoints" else {}
    structured(sample, tool, query="weather")  # opens the snapshot
    spy.counts.update(dict.fromkeys(spy.counts, 0))
    structured(sample, tool, query=f"the weather of {tool}", **arguments)
    assert spy.counts == {"query_words": 1, "expand": 1, "encode_query": 1}
