"""The cache of responses: never a wrong answer, never more memory than it is given."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from functools import partial
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.http.cache import OVERHEAD, Cache, CachedResponse
from service.http.metrics import Counts
from tests.support.running import Build, Json, eventually, serve, service


def made(size: int) -> CachedResponse:
    return CachedResponse(bytes(size), b"", b"", b'"tag"')


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4000)), max_size=60))
def test_the_cache_keeps_what_was_used_last_within_its_bytes(
    steps: list[tuple[int, int]],
) -> None:
    size, counts = 24_000, Counts()
    cache, kept = Cache(size, counts), dict[bytes, int]()  # the least recently used first
    for number, length in steps:
        key = b"%d" % number
        found = cache.get(key)
        assert (found is None) == (key not in kept)
        if found is not None:
            assert len(found.body) == kept[key]
            kept[key] = kept.pop(key)
            continue
        cache.put(key, made(length))
        if 1 + length + OVERHEAD <= size // 8:
            kept[key] = length
        while sum(1 + each + OVERHEAD for each in kept.values()) > size:
            del kept[next(iter(kept))]
    assert counts.cache_hits + counts.cache_misses == len(steps)


def test_without_memory_nothing_is_kept() -> None:
    cache = Cache(0, Counts())
    cache.put(b"a", made(1))
    assert cache.get(b"a") is None


def cached(client: httpx.Client) -> tuple[float, float]:
    """How many answers came from the cache, and how many did not."""
    lines = dict(
        line.rsplit(" ", 1)
        for line in client.get("/metrics").text.splitlines()
        if line.startswith("ratecard_cache_")
    )
    return float(lines["ratecard_cache_hits_total"]), float(lines["ratecard_cache_misses_total"])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("/v1/services", "/v1/services?limit=24&offset=0&unknown=1"),
        ("/v1/services?limit=200", "/v1/services?limit=%3999"),
        ("/v1/search/services?q=tide+harbour", "/v1/services/search?q=tide%20harbour&limit=024"),
        ("/v1/ecosystem/overview", "/v1/ecosystem/overview?timeframe=30"),
        ("/v1/services/tidewatch-example", "/v1/services/tidewatch%2Dexample?x"),
    ],
)
def test_what_is_asked_in_another_way_is_made_once(
    sample: Path, client: httpx.Client, first: str, second: str
) -> None:
    with serve(sample) as alone:
        answer = alone.get(first)
        hits, misses = cached(alone)
        assert alone.get(second).content == answer.content == client.get(second).content
        assert cached(alone) == (hits + 1, misses)


@pytest.mark.parametrize(
    "service_id",
    ["Overview(timeframe=30)", "service tidewatch-example", "('openapi', '')", "gzip x"],
)
def test_an_id_cannot_stand_for_another_request(client: httpx.Client, service_id: str) -> None:
    for path in ("/v1/ecosystem/overview", "/openapi.json", "/v1/services/tidewatch-example"):
        assert client.get(path).status_code == 200
    assert client.get(f"/v1/services/{service_id}").status_code == 404


def test_cached_answers_go_with_their_snapshot(artifacts: Path, build: Build) -> None:
    assert build([service("a", description="old weather")]) == 0
    paths = ("/v1/services", "/v1/search/services?q=weather", "/v1/services/a")
    with serve(artifacts) as client:
        for path in paths * 2:
            assert "old weather" in client.get(path).text
        assert build([service("a", description="new weather")]) == 0
        eventually(partial(tells, client, "/v1/services/a", "new weather"))
        for path in paths:
            assert "new weather" in client.get(path).text


def tells(client: httpx.Client, path: str, text: str) -> bool:
    return text in client.get(path).text


def test_a_cache_too_small_for_an_answer_changes_no_answer(
    sample: Path, client: httpx.Client, seeds: list[Json]
) -> None:
    with serve(sample, "--cache-bytes", "30000") as small:
        for record in seeds[:60]:
            path = f"/v1/services/{record.get('id', 'tidewatch-example')}"
            assert small.get(path).content == client.get(path).content
        for path in ("/v1/services?limit=200", "/v1/services?limit=3") * 2:
            assert small.get(path).content == client.get(path).content


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_decodes_what_was_compressed_once(client: httpx.Client) -> None:
    address = f"{client.base_url}/v1/services?limit=50"
    command = ["curl", "-s", "--header", "Accept-Encoding: gzip", address]
    plain = client.get("/v1/services?limit=50", headers={"Accept-Encoding": "identity"}).content
    for _ in range(2):
        sent = subprocess.run(command, capture_output=True, check=True).stdout
        assert gzip.decompress(sent) == plain
        shown = subprocess.run([*command, "--compressed"], capture_output=True, check=True).stdout
        assert shown == plain
