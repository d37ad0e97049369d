"""The response cache: LRU eviction within its bytes, hits and misses, and correct responses."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import get_type_hints

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from service.app import create_app
from service.http.cache import ENTRY_OVERHEAD, CacheKey, ResponseCache, is_known
from service.http.context import Context
from service.http.responses import Cacheable
from service.settings import Settings
from tests.support.artifacts import folder
from tests.support.running import Build, examples, in_process, open_app, service


def client_of(app: ASGIApp) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a.example")


def key(number: int, snapshot_id: bytes = b"snapshot") -> CacheKey:
    return snapshot_id, str(number), b"", b"", ""


def add(cache: ResponseCache, key: CacheKey, body: bytes) -> None:
    cache.add(key, cache.encode(key, Cacheable(body), "/"))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4000)), max_size=60))
def test_the_cache_evicts_the_least_recently_used_responses(
    steps: list[tuple[int, int]],
) -> None:
    size = 24_000
    cache, entries = ResponseCache(size, 0), dict[int, int]()  # the least recently used first
    for number, length in steps:
        cached = cache.get(key(number))
        assert (cached is None) == (number not in entries)
        if cached is not None:
            assert len(cached.body) == entries[number]
            entries[number] = entries.pop(number)
            continue
        add(cache, key(number), bytes(length))
        if 1 + length + ENTRY_OVERHEAD <= size // 8:
            entries[number] = length
        while sum(1 + each + ENTRY_OVERHEAD for each in entries.values()) > size:
            del entries[next(iter(entries))]


def test_a_response_that_is_cached_twice_is_counted_once() -> None:
    cache = ResponseCache(24_000, 0)
    for _ in range(100):
        add(cache, key(1), bytes(1_900))
    add(cache, key(2), b"")
    assert cache.get(key(1))
    assert cache.get(key(2))


def test_the_bytes_of_a_query_string_count() -> None:
    cache = ResponseCache(24_000, 0)
    for number in range(9):
        path, query = str(number), bytes(3_000 - len("0") - ENTRY_OVERHEAD)
        add(cache, (b"snapshot", path, query, b"", ""), b"")
    kept = [cache.get((b"snapshot", str(number), query, b"", "")) for number in range(9)]
    assert [response is not None for response in kept] == [False, *[True] * 8]


def test_a_cache_of_size_zero_stores_nothing() -> None:
    cache = ResponseCache(0, 0)
    add(cache, key(1), b"1")
    assert cache.get(key(1)) is None


@pytest.mark.parametrize("repeated", [b"-", b'"ours-'])
def test_a_long_list_of_entity_tags_is_searched_once(repeated: bytes) -> None:
    field = b'"' + repeated * 500_000
    assert not is_known(field, b'"ours"')
    assert is_known(field + b'-br", W/"ours-br"', b'"ours"')


def hits_and_misses(metrics: httpx.Response) -> tuple[float, float]:
    counts = {"hit": 0.0, "miss": 0.0, "none": 0.0}
    for family in text_string_to_metric_families(metrics.text):
        for sample in family.samples:
            if sample.name == "ratecard_request_seconds_count":
                counts[sample.labels["cache"]] += sample.value
    return counts["hit"], counts["miss"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/services",
        "/v1/services?limit=100&unknown=1",
        "/v1/search/services?q=tide+harbour",
        "/v1/ecosystem/overview",
        "/v1/services/tidewatch-example",
        "/openapi.json",
        "/llms.txt",
        "/",
    ],
)
def test_a_repeated_request_is_a_cache_hit_for_each_coding(sample: Path, path: str) -> None:
    with open_app(sample) as client:
        for number, coding in enumerate(("identity", "gzip"), 1):
            first = client.get(path, headers={"accept-encoding": coding})
            assert hits_and_misses(client.get("/metrics")) == (number - 1, number)
            again = client.get(path, headers={"accept-encoding": coding})
            assert hits_and_misses(client.get("/metrics")) == (number, number)
            assert again.content == first.content
            ignored = {"date", "x-request-id"}
            assert {k: v for k, v in again.headers.items() if k not in ignored} == {
                k: v for k, v in first.headers.items() if k not in ignored
            }


@pytest.mark.parametrize(
    "path",
    [
        "/openapi.json?",
        "/llms.txt?",
        "/docs?",
        "/v1/services/tidewatch-example?",
        "/v1/services?limit=3",
        "/v1/search/services?q=tide",
        "/v1/search/endpoints?q=tide",
        "/v1/ecosystem/stats?timeframe=3",
        "/discovery/merchant?payTo=0xa",
        "/?q=tide",
        "/endpoints?q=tide",
        "/services/tidewatch-example?q=tide",
        "/ecosystem?",
    ],
)
def test_unknown_parameters_change_nothing_of_a_response(client: httpx.Client, path: str) -> None:
    first = client.get(path)
    for query in ("x=1", "x=1&y=2", "%6cimits=3", "&", "Qq"):
        response = client.get(f"{path}&{query}")
        assert response.content == first.content
        assert response.headers["etag"] == first.headers["etag"]


names = st.sampled_from(
    ["limit", "%6cimit", "li+mit", "offset", "q", "%71", "enriched", "x", "", "LIMIT", "off_set"]
)
values = st.sampled_from(["=1", "=2", "=tide", "=true", "", "=", "=%31", "=1;limit=2"])
targets = st.tuples(
    st.sampled_from(["/v1/services", "/v1/search/services", "/", "/discovery/resources"]),
    st.lists(st.tuples(names, values).map("".join), max_size=4).map("&".join),
).map("?".join)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(targets, min_size=2, max_size=8))
def test_the_cache_changes_no_response(sample: Path, sequence: list[str]) -> None:
    def responses(cache_bytes: int) -> list[tuple[int, bytes, str | None]]:
        app = create_app(Settings(artifacts=str(sample), cache_bytes=cache_bytes, max_lag=0))
        with in_process(app) as client:
            given = [client.get(target) for target in sequence * 2]
        return [(each.status_code, each.content, each.headers.get("etag")) for each in given]

    assert responses(1 << 20) == responses(0)


def test_responses_of_a_damaged_snapshot_go_when_it_is_replaced(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a", description="Tides")]) == 0
    records = folder(artifacts) / "records.json"
    app = create_app(Settings(artifacts=str(artifacts)))
    with in_process(app) as client:
        assert client.get("/healthz").status_code == 200
        records.write_bytes(records.read_bytes().replace(b"Tides", b"Tydes"))
        assert "Tydes" in client.get("/v1/services/a").text
        assert build([service("a", description="Tides")]) == 0
        app.state.context.snapshots.poll()
        assert "Tides" in client.get("/v1/services/a").text


def test_a_late_response_of_an_old_snapshot_leaves_the_cache_alone(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    app = create_app(Settings(artifacts=str(artifacts)))
    context: Context = app.state.context

    async def check() -> None:
        async with client_of(app) as client:

            async def answer_late(_: Request) -> Response:
                assert build([service("b")]) == 0
                await asyncio.to_thread(context.snapshots.poll)
                assert (await client.get("/v1/services/b")).status_code == 200
                return Cacheable(b"{}")

            app.routes.append(Route("/late", answer_late))
            assert (await client.get("/v1/services/a")).status_code == 200
            assert (await client.get("/late")).status_code == 200
            assert hits_and_misses(await client.get("/metrics")) == (0, 3)
            assert (await client.get("/v1/services/b")).status_code == 200
            assert hits_and_misses(await client.get("/metrics")) == (1, 3)

    asyncio.run(check())


SWITCHES = [name for name, kind in get_type_hints(Settings).items() if kind is bool]
QUERIES = {
    "/v1/search/services": "q=tide",
    "/v1/search/endpoints": "q=tide",
    "/v1/services/search": "q=tide",
    "/v1/listings": "host=api.tidewatch.example",
    "/listed": "url=https://api.tidewatch.example/",
}
"""Query strings of paths that need one, or answer more with it."""


def test_an_entity_tag_names_one_body_whatever_the_settings(sample: Path) -> None:
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    bodies = defaultdict[tuple[str, str], set[bytes]](set)
    assert {"mcp", "page", "downloads"} <= set(SWITCHES)
    for values in product((False, True), repeat=len(SWITCHES)):
        switches = dict(zip(SWITCHES, values, strict=True))
        app = create_app(replace(Settings(artifacts=str(sample), cache_bytes=0), **switches))
        paths = {route.path for route in app.routes if isinstance(route, Route)}
        for root_path in ("", "/api"):
            with in_process(app, root_path) as client:
                for path in paths:
                    target = path.replace("{id}", "tidewatch-example")
                    target += f"?{QUERIES[path]}" if path in QUERIES else ""
                    response = client.get(f"{root_path}{target}")
                    if response.status_code == 200 and "etag" in response.headers:
                        bodies[path, response.headers["etag"]].add(response.content)
    assert {"/", "/llms.txt", "/v1/search/services"} <= {path for path, _ in bodies}
    assert {key: found for key, found in bodies.items() if len(found) > 1} == {}
